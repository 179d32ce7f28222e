//! The mapped structures of the data path: what `hamlyn_abi::hamlyn::{window, notification}` lay out.

use std::io;
use std::mem::offset_of;
use std::sync::Arc;

use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_SIZE, HAMLYN_QUEUE_MAX_ENTRIES, HamlynNotification,
};
use hamlyn_abi::hamlyn::window::{
    HAMLYN_ENTRY_SIZE, HAMLYN_WINDOW_AWAKE, HAMLYN_WINDOW_SIZE, HAMLYN_WINDOW_TAIL, HAMLYN_WINDOW_WORK_QUEUE,
    HAMLYN_WORK_QUEUE_ENTRIES, HamlynTerminusStatus,
};

use crate::barrier;
use crate::mapping::Mapping;

/// Where in a notification its `wrap` word is.
const WRAP: usize = offset_of!(HamlynNotification, wrap);

/// A send terminus as its owner sees it: the work queue and the two words beside it (section 2.3).
#[derive(Debug)]
pub struct Window(Arc<Mapping>);

impl Window {
    /// A terminus' window, of `HAMLYN_WINDOW_SIZE` bytes.
    ///
    /// # Errors
    /// `EINVAL` if the mapping is smaller.
    pub fn new(mapping: Arc<Mapping>) -> io::Result<Self> {
        at_least(&mapping, HAMLYN_WINDOW_SIZE as usize)?;
        Ok(Self(mapping))
    }

    /// Fills work-queue entry `number % 64` with up to 512 bytes; the rest of the entry stays as it is.
    pub fn fill_entry(&self, number: u32, request: &[u8]) {
        let entry = (number % HAMLYN_WORK_QUEUE_ENTRIES) * HAMLYN_ENTRY_SIZE;
        let request = &request[..request.len().min(HAMLYN_ENTRY_SIZE as usize)];
        self.0.write((HAMLYN_WINDOW_WORK_QUEUE + entry) as usize, request);
    }

    /// Publishes the entries below `tail`. True if the card is asleep, so that its doorbell must be rung.
    #[must_use]
    pub fn publish_request(&self, tail: u32) -> bool {
        self.0.store_u32_release(HAMLYN_WINDOW_TAIL as usize, tail);
        barrier::before_awake_check();
        self.0.load_u32(HAMLYN_WINDOW_AWAKE as usize) == 0
    }
}

/// The words by which the card says how far a terminus is, and what became of each request (section 2.3).
#[derive(Debug)]
pub struct StatusWords(Arc<Mapping>);

impl StatusWords {
    /// The page that starts with the words.
    ///
    /// # Errors
    /// `EINVAL` if the mapping is smaller than the words.
    pub fn new(mapping: Arc<Mapping>) -> io::Result<Self> {
        at_least(&mapping, size_of::<HamlynTerminusStatus>())?;
        Ok(Self(mapping))
    }

    /// How many requests the card has finished with, modulo 2^32.
    #[must_use]
    pub fn completed(&self) -> u32 {
        self.0.load_u32_acquire(offset_of!(HamlynTerminusStatus, completed))
    }

    /// What became of the request that was last in entry `number % 64`: `HAMLYN_REASON_SENT` or a refusal's number.
    ///
    /// It is that of request `number` once [`StatusWords::completed`] has passed it and until the entry is used again.
    #[must_use]
    pub fn reason(&self, number: u32) -> u32 {
        let entry = (number % HAMLYN_WORK_QUEUE_ENTRIES) as usize;
        self.0.load_u32(offset_of!(HamlynTerminusStatus, reasons) + entry * size_of::<u32>())
    }

    /// The word that a fetch-and-op found, for the request that was last in entry `number % 64`; see
    /// [`StatusWords::reason`].
    #[must_use]
    pub fn fetched(&self, number: u32) -> u64 {
        let entry = (number % HAMLYN_WORK_QUEUE_ENTRIES) as usize;
        self.0.load_u64(offset_of!(HamlynTerminusStatus, fetched) + entry * size_of::<u64>())
    }
}

/// A notification queue in memory (section 2.6).
#[derive(Debug)]
pub struct QueueEntries {
    mapping: Arc<Mapping>,
    entries: u32,
}

impl QueueEntries {
    /// A queue of `entries` entries of 32 bytes.
    ///
    /// # Errors
    /// `EINVAL` if there are none or more than the card allows, or the mapping is smaller.
    pub fn new(mapping: Arc<Mapping>, entries: u32) -> io::Result<Self> {
        if entries == 0 || entries > HAMLYN_QUEUE_MAX_ENTRIES {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        at_least(&mapping, entries as usize * HAMLYN_NOTIFICATION_SIZE as usize)?;
        Ok(Self { mapping, entries })
    }

    /// How many entries there are.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// The `wrap` word of entry `cursor % entries`; what the card wrote before it is seen by loads after this one.
    #[must_use]
    pub fn word(&self, cursor: u32) -> u32 {
        self.mapping.load_u32_acquire(self.at(cursor) + WRAP)
    }

    /// Entry `cursor % entries`, unless its `wrap` word is no longer `word`, as [`QueueEntries::word`] gave it: then
    /// the card overwrites it at this moment, and what was read may be pieces of two.
    #[must_use]
    pub fn entry(&self, cursor: u32, word: u32) -> Option<HamlynNotification> {
        let at = self.at(cursor);
        let entry = HamlynNotification {
            metadata: self.mapping.load_u64(at),
            slot: self.mapping.load_u32(at + 8),
            notification_index: self.mapping.load_u32(at + 12),
            reserved0: 0,
            reserved1: 0,
            wrap: word,
        };
        barrier::before_second_look();
        (self.mapping.load_u32(at + WRAP) == word).then_some(entry)
    }

    fn at(&self, cursor: u32) -> usize {
        (cursor % self.entries) as usize * HAMLYN_NOTIFICATION_SIZE as usize
    }
}

fn at_least(mapping: &Mapping, length: usize) -> io::Result<()> {
    if mapping.length() < length {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_those_of_the_contract() {
        assert_eq!(offset_of!(HamlynNotification, metadata), 0);
        assert_eq!(offset_of!(HamlynNotification, slot), 8);
        assert_eq!(offset_of!(HamlynNotification, notification_index), 12);
        assert_eq!(offset_of!(HamlynTerminusStatus, completed), 0);
        assert_eq!(offset_of!(HamlynTerminusStatus, reasons), 64);
        assert_eq!(offset_of!(HamlynTerminusStatus, fetched), 320);
    }

    #[test]
    fn a_request_lands_in_its_entry_and_a_sleeping_card_is_told() {
        let mapping = Arc::new(Mapping::anonymous(HAMLYN_WINDOW_SIZE as usize).unwrap());
        let window = Window::new(mapping.clone()).unwrap();
        window.fill_entry(65, &[7; 600]);
        let mut entries = vec![0; 3 * HAMLYN_ENTRY_SIZE as usize];
        mapping.read(HAMLYN_WINDOW_WORK_QUEUE as usize, &mut entries);
        assert!(entries[..512].iter().all(|byte| *byte == 0));
        assert!(entries[512..1024].iter().all(|byte| *byte == 7));
        assert!(entries[1024..].iter().all(|byte| *byte == 0));
        assert!(window.publish_request(66));
        assert_eq!(mapping.load_u32(HAMLYN_WINDOW_TAIL as usize), 66);
        mapping.store_u32(HAMLYN_WINDOW_AWAKE as usize, 1);
        assert!(!window.publish_request(67));
    }

    #[test]
    fn each_entry_has_its_own_reason_and_word() {
        let mapping = Arc::new(Mapping::anonymous(size_of::<HamlynTerminusStatus>()).unwrap());
        let status = StatusWords::new(mapping.clone()).unwrap();
        mapping.store_u32(64 + 4 * 63, 15);
        mapping.store_u32_release(0, 128);
        mapping.store_u64(320 + 8 * 63, u64::MAX - 1);
        assert_eq!((status.completed(), status.reason(127), status.reason(63)), (128, 15, 15));
        assert_eq!((status.fetched(127), status.fetched(62)), (u64::MAX - 1, 0));
        assert_eq!((status.reason(126), status.reason(128)), (0, 0));
    }

    #[test]
    fn an_entry_whose_word_has_changed_is_not_given_out() {
        let mapping = Arc::new(Mapping::anonymous(4096).unwrap());
        let queue = QueueEntries::new(mapping.clone(), 4).unwrap();
        mapping.store_u64(32, 0x1234);
        mapping.store_u32_release(32 + 28, 1);
        assert_eq!((queue.word(1), queue.word(5), queue.word(2)), (1, 1, 0));
        assert_eq!(queue.entry(5, 1).unwrap().metadata, 0x1234);
        mapping.store_u32(32 + 28, 1 | 1 << 2);
        assert_eq!(queue.entry(1, 1), None);
    }

    #[test]
    fn a_mapping_too_small_is_refused() {
        let mapping = Arc::new(Mapping::anonymous(4096).unwrap());
        assert!(Window::new(mapping.clone()).is_err());
        assert!(StatusWords::new(Arc::new(Mapping::anonymous(256).unwrap())).is_err());
        assert!(QueueEntries::new(mapping.clone(), 129).is_err());
        assert!(QueueEntries::new(mapping, 0).is_err());
    }
}
