//! Metadata entries: what each expected message has in the receiver's memory (section 2.4, Table
//! 2).

use std::ops::Range;
use std::sync::Arc;

use hamlyn_abi::hamlyn::metadata::{HAMLYN_METADATA_SIZE, HAMLYN_ONE_SHOT_LOCKED, HAMLYN_ONE_SHOT_OPEN};
use hamlyn_abi::hamlyn::request::HAMLYN_MAX_METADATA;
use hamlyn_sys::Mapping;

use crate::core::card::settle;
use crate::core::key::random_key;
use crate::core::memory::Memory;
use crate::error::{Result, at_most};
use crate::hamlyn::attach::Attachment;

/// Offsets in an entry, in bytes; a test compares them with the contract's structure.
const ACCUMULATOR: usize = 60;
const KEY: usize = 64;
const LOW: usize = 72;
const HIGH: usize = 80;
const RECEIVE_CLASS: usize = 88;
const ONE_SHOT: usize = 96;

/// A low limit that no offset of a packet reaches.
const CLOSED: u64 = u64::MAX;

/// One entry of a slot's metadata area. All of it is the receiver's to write, with no system call.
///
/// # The paranoid modes (section 2.7)
///
/// A server with mutually suspicious clients gives each an entry with a key and bounds of its own
/// ([`MetadataEntry::protect`]) and a ticket for it ([`crate::Slot::ticket`]). It takes a client's
/// right away by another key ([`MetadataEntry::revoke`]), which no other entry notices. In one-shot
/// mode it calls [`MetadataEntry::reopen`] once it has processed a message; until then nobody
/// changes the message, and nobody sends another.
///
/// The key and the bounds are separate words, so they change in an order in which nobody ever gets
/// more than before or after: first the entry is closed to all, then the new high limit and key are
/// stored, and last the new low limit, which opens it. What the entry holds can only narrow what
/// the slot opens, whatever its owner stores.
///
/// A packet that the card is checking at this very moment may still be judged by the entry as it
/// was, though never by words of before and after together: the card looks twice. So a new key is
/// stored in four steps: the entry is closed, the card settles ([`crate::Card::settle`]), the
/// packet count and the metadata are zeroed, the entry opens. Nothing that an earlier key's holder
/// has written to the entry is counted to, or read with, a message of the next. The message area is
/// the owner's to clear: bytes that the earlier holder sent stay there until others are written
/// over them.
///
/// # Messages that are not whole
///
/// An entry whose packet count is not 0 has had some packets of a message, or of a group of them,
/// and not all ([`MetadataEntry::is_partial`]). If a process or a host that sends ends meanwhile,
/// its card takes back the packets that it has sent, and the count is 0 again. Where the card
/// itself or the switch is lost, the count stays. Then no later message of several packets is
/// counted right, until the owner resets the entry ([`MetadataEntry::revoke`], or
/// [`MetadataEntry::forget`] if the tickets are to stay valid).
#[derive(Debug, Clone)]
pub struct MetadataEntry {
    area: Arc<MetadataArea>,
    start: usize,
}

/// The memory of a slot's metadata entries, and the card that writes to it.
#[derive(Debug)]
pub(crate) struct MetadataArea {
    memory: Memory,
    attachment: Arc<dyn Attachment>,
}

impl MetadataArea {
    pub(crate) fn new(memory: Memory, attachment: &Arc<dyn Attachment>) -> Arc<Self> {
        Arc::new(Self { memory, attachment: attachment.clone() })
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl MetadataEntry {
    pub(crate) fn new(area: Arc<MetadataArea>, index: u32) -> Result<Self> {
        let size = HAMLYN_METADATA_SIZE as usize;
        at_most("metadata index", index.into(), (area.memory.len() / size) as u64 - 1)?;
        Ok(Self { area, start: index as usize * size })
    }

    #[inline]
    fn mapping(&self) -> &Mapping {
        self.area.memory.mapping()
    }

    /// The metadata that the message's first packet carried: as many bytes as the sender gave, then
    /// zeros in one-shot mode, else what was there.
    #[must_use]
    pub fn user(&self) -> [u8; HAMLYN_MAX_METADATA as usize] {
        let mut user = [0; HAMLYN_MAX_METADATA as usize];
        self.mapping().read(self.start, &mut user);
        user
    }

    /// The packet accumulator (section 2.5): zero when no message is half-way.
    #[must_use]
    pub fn accumulator(&self) -> u32 {
        self.mapping().load_u32(self.start + ACCUMULATOR)
    }

    /// Whether packets of a message have arrived, and not all of them. A message that is arriving
    /// right now is partial, too: only one that stays so is lost.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.is_locked() && self.accumulator() != 0
    }

    /// Gives up a message that is not whole: the entry counts from 0 again. Its tickets stay valid,
    /// so a packet that its sender still sends counts to the next message:
    /// [`MetadataEntry::revoke`] keeps it out.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the card cannot be reached. In the paranoid modes the entry
    /// stays closed then, until [`MetadataEntry::protect`].
    pub fn forget(&self) -> Result<()> {
        self.protect(self.key(), self.opens())
    }

    /// Sets the packet accumulator. A packet that is just arriving may be counted before or after
    /// it.
    pub fn set_accumulator(&self, value: u32) {
        self.mapping().store_u32(self.start + ACCUMULATOR, value);
    }

    /// The key that supersedes the slot's in the paranoid modes (section 2.7).
    #[must_use]
    pub fn key(&self) -> u64 {
        self.mapping().load_u64(self.start + KEY)
    }

    /// Gives the entry a key and the bytes of the message area that it opens, counted from the
    /// slot's start, for the paranoid modes (section 2.7). A good key is [`crate::random_key`]. It
    /// starts with a packet count of 0. A message that waits for [`MetadataEntry::reopen`] goes on
    /// waiting.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the card cannot be reached: then the entry stays closed.
    pub fn protect(&self, key: u64, bytes: Range<u64>) -> Result<()> {
        self.close();
        settle(&*self.area.attachment)?;
        if self.is_locked() {
            self.set_accumulator(0);
        } else {
            self.clear();
        }
        self.open(key, bytes);
        Ok(())
    }

    /// [`MetadataEntry::protect`] for an entry that nobody has a ticket for yet.
    pub(crate) fn open(&self, key: u64, bytes: Range<u64>) {
        self.close();
        let mapping = self.mapping();
        mapping.store_u64_release(self.start + HIGH, bytes.end);
        mapping.store_u64_release(self.start + KEY, key);
        mapping.store_u64_release(self.start + LOW, bytes.start);
    }

    /// Revokes all tickets for the entry: it gets a new key, and its bounds stay. Other entries,
    /// and so other senders, do not notice (section 2.7). When this returns no packet of an old
    /// ticket is accepted, or counted, any more.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the kernel has no random key to give; then the entry is as it
    /// was. [`crate::Error::System`] if the card cannot be reached: then the entry stays closed,
    /// until [`MetadataEntry::protect`].
    pub fn revoke(&self) -> Result<()> {
        self.protect(random_key()?, self.opens())
    }

    /// Closes the entry to all, whatever their key, until [`MetadataEntry::protect`]. For the
    /// paranoid modes.
    pub fn close(&self) {
        self.mapping().store_u64_release(self.start + LOW, CLOSED);
    }

    /// The bytes of the message area that the entry opens, for the paranoid modes.
    #[must_use]
    pub fn opens(&self) -> Range<u64> {
        let mapping = self.mapping();
        mapping.load_u64(self.start + LOW)..mapping.load_u64(self.start + HIGH)
    }

    /// The library's receive class pointer (Table 2): whom the manager calls when a message has
    /// come here ([`crate::ReceiveClass::pointer`]). The card leaves it alone, and no sender
    /// reaches it.
    #[must_use]
    pub fn receive_class(&self) -> u64 {
        self.mapping().load_u64(self.start + RECEIVE_CLASS)
    }

    /// Sets the receive class pointer. Where no manager is, it is any number that finds the
    /// receiver again.
    pub fn set_receive_class(&self, value: u64) {
        self.mapping().store_u64(self.start + RECEIVE_CLASS, value);
    }

    /// Paranoid one-shot mode: whether the entry has had its message and waits for
    /// [`MetadataEntry::reopen`].
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.mapping().load_u32_acquire(self.start + ONE_SHOT) == HAMLYN_ONE_SHOT_LOCKED
    }

    /// Paranoid one-shot mode: lets the entry take its next message, with metadata of zeros and a
    /// packet count of 0. Does nothing if the entry is not locked.
    pub fn reopen(&self) {
        // While it is locked the card writes nothing to it.
        if self.is_locked() {
            self.clear();
            self.mapping().store_u32_release(self.start + ONE_SHOT, HAMLYN_ONE_SHOT_OPEN);
        }
    }

    /// Zeroes what senders write to: the metadata and the accumulator.
    fn clear(&self) {
        for offset in (0..ACCUMULATOR + 4).step_by(8) {
            self.mapping().store_u64(self.start + offset, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use hamlyn_abi::hamlyn::metadata::HamlynMetadataEntry;

    use super::*;

    #[test]
    fn offsets_are_those_of_the_contract() {
        assert_eq!(offset_of!(HamlynMetadataEntry, user), 0);
        assert_eq!(offset_of!(HamlynMetadataEntry, accumulator), ACCUMULATOR);
        assert_eq!(offset_of!(HamlynMetadataEntry, key), KEY);
        assert_eq!(offset_of!(HamlynMetadataEntry, low), LOW);
        assert_eq!(offset_of!(HamlynMetadataEntry, high), HIGH);
        assert_eq!(offset_of!(HamlynMetadataEntry, receive_class), RECEIVE_CLASS);
        assert_eq!(offset_of!(HamlynMetadataEntry, one_shot), ONE_SHOT);
        assert_eq!(size_of::<HamlynMetadataEntry>(), HAMLYN_METADATA_SIZE as usize);
    }
}
