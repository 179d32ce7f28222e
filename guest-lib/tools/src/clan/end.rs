//! An end at a CLAN card: an aperture that the peer writes to, and a window onto the peer's
//! aperture.
//!
//! Both have the layout of [`crate::ring`]. Words and short messages are stored to the window.
//! Longer messages use DMA, with their word after them in the same chain. A sleeper has a Tripwire
//! over the ring.

use std::time::Duration;

use hamlyn::Error;
use hamlyn::clan::{
    Aperture, Attachment, Card, Descriptor, Dma, Endpoint, Requested, Rights, Transfer, Tripwire, Watch,
    Window,
};

use crate::Outcome;
use crate::end::{Address, End, Hello, Wait, Wish};
use crate::ring::{DATA, Entry, RING, poll};
use crate::word;

/// Longer messages use DMA: each store is a trap that takes some microseconds.
const MAX_STORED: usize = 256;
/// Timeout for a message to leave.
const PATIENCE: Duration = Duration::from_secs(30);
const _: () = assert!(Hello::<Descriptor>::SIZE <= RING);

pub(crate) struct ClanEnd {
    endpoint: Endpoint,
    own: Aperture,
    /// Words and bytes that DMA sends, with the layout of the peer's aperture.
    source: Aperture,
    tripwire: Tripwire,
    dma: Dma,
    payload: Vec<u8>,
    peer: Option<Peer>,
    sent: u64,
    received: u64,
    /// Last message sent by DMA.
    under_way: Option<Requested>,
}

/// Destination of messages.
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

/// Returns the word of a message, if it has arrived.
fn look(own: &Aperture, number: u64) -> hamlyn::Result<Option<u32>> {
    let entry = Entry::of(number);
    Ok(entry.word(own.load_u64(entry.at)?))
}

impl ClanEnd {
    fn peer(&self) -> hamlyn::Result<&Peer> {
        self.peer.as_ref().ok_or(Error::NotConnected)
    }

    /// Sleeps until the word has arrived.
    fn sleep(&mut self, timeout: Option<Duration>) -> hamlyn::Result<Option<u32>> {
        let Self { tripwire, own, received, .. } = self;
        match tripwire.wait_until(timeout, || look(own, *received)) {
            Err(error) if error.is_timed_out() => Ok(None),
            found => found.map(Some),
        }
    }

    /// Sends the bytes, followed by the word, in one chain.
    fn transfer(&mut self, word: u32, size: usize) -> hamlyn::Result<()> {
        let entry = Entry::of(self.sent);
        self.source.store_u64(entry.at, entry.told(word))?;
        let to = &self.peer()?.descriptor;
        let bytes = Transfer::write(&self.source, DATA, to, DATA as u64, size)?.quiet();
        let tells = Transfer::write(&self.source, entry.at, to, entry.at as u64, 8)?;
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

    fn create(card: &Card, _host: Option<u32>, size: usize) -> Outcome<Self> {
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
        let entry = Entry::of(self.sent);
        self.peer()?.window.store_u64(entry.at, entry.told(word))?;
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
            Wait::Poll => poll(timeout, || look(&self.own, self.received))?,
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
