//! A ring in one direction, whose reader is another process and may stop reading at any time.
//!
//! The writer creates the memory. Neither end wakes the other: the reader polls, and a writer that
//! finds the ring full drops what it has. The memory begins with a word that the reader sets and
//! the writer reads, for what the reader wants.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use vm_memory::{VolatileMemory, VolatileSlice};

use crate::error::RingError;
use crate::geometry::Geometry;
use crate::header::HEADER_BYTES;
use crate::memory::Sealed;
use crate::place::{CACHE_LINE, Place, ring_bytes};
use crate::ring::{Consumer, Producer};

/// The writing end.
#[derive(Debug)]
pub struct Writer {
    memory: Sealed,
    producer: Producer,
}

/// The reading end.
#[derive(Debug)]
pub struct Reader {
    memory: Sealed,
    consumer: Consumer,
}

impl Writer {
    /// Creates a ring in memory that no other process has yet. The name is for people who inspect a
    /// process.
    pub fn new(name: &str, geometry: Geometry) -> io::Result<Writer> {
        geometry.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let memory = Sealed::new(name, CACHE_LINE + ring_bytes(geometry))?;
        let place = Place::new(memory.region.clone(), CACHE_LINE, geometry)?;
        Ok(Writer { memory, producer: Producer::new(place, None) })
    }

    /// Returns the memory, to be passed to the reader.
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.file.as_fd()
    }

    /// Returns the word that the reader has set, at first 0.
    pub fn wish(&self) -> u64 {
        word(&self.memory).load(Ordering::Relaxed)
    }

    /// Appends a record, the concatenation of all pieces. Returns `false` if it does not fit now.
    pub fn append(&mut self, pieces: &[VolatileSlice<'_>]) -> Result<bool, RingError> {
        self.producer.send_as_is([0; HEADER_BYTES], pieces)
    }
}

impl Reader {
    /// Adopts a writer's memory. Fails if the memory does not match the geometry, or could vanish.
    pub fn adopt(memory: OwnedFd, geometry: Geometry) -> io::Result<Reader> {
        geometry.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let memory = Sealed::adopt(memory, CACHE_LINE + ring_bytes(geometry))?;
        let place = Place::new(memory.region.clone(), CACHE_LINE, geometry)?;
        Ok(Reader { memory, consumer: Consumer::new(place, None) })
    }

    /// Sets the word that the writer reads.
    pub fn set_wish(&self, wish: u64) {
        word(&self.memory).store(wish, Ordering::Relaxed);
    }

    /// Takes the oldest record, if there is one.
    pub fn take(&mut self) -> Result<Option<Vec<u8>>, RingError> {
        let Some(record) = self.consumer.peek()? else { return Ok(None) };
        let mut bytes = vec![0; record.payload.len()];
        record.payload.copy_to(&mut bytes[..]);
        self.consumer.consume();
        Ok(Some(bytes))
    }
}

fn word(memory: &Sealed) -> &AtomicU64 {
    memory.region.get_atomic_ref(0).expect("the memory begins with this word")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Geometry = Geometry { capacity: 4096, max_packet: 1000 };

    fn ends() -> (Writer, Reader) {
        let writer = Writer::new("test", SMALL).unwrap();
        let memory = writer.memory().try_clone_to_owned().unwrap();
        (writer, Reader::adopt(memory, SMALL).unwrap())
    }

    #[test]
    fn records_arrive_in_order() {
        let (mut writer, mut reader) = ends();
        let mut written = 0_u8;
        loop {
            let (mut first, mut second) = ([written; 300], [7; 100]);
            let pieces = [VolatileSlice::from(&mut first[..]), VolatileSlice::from(&mut second[..])];
            if !writer.append(&pieces).unwrap() {
                break;
            }
            written += 1;
        }
        assert!(written > 4, "{written}");
        for number in 0..written {
            let record = reader.take().unwrap().unwrap();
            assert_eq!((record.len(), record[0], record[399]), (400, number, 7));
        }
        assert_eq!(reader.take().unwrap(), None);
    }

    #[test]
    fn writer_sees_what_the_reader_wants() {
        let (writer, reader) = ends();
        assert_eq!(writer.wish(), 0);
        reader.set_wish(0x1_0000_0007);
        assert_eq!(writer.wish(), 0x1_0000_0007);
    }

    #[test]
    fn memory_of_another_size_is_refused() {
        let writer = Writer::new("test", SMALL).unwrap();
        let memory = writer.memory().try_clone_to_owned().unwrap();
        let larger = Geometry { capacity: 8192, ..SMALL };
        assert!(Reader::adopt(memory, larger).is_err());
    }
}
