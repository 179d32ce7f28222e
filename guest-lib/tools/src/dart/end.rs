//! An end at a DART card. It has a connection, an endpoint that the peer's messages are written to
//! and that messages are sent from, and the queue that reports them.
//!
//! | bytes of the endpoint | contents |
//! |---|---|
//! | 0 | a client's request |
//! | 2,048 | this end's own request |
//! | 4,096 | received message; at the next multiple of 4,096 after it the message to send |
//!
//! The receiver sets where a message's bytes go, by register 0. So the operand is free for the
//! message's word, which the event reports.

use std::time::Duration;

use hamlyn::Error;
use hamlyn::dart::{Attachment, Bank, Card, Connection, Endpoint, Operation, Queue, Rights, Urgency, What};

use crate::Outcome;
use crate::end::{Address, End, Hello, Wait, Wish};
use crate::ring::poll;
use crate::word;

/// Offsets of this end's request, and of a received message.
const WISH: u64 = 2048;
const DATA: u64 = 4096;
/// Records of the queue: the depth, and control words.
const RECORDS: u32 = 256;
/// Size of a block, and of the longest message, in bytes.
const BLOCK: usize = 32;
const LONGEST: usize = 65_504;
/// Register with the destination of a message's bytes.
const PLACE: u8 = 0;
/// Timeout for a message to leave.
const PATIENCE: Duration = Duration::from_secs(30);
const _: () = assert!(Hello::<Place>::SIZE as u64 <= WISH);

pub(crate) struct DartEnd {
    connection: Connection,
    queue: Queue,
    endpoint: Endpoint,
    _bank: Bank,
    size: usize,
    peer: Option<Place>,
}

/// Where an end receives: its connection, and the length of the longest message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    connection: hamlyn::dart::Address,
    room: u64,
}

impl Address for Place {
    const SIZE: usize = hamlyn::dart::Address::SIZE + 8;

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.connection.to_bytes().to_vec();
        bytes.extend(self.room.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (connection, room) = bytes.split_at_checked(hamlyn::dart::Address::SIZE)?;
        let connection = hamlyn::dart::Address::from_bytes(connection).ok()?;
        Some(Self { connection, room: u64::from_le_bytes(room.try_into().ok()?) })
    }

    fn host(&self) -> u32 {
        self.connection.host()
    }

    fn room(&self) -> usize {
        self.room as usize
    }
}

impl DartEnd {
    /// Returns the offset of the bytes to send, which differs from that of received bytes.
    fn source(&self) -> u64 {
        DATA + (self.size as u64).next_multiple_of(4096)
    }

    fn put(&self, operation: &Operation, from: u64, length: usize) -> hamlyn::Result<()> {
        if self.peer.is_none() {
            return Err(Error::NotConnected);
        }
        self.connection.send_wait(operation, from..from + length as u64, Some(PATIENCE))
    }

    /// Returns the next record, or `None` on timeout.
    fn next(
        &mut self,
        wait: Wait,
        timeout: Option<Duration>,
    ) -> hamlyn::Result<Option<hamlyn::dart::Record>> {
        if wait == Wait::Poll {
            return poll(timeout, || Ok(self.queue.next()));
        }
        match self.queue.wait(timeout) {
            Err(error) if error.is_timed_out() => Ok(None),
            found => found.map(Some),
        }
    }
}

impl End for DartEnd {
    type Attachment = dyn Attachment;
    type Address = Place;

    const MODEL: &'static str = "dart";
    const HAS_TICKETS: bool = false;
    /// As in perftest.
    const MAX_SIZE: usize = 8 << 20;

    fn create(card: &Card, host: Option<u32>, size: usize) -> Outcome<Self> {
        let host = host.ok_or("a dart card's connection is opened with a host, and none is named")?;
        let endpoint = card.endpoint(DATA as usize + size.next_multiple_of(4096) + size)?;
        let (bank, queue) = (card.bank(1, 0)?, card.queue(RECORDS, Urgency::Delayed)?);
        let connection = card.connection(&endpoint, &bank).events(&queue).rights(Rights::Write).open(host)?;
        connection.set_register(PLACE.into(), DATA)?;
        Ok(Self { connection, queue, endpoint, _bank: bank, size, peer: None })
    }

    fn host(card: &Card) -> hamlyn::Result<Option<u32>> {
        card.host()
    }

    fn address(&self) -> hamlyn::Result<Place> {
        Ok(Place { connection: self.connection.address()?, room: self.size as u64 })
    }

    fn reach(&mut self, address: &Place, _wish: Wish) -> Outcome {
        if self.peer.is_none() {
            self.connection.connect(&address.connection)?;
            self.peer = Some(*address);
        }
        if self.peer.is_some_and(|peer| peer != *address) {
            return Err("a dart card's connection has one peer as long as it lasts".into());
        }
        Ok(())
    }

    fn fill(&mut self, data: &[u8]) -> hamlyn::Result<()> {
        // Earlier messages are still sent from there.
        self.connection.wait_until_left(Some(PATIENCE))?;
        self.endpoint.write(self.source() as usize, data)
    }

    fn data(&self, size: usize) -> hamlyn::Result<Vec<u8>> {
        let mut data = vec![0; size];
        self.endpoint.read(DATA as usize, &mut data)?;
        Ok(data)
    }

    /// Sends one message; a longer one is preceded by messages that report nothing.
    fn send(&mut self, word: u32, size: usize) -> hamlyn::Result<()> {
        let (from, word) = (self.source(), u64::from(word));
        if size <= BLOCK {
            // The mask excludes words beyond the message.
            let mask = (0..8).filter(|at| at * 4 >= size).fold(0, |mask, at| mask | 1 << at);
            return self.put(&Operation::write(word).indirect(PLACE).mask(mask).tell(), from, size);
        }
        if size <= LONGEST {
            return self.put(&Operation::write_multiple(word).indirect(PLACE).tell(), from, size);
        }
        for at in (0..size).step_by(LONGEST) {
            let piece = Operation::write_multiple(at as u64).indexed(PLACE);
            self.put(&piece, from + at as u64, (size - at).min(LONGEST))?;
        }
        self.put(&Operation::registers(word).tell(), 0, 0)
    }

    fn say(&mut self, word: u32) -> hamlyn::Result<()> {
        self.put(&Operation::registers(word.into()).tell(), 0, 0)
    }

    fn say_hello(&mut self, hello: &[u8]) -> hamlyn::Result<()> {
        self.connection.wait_until_left(Some(PATIENCE))?;
        self.endpoint.write(WISH as usize, hello)?;
        self.put(&Operation::write_multiple(0), WISH, hello.len())?;
        self.say(word::HELLO)
    }

    fn read_hello(&self) -> hamlyn::Result<Vec<u8>> {
        let mut bytes = vec![0; Hello::<Place>::SIZE];
        self.endpoint.read(0, &mut bytes)?;
        Ok(bytes)
    }

    fn receive(&mut self, wait: Wait, timeout: Option<Duration>) -> hamlyn::Result<Option<u32>> {
        let Some(record) = self.next(wait, timeout)? else { return Ok(None) };
        match (record.what, u32::try_from(record.operand())) {
            (What::Compared, Ok(word)) => Ok(Some(word)),
            _ => Err(Error::Malformed("a record that tells of no word")),
        }
    }

    fn complain(&self) -> hamlyn::Result<()> {
        let status = self.connection.status();
        match (status.broken, status.trap) {
            (Some(broken), _) => Err(Error::Broken(broken)),
            (None, Some((trap, _))) => Err(Error::Trap(trap)),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, timeout: Duration) -> hamlyn::Result<()> {
        self.connection.wait_until_left(Some(timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_parses_and_foreign_bytes_do_not() {
        let place = Place { connection: hamlyn::dart::Address::new(1, 70, 9), room: 1 << 20 };
        let bytes = place.to_bytes();
        assert_eq!((bytes.len(), Place::from_bytes(&bytes)), (Place::SIZE, Some(place)));
        assert_eq!(Place::from_bytes(&bytes[..Place::SIZE - 1]), None);
        assert_eq!(Place::from_bytes(&[0; Place::SIZE]), None);
    }
}
