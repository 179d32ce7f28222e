//! Metadata entries: what each expected message has in the receiver's memory (section 2.4, Table 2).

use std::ops::Range;
use std::sync::Arc;

use hamlyn_abi::hamlyn::metadata::{HAMLYN_METADATA_SIZE, HAMLYN_ONE_SHOT_LOCKED, HAMLYN_ONE_SHOT_OPEN};
use hamlyn_abi::hamlyn::request::HAMLYN_MAX_METADATA;

use crate::core::key::random_key;
use crate::core::memory::Memory;
use crate::error::{Result, at_most};

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
/// ([`MetadataEntry::protect`]) and a ticket for it ([`crate::Slot::ticket`]). It takes a client's right away by another key
/// ([`MetadataEntry::revoke`]), which no other entry notices. In one-shot mode it calls [`MetadataEntry::reopen`] once it
/// has processed a message; until then nobody changes the message, and nobody sends another.
///
/// The key and the bounds are separate words, so they change in an order in which nobody ever gets more than before or
/// after: first the entry is closed to all, then the new high limit and key are stored, and last the new low limit, which
/// opens it. What the entry holds can only narrow what the slot opens, whatever its owner stores.
///
/// A packet that the card is checking at this very moment may still be judged by the entry as it was, though never by
/// words of before and after together: the card looks twice. To give a revoked sender's bytes to another use, and be certain,
/// [`MetadataEntry::close`] the entry, wait for such a packet ([`crate::Card::settle`]), and then protect it anew. If that sender
/// stopped half-way in a message, set the accumulator to 0 as well.
#[derive(Debug, Clone)]
pub struct MetadataEntry {
    memory: Arc<Memory>,
    start: usize,
}

impl MetadataEntry {
    pub(crate) fn new(memory: Arc<Memory>, index: u32) -> Result<Self> {
        let size = HAMLYN_METADATA_SIZE as usize;
        at_most("metadata index", index.into(), (memory.len() / size) as u64 - 1)?;
        Ok(Self { memory, start: index as usize * size })
    }

    /// The metadata that the message's first packet carried: as many bytes as the sender gave, then what was there.
    #[must_use]
    pub fn user(&self) -> [u8; HAMLYN_MAX_METADATA as usize] {
        let mut user = [0; HAMLYN_MAX_METADATA as usize];
        self.memory.mapping().read(self.start, &mut user);
        user
    }

    /// The packet accumulator (section 2.5): zero when no message is half-way.
    #[must_use]
    pub fn accumulator(&self) -> u32 {
        self.memory.mapping().load_u32(self.start + ACCUMULATOR)
    }

    /// Sets the packet accumulator, to give up on a message that will never be whole.
    pub fn set_accumulator(&self, value: u32) {
        self.memory.mapping().store_u32(self.start + ACCUMULATOR, value);
    }

    /// The key that supersedes the slot's in the paranoid modes (section 2.7).
    #[must_use]
    pub fn key(&self) -> u64 {
        self.memory.mapping().load_u64(self.start + KEY)
    }

    /// Gives the entry a key and the bytes of the message area that it opens, counted from the slot's start, for the
    /// paranoid modes (section 2.7). A good key is [`crate::random_key`].
    pub fn protect(&self, key: u64, bytes: Range<u64>) {
        self.close();
        let mapping = self.memory.mapping();
        mapping.store_u64_release(self.start + HIGH, bytes.end);
        mapping.store_u64_release(self.start + KEY, key);
        mapping.store_u64_release(self.start + LOW, bytes.start);
    }

    /// Takes the right away from who holds a ticket for the entry: it gets a new key, and its bounds stay. Other entries,
    /// and so other senders, do not notice (section 2.7).
    ///
    /// # Errors
    /// [`crate::Error::System`] if the kernel has no random key to give; then the entry is as it was.
    pub fn revoke(&self) -> Result<()> {
        let key = random_key()?;
        self.memory.mapping().store_u64_release(self.start + KEY, key);
        Ok(())
    }

    /// Closes the entry to all, whatever their key, until [`MetadataEntry::protect`]. For the paranoid modes.
    pub fn close(&self) {
        self.memory.mapping().store_u64_release(self.start + LOW, CLOSED);
    }

    /// The bytes of the message area that the entry opens, for the paranoid modes.
    #[must_use]
    pub fn opens(&self) -> Range<u64> {
        let mapping = self.memory.mapping();
        mapping.load_u64(self.start + LOW)..mapping.load_u64(self.start + HIGH)
    }

    /// The library's receive class pointer (Table 2): whom the manager calls when a message has come here
    /// ([`crate::ReceiveClass::pointer`]). The card leaves it alone, and no sender reaches it.
    #[must_use]
    pub fn receive_class(&self) -> u64 {
        self.memory.mapping().load_u64(self.start + RECEIVE_CLASS)
    }

    /// Sets the receive class pointer. Where no manager is, it is any number that finds the receiver again.
    pub fn set_receive_class(&self, value: u64) {
        self.memory.mapping().store_u64(self.start + RECEIVE_CLASS, value);
    }

    /// Paranoid one-shot mode: whether the entry has had its message and waits for [`MetadataEntry::reopen`].
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.memory.mapping().load_u32_acquire(self.start + ONE_SHOT) == HAMLYN_ONE_SHOT_LOCKED
    }

    /// Paranoid one-shot mode: lets the entry take its next message.
    pub fn reopen(&self) {
        self.memory.mapping().store_u32_release(self.start + ONE_SHOT, HAMLYN_ONE_SHOT_OPEN);
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use hamlyn_abi::hamlyn::metadata::HamlynMetadataEntry;
    use hamlyn_sys::Mapping;

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

    #[test]
    fn fields_are_the_owners_to_write() {
        let memory = Arc::new(Memory::local(Mapping::anonymous(256).unwrap(), 256));
        let entry = MetadataEntry::new(memory.clone(), 1).unwrap();
        entry.protect(7, 16..32);
        entry.set_receive_class(9);
        entry.set_accumulator(3);
        assert_eq!(
            (entry.key(), entry.opens(), entry.receive_class(), entry.accumulator()),
            (7, 16..32, 9, 3)
        );
        entry.revoke().unwrap();
        assert!(entry.key() != 7 && entry.opens() == (16..32));
        entry.close();
        assert!(entry.opens().is_empty());
        memory.mapping().store_u32(128 + ONE_SHOT, HAMLYN_ONE_SHOT_LOCKED);
        assert!(entry.is_locked());
        entry.reopen();
        assert!(!entry.is_locked());
        let error = MetadataEntry::new(memory, 2).unwrap_err().to_string();
        assert_eq!(error, "metadata index 2 is out of range (limit 1)");
    }
}
