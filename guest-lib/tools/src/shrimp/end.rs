//! An end at a SHRIMP card: memory that the peer stores to, and memory that is mapped to the
//! peer's.
//!
//! Both have the layout of [`crate::ring`]. The ring is stored to by automatic update. A message's
//! bytes use automatic update for latency, and deliberate update for bandwidth. In both cases they
//! arrive before the message's word.

use std::time::Duration;

use hamlyn::Error;
use hamlyn::attach::Node;
use hamlyn::shrimp::{Card, Handle, Mode, ReceiveBuffer, SendBuffer, Shrimp};

use crate::Outcome;
use crate::end::{Address, End, Hello, Wait, Wish};
use crate::ring::{DATA, Entry, RING, poll};
use crate::word;

/// Longest message by automatic update: each store is a packet, and a trap where the card does not
/// snoop stores.
const MAX_AUTOMATIC: usize = 65536;
/// Timeout for the card to read a message.
const PATIENCE: Duration = Duration::from_secs(30);
const _: () = assert!(Hello::<Handle>::SIZE <= RING);

pub(crate) struct ShrimpEnd {
    card: Card,
    own: ReceiveBuffer,
    size: usize,
    /// Bytes of the next message by automatic update.
    payload: Vec<u8>,
    peer: Option<Peer>,
    sent: u64,
    received: u64,
}

/// Destination of stores.
struct Peer {
    front: SendBuffer,
    /// `None` for messages without bytes.
    data: Option<SendBuffer>,
}

impl Address for Handle {
    const SIZE: usize = Handle::SIZE;

    fn to_bytes(&self) -> Vec<u8> {
        Handle::to_bytes(self).to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Handle::from_bytes(bytes).ok()
    }

    fn host(&self) -> u32 {
        self.node
    }

    fn room(&self) -> usize {
        self.length.saturating_sub(DATA as u64) as usize
    }
}

/// Returns the transfer mode for a client's request.
fn mode(wish: Wish) -> Mode {
    match wish {
        Wish::Echo | Wish::Answer => Mode::Single,
        Wish::Count | Wish::Both => Mode::Deliberate,
    }
}

impl ShrimpEnd {
    fn peer(&self) -> hamlyn::Result<&Peer> {
        self.peer.as_ref().ok_or(Error::NotConnected)
    }

    /// Returns the word of the next message, if it has arrived.
    fn look(&self) -> hamlyn::Result<Option<u32>> {
        let entry = Entry::of(self.received);
        Ok(entry.word(self.own.load_u64(entry.at)?))
    }

    /// Sleeps until the turn of the entry changes.
    fn sleep(&self, timeout: Option<Duration>) -> hamlyn::Result<Option<u32>> {
        let Entry { at, turn } = Entry::of(self.received);
        match self.own.wait(at + 4, turn - 1, timeout) {
            Err(error) if error.is_timed_out() => Ok(None),
            Err(error) => Err(error),
            Ok(_) => {
                self.look()?.map_or(Err(Error::Malformed("words out of their turn")), |word| Ok(Some(word)))
            }
        }
    }
}

impl End for ShrimpEnd {
    type Attachment = Node<Shrimp>;
    type Address = Handle;

    const MODEL: &'static str = "shrimp";
    const HAS_TICKETS: bool = false;
    /// Capacity of a receive buffer.
    const MAX_SIZE: usize = (4 << 20) - DATA;

    fn create(card: &Card, _host: Option<u32>, size: usize) -> Outcome<Self> {
        let own = card.export(DATA + size, card.hosts()?)?;
        let card = card.clone();
        Ok(Self { card, own, size, payload: vec![0; size], peer: None, sent: 0, received: 0 })
    }

    fn host(card: &Card) -> hamlyn::Result<Option<u32>> {
        card.host()
    }

    fn check(wish: Wish, size: usize) -> Outcome {
        let (limit, by) = match mode(wish) {
            Mode::Deliberate => (Self::MAX_SIZE, "deliberate"),
            _ => (MAX_AUTOMATIC, "automatic"),
        };
        if size > limit {
            let what = format!("message size {size} is out of range (limit {limit} by {by} update");
            return Err(format!("{what}, as a shrimp card sends it)").into());
        }
        if mode(wish) == Mode::Deliberate && size % 4 != 0 {
            let what = format!("message size {size} is not a multiple of 4");
            return Err(format!("{what}, as a shrimp card's deliberate updates are").into());
        }
        Ok(())
    }

    fn address(&self) -> hamlyn::Result<Handle> {
        self.own.handle()
    }

    fn reach(&mut self, address: &Handle, wish: Wish) -> Outcome {
        let mode = mode(wish);
        if let Some(peer) = self.peer.as_ref().filter(|peer| peer.front.handle() == address) {
            let data = peer.data.as_ref().filter(|data| data.mode() != mode);
            return Ok(data.map_or(Ok(()), |data| data.set_mode(mode))?);
        }
        let front = self.card.map(address, 0, DATA, Mode::Single)?;
        let size = self.size.min(address.room());
        let map = || self.card.map(address, DATA as u64, size, mode);
        self.peer = Some(Peer { front, data: (size > 0).then(map).transpose()? });
        self.sent = 0;
        Ok(())
    }

    fn fill(&mut self, data: &[u8]) -> hamlyn::Result<()> {
        self.payload = data.to_vec();
        Ok(())
    }

    fn data(&self, size: usize) -> hamlyn::Result<Vec<u8>> {
        let mut data = vec![0; size];
        self.own.read(DATA, &mut data)?;
        Ok(data)
    }

    fn send(&mut self, word: u32, size: usize) -> hamlyn::Result<()> {
        let Some(data) = self.peer()?.data.as_ref().filter(|_| size > 0) else { return self.say(word) };
        if data.mode() == Mode::Deliberate {
            data.send(0, size)?;
            // A store before that would overtake it.
            data.wait_until_sent(Some(PATIENCE))?;
        } else {
            let payload = self.payload.get(..size).ok_or(Error::OutOfRange {
                object: "message size",
                value: size as u64,
                limit: self.payload.len() as u64,
            })?;
            data.write(0, payload)?;
        }
        self.say(word)
    }

    fn say(&mut self, word: u32) -> hamlyn::Result<()> {
        let entry = Entry::of(self.sent);
        self.peer()?.front.store_u64(entry.at, entry.told(word))?;
        self.sent += 1;
        Ok(())
    }

    fn say_hello(&mut self, hello: &[u8]) -> hamlyn::Result<()> {
        self.peer()?.front.write(0, hello)?;
        self.say(word::HELLO)
    }

    fn read_hello(&self) -> hamlyn::Result<Vec<u8>> {
        let mut bytes = vec![0; Hello::<Handle>::SIZE];
        self.own.read(0, &mut bytes)?;
        Ok(bytes)
    }

    fn receive(&mut self, wait: Wait, timeout: Option<Duration>) -> hamlyn::Result<Option<u32>> {
        let word = match wait {
            Wait::Poll => poll(timeout, || self.look())?,
            Wait::Sleep => self.sleep(timeout)?,
        };
        self.received += u64::from(word.is_some());
        Ok(word)
    }

    fn complain(&self) -> hamlyn::Result<()> {
        self.peer.as_ref().map_or(Ok(()), |peer| peer.front.check())
    }

    /// Stored data is sent even if this end is dropped.
    fn finish(&mut self, _timeout: Duration) -> hamlyn::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_size_is_refused_with_update_mode() {
        for (wish, size, refusal) in [
            (Wish::Echo, 65537, "limit 65536 by automatic update"),
            (Wish::Count, 4_190_212, "limit 4190208 by deliberate update"),
            (Wish::Both, 6, "not a multiple of 4"),
        ] {
            let refused = ShrimpEnd::check(wish, size).unwrap_err().to_string();
            assert!(refused.contains(refusal) && refused.contains("shrimp"), "{refused}");
        }
        ShrimpEnd::check(Wish::Answer, 65536).unwrap();
        ShrimpEnd::check(Wish::Count, 4_190_208).unwrap();
    }
}
