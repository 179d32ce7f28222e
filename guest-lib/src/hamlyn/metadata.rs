//! Metadata entries: the state of each expected message in the receiver's memory (section 2.4,
//! Table 2).

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

/// Offsets in an entry, in bytes. A test compares them with the ABI structure.
const ACCUMULATOR: usize = 60;
const KEY: usize = 64;
const LOW: usize = 72;
const HIGH: usize = 80;
const RECEIVE_CLASS: usize = 88;
const ONE_SHOT: usize = 96;

/// A low limit that no packet's offset reaches.
const CLOSED: u64 = u64::MAX;

/// One entry of a slot's metadata area. The receiver may write all of it, without a system call.
///
/// # The paranoid modes (section 2.7)
///
/// A server with mutually suspicious clients gives each client an entry with its own key and bounds
/// ([`MetadataEntry::protect`]), and a ticket for it ([`crate::Slot::ticket`]). The server revokes
/// a client's access by changing the key ([`MetadataEntry::revoke`]), which affects no other entry.
/// In one-shot mode the server calls [`MetadataEntry::reopen`] once it has processed a message.
/// Until then no sender can change the message or send another.
///
/// The key and the bounds are separate words. They change in an order in which no sender ever gets
/// more access than before or after. First the entry is closed to all, then the new high limit and
/// key are stored, and last the new low limit, which opens it. Whatever the owner stores, the entry
/// can only narrow what the slot opens.
///
/// A packet that the card is checking at this moment may still be checked against the old entry. It
/// is never checked against a mix of old and new words, because the card reads the words twice. So
/// a new key is stored in four steps: the entry is closed, the card settles
/// ([`crate::Card::settle`]), the packet count and the metadata are zeroed, the entry opens.
/// Nothing that the holder of an earlier key wrote to the entry is counted or read as part of a
/// later message. The owner must clear the message area itself: bytes from the earlier holder stay
/// there until they are overwritten.
///
/// # Incomplete messages
///
/// If an entry's packet count is not 0, only some packets of a message, or of a group of messages,
/// have arrived ([`MetadataEntry::is_partial`]). If the sending process or host dies meanwhile, its
/// card takes back the packets that it has sent, and the count becomes 0 again. If the card itself
/// or the switch is lost, the count stays. Then no later message of several packets is counted
/// correctly until the owner resets the entry. [`MetadataEntry::revoke`] does that, or
/// [`MetadataEntry::forget`] if the tickets must stay valid.
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

    /// Returns the metadata of the message's first packet: as many bytes as the sender gave. The
    /// remaining bytes are zeros in one-shot mode, otherwise what was there before.
    #[must_use]
    pub fn user(&self) -> [u8; HAMLYN_MAX_METADATA as usize] {
        let mut user = [0; HAMLYN_MAX_METADATA as usize];
        self.mapping().read(self.start, &mut user);
        user
    }

    /// Returns the packet accumulator (section 2.5). It is zero when no message is incomplete.
    #[must_use]
    pub fn accumulator(&self) -> u32 {
        self.mapping().load_u32(self.start + ACCUMULATOR)
    }

    /// Returns true if some but not all packets of a message have arrived. This includes a message
    /// that is arriving right now: a message is lost only if it stays partial.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.is_locked() && self.accumulator() != 0
    }

    /// Discards an incomplete message: the entry counts from 0 again. Its tickets stay valid, so a
    /// packet that the sender still sends counts towards the next message.
    /// [`MetadataEntry::revoke`] keeps such packets out.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the card cannot be reached. In the paranoid modes the entry then
    /// stays closed until [`MetadataEntry::protect`].
    pub fn forget(&self) -> Result<()> {
        self.protect(self.key(), self.opens())
    }

    /// Sets the packet accumulator. A packet that arrives at the same time may be counted before or
    /// after this.
    pub fn set_accumulator(&self, value: u32) {
        self.mapping().store_u32(self.start + ACCUMULATOR, value);
    }

    /// Returns the key that supersedes the slot's key in the paranoid modes (section 2.7).
    #[must_use]
    pub fn key(&self) -> u64 {
        self.mapping().load_u64(self.start + KEY)
    }

    /// Sets the entry's key and the range of the message area that it opens, for the paranoid modes
    /// (section 2.7). The range counts from the slot's start. A good key is [`crate::random_key`].
    /// The packet count starts at 0. A message that waits for [`MetadataEntry::reopen`] keeps
    /// waiting.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the card cannot be reached; the entry then stays closed.
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

    /// Like [`MetadataEntry::protect`], for an entry that no ticket was given out for yet.
    pub(crate) fn open(&self, key: u64, bytes: Range<u64>) {
        self.close();
        let mapping = self.mapping();
        mapping.store_u64_release(self.start + HIGH, bytes.end);
        mapping.store_u64_release(self.start + KEY, key);
        mapping.store_u64_release(self.start + LOW, bytes.start);
    }

    /// Revokes all tickets for the entry: it gets a new key, and its bounds stay. Other entries,
    /// and so other senders, are not affected (section 2.7). When this returns, packets of old
    /// tickets are no longer accepted or counted.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the kernel cannot provide a random key; the entry is then
    /// unchanged. [`crate::Error::System`] if the card cannot be reached; the entry then stays
    /// closed until [`MetadataEntry::protect`].
    pub fn revoke(&self) -> Result<()> {
        self.protect(random_key()?, self.opens())
    }

    /// Closes the entry to all keys until [`MetadataEntry::protect`]. For the paranoid modes.
    pub fn close(&self) {
        self.mapping().store_u64_release(self.start + LOW, CLOSED);
    }

    /// Returns the range of the message area that the entry opens, for the paranoid modes.
    #[must_use]
    pub fn opens(&self) -> Range<u64> {
        let mapping = self.mapping();
        mapping.load_u64(self.start + LOW)..mapping.load_u64(self.start + HIGH)
    }

    /// Returns the library's receive class pointer (Table 2). It identifies the receiver that the
    /// manager calls when a message arrives here ([`crate::ReceiveClass::pointer`]). The card does
    /// not use it, and no sender can reach it.
    #[must_use]
    pub fn receive_class(&self) -> u64 {
        self.mapping().load_u64(self.start + RECEIVE_CLASS)
    }

    /// Sets the receive class pointer. Without a manager, it may be any number that identifies the
    /// receiver.
    pub fn set_receive_class(&self, value: u64) {
        self.mapping().store_u64(self.start + RECEIVE_CLASS, value);
    }

    /// Paranoid one-shot mode: returns true if the entry has received its message and waits for
    /// [`MetadataEntry::reopen`].
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.mapping().load_u32_acquire(self.start + ONE_SHOT) == HAMLYN_ONE_SHOT_LOCKED
    }

    /// Paranoid one-shot mode: lets the entry accept its next message, with zeroed metadata and a
    /// packet count of 0. Does nothing if the entry is not locked.
    pub fn reopen(&self) {
        // The card writes nothing to a locked entry.
        if self.is_locked() {
            self.clear();
            self.mapping().store_u32_release(self.start + ONE_SHOT, HAMLYN_ONE_SHOT_OPEN);
        }
    }

    /// Zeroes what senders can write: the metadata and the accumulator.
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
