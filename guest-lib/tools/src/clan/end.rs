//! An end at a CLAN card: an aperture that the peer writes to, and a window onto the peer's.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | what a client wants |
//! | 2,048 | a ring of words, each with its turn, which says that it is new |
//! | 4,096 | the bytes of a message |
//!
//! Words and short messages go by stores to the window, longer ones by DMA, with the word that tells of them behind them in the same chain. Who
//! sleeps has a Tripwire over the ring.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use hamlyn::Error;
use hamlyn::clan::{
    Aperture, Attachment, Card, Descriptor, Dma, Endpoint, Requested, Rights, Transfer, Tripwire, Watch,
    Window,
};

use crate::Outcome;
use crate::end::{Address, End, Hello, Wait, Wish};
use crate::word;

/// Where the ring is.
const RING: usize = 2048;
/// Its entries: more than can be under way, with words of control.
const ENTRIES: u64 = 256;
/// Where a message's bytes are.
const DATA: usize = 4096;
/// What is longer goes by DMA: each store is a trap of some microseconds.
const MAX_STORED: usize = 256;
/// How long a message may take to leave.
const PATIENCE: Duration = Duration::from_secs(30);
/// Looks at a word before the processor is yielded.
const LOOKS: u32 = 200;

pub(crate) struct ClanEnd {
    endpoint: Endpoint,
    own: Aperture,
    /// The words and bytes that DMA sends, laid out as in the peer's.
    source: Aperture,
    tripwire: Tripwire,
    dma: Dma,
    payload: Vec<u8>,
    peer: Option<Peer>,
    sent: u64,
    received: u64,
    /// The last message that went by DMA.
    under_way: Option<Requested>,
}

/// Where it writes to.
struct Peer {
    descriptor: Descriptor,
    window: Window,
}

impl Address for Descriptor {
    const SIZE: usize = Descriptor::SIZE;

    fn to_bytes(&self) -> Vec<u8> {
        Descriptor::to_bytes(self).to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Descriptor::from_bytes(bytes).ok().filter(|descriptor| descriptor.host().is_some())
    }

    fn host(&self) -> u32 {
        Descriptor::host(self).unwrap_or(u32::MAX)
    }

    fn room(&self) -> usize {
        self.len().saturating_sub(DATA as u64) as usize
    }
}

/// Where an entry of the ring is, and what tells that it is new.
fn entry(number: u64) -> (usize, u32) {
    (RING + (number % ENTRIES) as usize * 8, (number / ENTRIES) as u32 + 1)
}

/// What is stored there.
fn told(turn: u32, word: u32) -> u64 {
    u64::from(turn) << 32 | u64::from(word)
}

/// The word of a message, if it is there.
fn look(own: &Aperture, number: u64) -> hamlyn::Result<Option<u32>> {
    let (at, turn) = entry(number);
    let found = own.load_u64(at)?;
    Ok(((found >> 32) as u32 == turn).then_some(found as u32))
}

impl ClanEnd {
    fn peer(&self) -> hamlyn::Result<&Peer> {
        self.peer.as_ref().ok_or(Error::NotConnected)
    }

    /// Looks without end.
    fn poll(&self, until: Option<Instant>) -> hamlyn::Result<Option<u32>> {
        loop {
            for _ in 0..LOOKS {
                if let Some(word) = look(&self.own, self.received)? {
                    return Ok(Some(word));
                }
                spin_loop();
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(None);
            }
            std::thread::yield_now();
        }
    }

    /// Sleeps until the word is there.
    fn sleep(&mut self, timeout: Option<Duration>) -> hamlyn::Result<Option<u32>> {
        let Self { tripwire, own, received, .. } = self;
        match tripwire.wait_until(timeout, || look(own, *received)) {
            Err(error) if error.is_timed_out() => Ok(None),
            found => found.map(Some),
        }
    }

    /// Sends the bytes, and the word behind them, in one chain.
    fn transfer(&mut self, word: u32, size: usize) -> hamlyn::Result<()> {
        let (at, turn) = entry(self.sent);
        self.source.store_u64(at, told(turn, word))?;
        let to = &self.peer()?.descriptor;
        let bytes = Transfer::write(&self.source, DATA, to, DATA as u64, size)?.quiet();
        let tells = Transfer::write(&self.source, at, to, at as u64, 8)?;
        self.under_way = Some(self.dma.put_wait(&[bytes, tells], Some(PATIENCE))?);
        self.sent += 1;
        Ok(())
    }
}

impl End for ClanEnd {
    type Attachment = dyn Attachment;
    type Address = Descriptor;

    const MODEL: &'static str = "clan";
    const HAS_TICKETS: bool = false;
    const MAX_SIZE: usize = (64 << 20) - DATA;

    fn create(card: &Card, size: usize) -> Outcome<Self> {
        let own = card.aperture(DATA + size, Rights::Write)?;
        let source = card.aperture(DATA + size, Rights::None)?;
        let endpoint = card.endpoint()?;
        let tripwire = endpoint.tripwire(&Watch::local(&own, RING..DATA)?)?;
        let dma = endpoint.dma();
        let (payload, peer, under_way) = (vec![0; size], None, None);
        Ok(Self { endpoint, own, source, tripwire, dma, payload, peer, sent: 0, received: 0, under_way })
    }

    fn host(card: &Card) -> hamlyn::Result<Option<u32>> {
        card.host()
    }

    fn check(_wish: Wish, size: usize) -> Outcome {
        if size > Self::MAX_SIZE {
            let what = format!("message size {size} is out of range (limit {})", Self::MAX_SIZE);
            return Err(format!("{what}, as a clan card sends it").into());
        }
        Ok(())
    }

    fn address(&self) -> hamlyn::Result<Descriptor> {
        self.own.descriptor()
    }

    fn reach(&mut self, address: &Descriptor, _wish: Wish) -> Outcome {
        if self.peer.as_ref().is_some_and(|peer| peer.descriptor == *address) {
            return Ok(());
        }
        let length = DATA + MAX_STORED.min(address.room());
        let window = self.endpoint.map(address, 0, length)?;
        self.peer = Some(Peer { descriptor: *address, window });
        self.sent = 0;
        Ok(())
    }

    fn fill(&mut self, data: &[u8]) -> hamlyn::Result<()> {
        self.payload = data.to_vec();
        self.source.write(DATA, data)
    }

    fn data(&self, size: usize) -> hamlyn::Result<Vec<u8>> {
        let mut data = vec![0; size];
        self.own.read(DATA, &mut data)?;
        Ok(data)
    }

    fn send(&mut self, word: u32, size: usize) -> hamlyn::Result<()> {
        if size > MAX_STORED {
            return self.transfer(word, size);
        }
        if size > 0 {
            let limit = self.payload.len() as u64;
            let too_long = || Error::OutOfRange { object: "message size", value: size as u64, limit };
            let payload = self.payload.get(..size).ok_or_else(too_long)?;
            self.peer()?.window.write(DATA, payload)?;
        }
        self.say(word)
    }

    fn say(&mut self, word: u32) -> hamlyn::Result<()> {
        // A store would overtake what the engine has not sent.
        if let Some(under_way) = self.under_way.take() {
            self.dma.wait(under_way, Some(PATIENCE))?;
        }
        let (at, turn) = entry(self.sent);
        self.peer()?.window.store_u64(at, told(turn, word))?;
        self.sent += 1;
        Ok(())
    }

    fn say_hello(&mut self, hello: &[u8]) -> hamlyn::Result<()> {
        self.peer()?.window.write(0, hello)?;
        self.say(word::HELLO)
    }

    fn read_hello(&self) -> hamlyn::Result<Vec<u8>> {
        let mut bytes = vec![0; Hello::<Descriptor>::SIZE];
        self.own.read(0, &mut bytes)?;
        Ok(bytes)
    }

    fn receive(&mut self, wait: Wait, timeout: Option<Duration>) -> hamlyn::Result<Option<u32>> {
        let word = match wait {
            Wait::Poll => self.poll(timeout.map(|timeout| Instant::now() + timeout))?,
            Wait::Sleep => self.sleep(timeout)?,
        };
        self.received += u64::from(word.is_some());
        Ok(word)
    }

    fn complain(&self) -> hamlyn::Result<()> {
        if let Some(under_way) = self.under_way {
            self.dma.is_done(under_way)?;
        }
        self.endpoint.take_fault().map_or(Ok(()), |fault| Err(fault.into()))
    }

    fn finish(&mut self, timeout: Duration) -> hamlyn::Result<()> {
        self.under_way.take().map_or(Ok(()), |under_way| self.dma.wait(under_way, Some(timeout)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_the_ring_has_another_turn_each_time_and_none_is_a_messages_place() {
        assert_eq!((entry(0), entry(1)), ((2048, 1), (2056, 1)));
        assert_eq!((entry(255), entry(256)), ((4088, 1), (2048, 2)));
        const { assert!(Hello::<Descriptor>::SIZE <= RING && RING + ENTRIES as usize * 8 == DATA) };
    }
}
