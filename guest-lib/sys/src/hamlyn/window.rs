//! The mapped structures of the data path: what `hamlyn_abi::hamlyn::{window, notification}` lay
//! out.

use std::io;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_SIZE, HAMLYN_QUEUE_MAX_ENTRIES, HamlynNotification,
};
use hamlyn_abi::hamlyn::window::{
    HAMLYN_ENTRY_SIZE, HAMLYN_WINDOW_AWAKE, HAMLYN_WINDOW_SIZE, HAMLYN_WINDOW_TAIL, HAMLYN_WINDOW_WORK_QUEUE,
    HAMLYN_WORK_QUEUE_ENTRIES, HamlynTerminusStatus,
};

use crate::barrier;
use crate::mapping::{Access, Atomics, Mapping, View};

/// Size of a word, in bytes: what entries are filled by.
const WORD: usize = size_of::<u64>();
/// Words of a work-queue entry.
const ENTRY_WORDS: usize = HAMLYN_ENTRY_SIZE as usize / WORD;
/// Entries of a work queue.
const ENTRIES: usize = HAMLYN_WORK_QUEUE_ENTRIES as usize;

/// The layout of a terminus' window.
#[derive(Debug)]
#[repr(C)]
struct WindowWords {
    tail: AtomicU32,
    _reserved0: [AtomicU32; 15],
    awake: AtomicU32,
    _reserved1: [AtomicU32; 8175],
    work_queue: [[AtomicU64; ENTRY_WORDS]; ENTRIES],
}

const _: () = assert!(
    offset_of!(WindowWords, tail) == HAMLYN_WINDOW_TAIL as usize
        && offset_of!(WindowWords, awake) == HAMLYN_WINDOW_AWAKE as usize
        && offset_of!(WindowWords, work_queue) == HAMLYN_WINDOW_WORK_QUEUE as usize
        && size_of::<WindowWords>() == HAMLYN_WINDOW_SIZE as usize
);

// SAFETY: atomics alone, and as long as its fields together.
unsafe impl Atomics for WindowWords {}

/// A send terminus as its owner sees it: the work queue and the two words beside it (section 2.3).
#[derive(Debug)]
pub struct Window(View<WindowWords>);

impl Window {
    /// A terminus' window, of `HAMLYN_WINDOW_SIZE` bytes.
    ///
    /// # Errors
    /// `EINVAL` if the mapping is smaller, or may not be written.
    pub fn new(mapping: Arc<Mapping>) -> io::Result<Self> {
        View::new(mapping, Access::ReadWrite).map(Self)
    }

    /// Fills work-queue entry `number % 64` with `bytes`, from word `word` of the entry on (8 bytes
    /// each) and in rising order; the last word is filled up with zeros. The rest of the entry
    /// stays as it is, and what lies behind its end is left out.
    #[inline]
    pub fn fill_entry(&self, number: u32, word: usize, bytes: &[u8]) {
        let entry = &self.0.work_queue[number as usize % ENTRIES];
        let mut left = bytes;
        for place in entry.get(word..).unwrap_or_default() {
            let Some((bytes, behind)) = left.split_first_chunk() else {
                if !left.is_empty() {
                    place.store(last_word(left), Ordering::Relaxed);
                }
                return;
            };
            place.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
            left = behind;
        }
    }

    /// Publishes the entries below `tail`. True if the card is asleep, so that its doorbell must be
    /// rung.
    #[must_use]
    #[inline]
    pub fn publish_request(&self, tail: u32) -> bool {
        self.0.tail.store(tail, Ordering::Release);
        barrier::before_awake_check();
        self.0.awake.load(Ordering::Relaxed) == 0
    }
}

/// Fewer than 8 bytes as they lie in memory, filled up with zeros.
fn last_word(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

/// The layout of a terminus' status words.
#[derive(Debug)]
#[repr(C)]
struct Status {
    completed: AtomicU32,
    refused: AtomicU32,
    _reserved: [AtomicU32; 14],
    reasons: [AtomicU32; ENTRIES],
    fetched: [AtomicU64; ENTRIES],
}

const _: () = assert!(
    offset_of!(Status, completed) == offset_of!(HamlynTerminusStatus, completed)
        && offset_of!(Status, refused) == offset_of!(HamlynTerminusStatus, refused)
        && offset_of!(Status, reasons) == offset_of!(HamlynTerminusStatus, reasons)
        && offset_of!(Status, fetched) == offset_of!(HamlynTerminusStatus, fetched)
        && size_of::<Status>() == size_of::<HamlynTerminusStatus>()
);

// SAFETY: atomics alone, and as long as its fields together.
unsafe impl Atomics for Status {}

/// The words by which the card says how far a terminus is, and what became of each request (section
/// 2.3).
#[derive(Debug)]
pub struct StatusWords(View<Status>);

impl StatusWords {
    /// The page that starts with the words.
    ///
    /// # Errors
    /// `EINVAL` if the mapping is smaller than the words.
    pub fn new(mapping: Arc<Mapping>) -> io::Result<Self> {
        View::new(mapping, Access::Read).map(Self)
    }

    /// How many requests the card has finished with, modulo 2^32.
    #[must_use]
    #[inline]
    pub fn completed(&self) -> u32 {
        self.0.completed.load(Ordering::Acquire)
    }

    /// What became of the request that was last in entry `number % 64`: `HAMLYN_REASON_SENT` or a
    /// refusal's number.
    ///
    /// It is that of request `number` once [`StatusWords::completed`] has passed it and until the
    /// entry is used again.
    #[must_use]
    #[inline]
    pub fn reason(&self, number: u32) -> u32 {
        self.0.reasons[number as usize % ENTRIES].load(Ordering::Relaxed)
    }

    /// The word that a fetch-and-op found, for the request that was last in entry `number % 64`;
    /// see [`StatusWords::reason`].
    #[must_use]
    #[inline]
    pub fn fetched(&self, number: u32) -> u64 {
        self.0.fetched[number as usize % ENTRIES].load(Ordering::Relaxed)
    }
}

/// The layout of a notification.
#[derive(Debug)]
#[repr(C)]
struct Entry {
    metadata: AtomicU64,
    slot: AtomicU32,
    notification_index: AtomicU32,
    _reserved: [AtomicU32; 3],
    wrap: AtomicU32,
}

const _: () = assert!(
    offset_of!(Entry, metadata) == offset_of!(HamlynNotification, metadata)
        && offset_of!(Entry, slot) == offset_of!(HamlynNotification, slot)
        && offset_of!(Entry, notification_index) == offset_of!(HamlynNotification, notification_index)
        && offset_of!(Entry, wrap) == offset_of!(HamlynNotification, wrap)
        && size_of::<Entry>() == HAMLYN_NOTIFICATION_SIZE as usize
);

// SAFETY: atomics alone, and as long as its fields together.
unsafe impl Atomics for Entry {}

/// A notification queue in memory (section 2.6).
#[derive(Debug)]
pub struct QueueEntries(View<[Entry]>);

impl QueueEntries {
    /// A queue of `entries` entries of 32 bytes.
    ///
    /// # Errors
    /// `EINVAL` if there are none or more than the card allows, or the mapping is smaller.
    pub fn new(mapping: Arc<Mapping>, entries: u32) -> io::Result<Self> {
        if entries == 0 || entries > HAMLYN_QUEUE_MAX_ENTRIES {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        View::slice(mapping, entries as usize, Access::Read).map(Self)
    }

    /// How many entries there are.
    #[must_use]
    #[inline]
    pub fn entries(&self) -> u32 {
        self.0.len() as u32
    }

    /// The `wrap` word of entry `cursor % entries`; what the card wrote before it is seen by loads
    /// after this one.
    #[must_use]
    #[inline]
    pub fn word(&self, cursor: u32) -> u32 {
        self.at(cursor).wrap.load(Ordering::Acquire)
    }

    /// Entry `cursor % entries`, unless its `wrap` word is no longer `word`, as
    /// [`QueueEntries::word`] gave it: then the card overwrites it at this moment, and what was
    /// read may be pieces of two.
    #[must_use]
    #[inline]
    pub fn entry(&self, cursor: u32, word: u32) -> Option<HamlynNotification> {
        let at = self.at(cursor);
        let entry = HamlynNotification {
            metadata: at.metadata.load(Ordering::Relaxed),
            slot: at.slot.load(Ordering::Relaxed),
            notification_index: at.notification_index.load(Ordering::Relaxed),
            reserved0: 0,
            reserved1: 0,
            wrap: word,
        };
        barrier::before_second_look();
        (at.wrap.load(Ordering::Relaxed) == word).then_some(entry)
    }

    #[inline]
    fn at(&self, cursor: u32) -> &Entry {
        // A division takes longer than all else here, and whoever reads the queue never needs it.
        self.0.get(cursor as usize).unwrap_or_else(|| &self.0[cursor as usize % self.0.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_lands_in_its_entry_and_a_sleeping_card_is_told() {
        let mapping = Arc::new(Mapping::anonymous(HAMLYN_WINDOW_SIZE as usize).unwrap());
        let window = Window::new(mapping.clone()).unwrap();
        window.fill_entry(65, 0, &[7; 600]);
        window.fill_entry(2, 1, &[8; 12]);
        window.fill_entry(3, 64, &[9; 8]);
        let mut entries = vec![0; 3 * HAMLYN_ENTRY_SIZE as usize];
        mapping.read(HAMLYN_WINDOW_WORK_QUEUE as usize, &mut entries);
        assert!(entries[..512].iter().all(|byte| *byte == 0));
        assert!(entries[512..1024].iter().all(|byte| *byte == 7));
        assert_eq!(entries[1024..1048], [[0; 8], [8; 8], [8, 8, 8, 8, 0, 0, 0, 0]].concat());
        assert!(entries[1048..].iter().all(|byte| *byte == 0));
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

    #[test]
    fn a_window_must_be_writable() {
        let file = rustix::fs::memfd_create("window-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let length = HAMLYN_WINDOW_SIZE as usize;
        rustix::fs::ftruncate(&file, length as u64).unwrap();
        let map = |access| Arc::new(Mapping::of_file(&file, 0, length, access).unwrap());
        assert!(Window::new(map(Access::Read)).is_err());
        assert!(StatusWords::new(map(Access::Write)).is_err());
        assert!(Window::new(map(Access::ReadWrite)).is_ok() && StatusWords::new(map(Access::Read)).is_ok());
    }
}
