//! The mapped structures of the data path, with the layouts of `hamlyn_abi::hamlyn::{window,
//! notification}`.

use std::io;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_SIZE, HAMLYN_QUEUE_MAX_ENTRIES, HamlynNotification,
};
use hamlyn_abi::hamlyn::window::{
    HAMLYN_ENTRY_SIZE, HAMLYN_WINDOW_AWAKE, HAMLYN_WINDOW_SIZE, HAMLYN_WINDOW_TAIL, HAMLYN_WINDOW_WORK_QUEUE,
    HAMLYN_WORK_QUEUE_ENTRIES, HamlynTerminusStatus,
};

use crate::barrier;
use crate::mapping::{Access, Atomics, Mapping, View, register_copy_words};

/// Size of a word, the unit in which entries are filled, in bytes.
const WORD: usize = size_of::<u64>();
/// Words per work-queue entry.
const ENTRY_WORDS: usize = HAMLYN_ENTRY_SIZE as usize / WORD;
/// Entries per work queue.
const ENTRIES: usize = HAMLYN_WORK_QUEUE_ENTRIES as usize;

/// Layout of a terminus' window.
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

// SAFETY: it only has atomics, and is as long as its fields together.
unsafe impl Atomics for WindowWords {}

/// A send terminus as its owner sees it: the work queue and the two words beside it (section 2.3).
#[derive(Debug)]
pub struct Window(View<WindowWords>);

impl Window {
    /// Creates the view of a terminus' window, of `HAMLYN_WINDOW_SIZE` bytes.
    ///
    /// # Errors
    /// `EINVAL` if the mapping is smaller, or not writable.
    pub fn new(mapping: Arc<Mapping>) -> io::Result<Self> {
        View::new(mapping, Access::ReadWrite).map(Self)
    }

    /// Fills work-queue entry `number % 64` with `bytes`, starting at word `word` of the entry (8
    /// bytes each) and in ascending order. The last word is padded with zeros. The rest of the
    /// entry is unchanged, and bytes beyond its end are ignored.
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

    /// Fills work-queue entry `number % 64` like [`Window::fill_entry`], with bytes of a mapping.
    #[inline]
    pub fn fill_entry_from(&self, number: u32, word: usize, cells: &[AtomicU8]) {
        let entry = &self.0.work_queue[number as usize % ENTRIES];
        register_copy_words(entry.get(word..).unwrap_or_default(), cells);
    }

    /// Publishes the entries below `tail`. Returns `true` if the card is asleep, so that its
    /// doorbell must be rung.
    #[must_use]
    #[inline]
    pub fn publish_request(&self, tail: u32) -> bool {
        self.0.tail.store(tail, Ordering::Release);
        barrier::before_awake_check();
        self.0.awake.load(Ordering::Relaxed) == 0
    }
}

/// Returns fewer than 8 bytes in memory order, padded with zeros.
fn last_word(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

/// Layout of a terminus' status words.
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

// SAFETY: it only has atomics, and is as long as its fields together.
unsafe impl Atomics for Status {}

/// Status words of a terminus: the card's progress, and the result of each request (section 2.3).
#[derive(Debug)]
pub struct StatusWords(View<Status>);

impl StatusWords {
    /// Creates the view of the page that starts with the words.
    ///
    /// # Errors
    /// `EINVAL` if the mapping is smaller than the words.
    pub fn new(mapping: Arc<Mapping>) -> io::Result<Self> {
        View::new(mapping, Access::Read).map(Self)
    }

    /// Returns the number of requests that the card has completed, modulo 2^32.
    #[must_use]
    #[inline]
    pub fn completed(&self) -> u32 {
        self.0.completed.load(Ordering::Acquire)
    }

    /// Returns the number of requests that the card has refused, modulo 2^32.
    #[must_use]
    #[inline]
    pub fn refused(&self) -> u32 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Returns the result of the last request in entry `number % 64`: `HAMLYN_REASON_SENT` or a
    /// refusal's number.
    ///
    /// This is the result of request `number` once [`StatusWords::completed`] has passed it, until
    /// the entry is reused.
    #[must_use]
    #[inline]
    pub fn reason(&self, number: u32) -> u32 {
        self.0.reasons[number as usize % ENTRIES].load(Ordering::Relaxed)
    }

    /// Returns the word that a fetch-and-op found, for the last request in entry `number % 64`; see
    /// [`StatusWords::reason`].
    #[must_use]
    #[inline]
    pub fn fetched(&self, number: u32) -> u64 {
        self.0.fetched[number as usize % ENTRIES].load(Ordering::Relaxed)
    }
}

/// Layout of a notification.
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

// SAFETY: it only has atomics, and is as long as its fields together.
unsafe impl Atomics for Entry {}

/// A notification queue in memory (section 2.6).
#[derive(Debug)]
pub struct QueueEntries(View<[Entry]>);

impl QueueEntries {
    /// Creates the view of a queue with `entries` entries of 32 bytes.
    ///
    /// # Errors
    /// `EINVAL` if `entries` is zero or more than the card allows, or the mapping is smaller.
    pub fn new(mapping: Arc<Mapping>, entries: u32) -> io::Result<Self> {
        if entries == 0 || entries > HAMLYN_QUEUE_MAX_ENTRIES {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        View::slice(mapping, entries as usize, Access::Read).map(Self)
    }

    /// Returns the number of entries.
    #[must_use]
    #[inline]
    pub fn entries(&self) -> u32 {
        self.0.len() as u32
    }

    /// Returns the `wrap` word of entry `cursor % entries`. Later loads see what the card wrote
    /// before it.
    #[must_use]
    #[inline]
    pub fn word(&self, cursor: u32) -> u32 {
        self.at(cursor).wrap.load(Ordering::Acquire)
    }

    /// Returns entry `cursor % entries` if its `wrap` word is still `word`, the result of
    /// [`QueueEntries::word`]. Otherwise returns `None`: the card is overwriting the entry, and the
    /// fields read may belong to two notifications.
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
        // A division costs more than everything else here, and a reader of the queue never needs
        // it.
        self.0.get(cursor as usize).unwrap_or_else(|| &self.0[cursor as usize % self.0.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_fills_entry_and_reports_sleeping_card() {
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
    fn overwritten_entry_is_not_returned() {
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
