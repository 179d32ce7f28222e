//! Messages that their headers announce: the first header of a batch is stored last, instead of the
//! word of written bytes. So a short message is one store less.
//!
//! A header is never 0, and the reader clears what it releases. So it finds the written position by
//! going from header to header, up to one ring beyond the released position.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::fence;

use crate::core::express::memory::RingMemory;
use crate::core::express::ring::{HEADER, Shared, record_size};

/// What the reader knows of its ring, as positions.
#[derive(Debug)]
pub(super) struct Announced {
    capacity: u64,
    written: Cell<u64>,
    released: Cell<u64>,
}

impl Announced {
    /// Creates the state of a new ring, whose bytes are 0.
    pub(super) fn new(capacity: u64) -> Self {
        Self { capacity, written: Cell::new(0), released: Cell::new(0) }
    }

    /// Returns the written position. An invalid record counts, up to the ring's end: the reader
    /// detects it.
    pub(super) fn written(&self, area: &RingMemory) -> u64 {
        let mut written = self.written.get();
        while let Some(at) = self.next_header() {
            let header = area.header(at);
            if header == 0 {
                break;
            }
            let left = (self.capacity - at).min(self.released.get() + self.capacity - written);
            written += record_size(header, left);
            self.written.set(written);
            // Later loads see what the sender stored before the header.
            fence(Acquire);
        }
        written
    }

    /// Returns the offset of the next header in the ring; `None` while the ring is full.
    pub(super) fn next_header(&self) -> Option<u64> {
        let written = self.written.get();
        (written < self.released.get() + self.capacity).then_some(written % self.capacity)
    }

    /// Clears what the reader has released up to this position. The sender may then be told.
    pub(super) fn release(&self, area: &RingMemory, released: u64) {
        for position in (self.released.replace(released)..released).step_by(HEADER as usize) {
            area.set_header(position % self.capacity, 0);
        }
        fence(Release);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    use hamlyn_sys::Mapping;
    use proptest::prelude::*;

    use super::*;
    use crate::core::express::ring::{Nonsense, Reader, Word, Writer, half_of};
    use crate::core::place::PAGE;

    const CAPACITY: u64 = PAGE as u64;

    /// The reader's end of a ring.
    struct Own {
        area: RingMemory,
        announced: Announced,
    }

    /// The sender's end: its mirror, and the position up to which it was sent.
    struct Peers {
        area: RingMemory,
        mirror: RingMemory,
        sent: Cell<u64>,
    }

    fn memory() -> RingMemory {
        RingMemory::over(Arc::new(Mapping::anonymous(2 * PAGE).unwrap())).unwrap()
    }

    fn reader(area: &RingMemory) -> Reader<Own> {
        Reader::by_quarters(Own { area: area.clone(), announced: Announced::new(CAPACITY) }, CAPACITY)
    }

    impl Shared for Own {
        fn load(&self, word: Word) -> u64 {
            match word {
                Word::Written => self.announced.written(&self.area),
                _ => 0,
            }
        }

        fn store(&self, word: Word, value: u64) {
            if word == Word::Released {
                self.announced.release(&self.area, value);
                self.area.store(word, value);
            }
        }

        fn take(&self, _word: Word) {}

        fn barrier(&self) {}

        fn header(&self, at: u64) -> u64 {
            self.area.header(at)
        }

        fn set_header(&self, _at: u64, _value: u64) {}
    }

    impl Shared for Peers {
        fn load(&self, word: Word) -> u64 {
            if word == Word::Released { self.area.load(word) } else { 0 }
        }

        fn store(&self, word: Word, value: u64) {
            if word == Word::Written {
                let begin = self.sent.replace(value);
                for position in (begin / 8..value / 8).rev().map(|word| 8 * word) {
                    let at = position % CAPACITY;
                    self.area.set_header(at, self.mirror.header(at));
                }
            }
        }

        fn take(&self, _word: Word) {}

        fn barrier(&self) {}

        fn header(&self, at: u64) -> u64 {
            self.mirror.header(at)
        }

        fn set_header(&self, at: u64, value: u64) {
            self.mirror.set_header(at, value);
        }
    }

    proptest! {
        /// Data is all ones, which would be an invalid header.
        #[test]
        fn headers_announce_each_message_once(
            steps in prop::collection::vec((0..4_u8, 0..=half_of(CAPACITY)), 0..300),
        ) {
            let area = memory();
            let mut reader = reader(&area);
            let mut writer = Writer::new(Peers { area, mirror: memory(), sent: Cell::new(0) }, CAPACITY);
            let (mut put, mut sent) = (VecDeque::new(), VecDeque::new());
            for (step, length) in steps {
                let length = if step == 0 { length } else { length % 100 };
                match step {
                    0..3 => {
                        let Some(span) = writer.reserve(length).unwrap() else {
                            // A full ring also sends what was put.
                            sent.append(&mut put);
                            writer.flush();
                            continue;
                        };
                        let data = writer.shared().mirror.data(span);
                        data.iter().for_each(|byte| byte.store(0xff, Relaxed));
                        put.push_back(length);
                        writer.put(span);
                        if step < 2 {
                            sent.append(&mut put);
                            writer.flush();
                        }
                    }
                    _ => {
                        let next = reader.receive().unwrap();
                        prop_assert!(!reader.has_news() || next.is_some());
                        prop_assert_eq!(next.map(|span| span.length), sent.pop_front());
                        if let Some(span) = next {
                            let data = reader.shared().area.data(span);
                            prop_assert!(data.iter().all(|byte| byte.load(Relaxed) == 0xff));
                            reader.release(span.end);
                        }
                    }
                }
            }
        }

        #[test]
        fn arbitrary_headers_are_messages_or_errors(
            words in prop::collection::vec((0..4_u64, any::<u32>(), any::<bool>()), 512),
        ) {
            let area = memory();
            for (at, (kind, length, short)) in words.into_iter().enumerate() {
                let length = if short { length % 64 } else { length % 5000 };
                area.set_header(8 * at as u64, kind << 32 | u64::from(length));
            }
            let mut reader = reader(&area);
            let (mut received, mut failed) = (0, false);
            while !failed {
                match reader.receive() {
                    Ok(Some(span)) => {
                        prop_assert!(span.at + span.length <= CAPACITY);
                        received += 1;
                        reader.release(span.end);
                    }
                    Ok(None) => break,
                    Err(Nonsense::Kind { .. } | Nonsense::Length { .. }) => failed = true,
                    Err(other) => prop_assert!(false, "{}", other),
                }
            }
            prop_assert!(received <= 512);
        }
    }

    #[test]
    fn full_ring_has_no_next_header() {
        let area = memory();
        let announced = Announced::new(CAPACITY);
        assert_eq!((announced.written(&area), announced.next_header()), (0, Some(0)));
        area.set_header(0, 1 << 32 | (CAPACITY - HEADER));
        assert_eq!((announced.written(&area), announced.next_header()), (CAPACITY, None));
        announced.release(&area, CAPACITY);
        assert_eq!((area.header(0), announced.next_header()), (0, Some(0)));
    }
}
