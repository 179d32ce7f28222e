//! Two processes, each with a window to the first page of the other's aperture. A store to one
//! process's `out` arrives in the other's `own`.

use std::cell::RefCell;
use std::time::Instant;

use hamlyn::Polling;
use hamlyn::clan::{Aperture, Card, Descriptor, Endpoint, Rights, Tripwire, Watch, Window};

use crate::engine::counts::Statistics;
use crate::engine::lap_words::{PAGE, Words};
use crate::engine::result::{Outcome, exchange_words};
use crate::engine::wait::PATIENCE;

/// DMA request slots: enough to post all messages of a lap without waiting.
const REQUESTS: u32 = 512;
/// Polls between two reads of the clock.
const LOOKS: u32 = 1 << 16;

/// One of the two processes.
pub(crate) struct End {
    pub(crate) card: Card,
    pub(crate) endpoint: Endpoint,
    pub(crate) own: Aperture,
    /// The peer's memory.
    pub(crate) peer: Descriptor,
    /// Window to the peer's first page.
    pub(crate) out: Window,
    /// Watches this end's own first page.
    tripwire: RefCell<Tripwire>,
}

impl End {
    /// Opens an end with `length` bytes of memory that the peer writes to. With `drivers`, the
    /// driver posts its DMA requests.
    pub(crate) fn open(length: usize, drivers: bool) -> Outcome<Self> {
        let card = Card::open_default()?;
        let endpoint = card.endpoint_builder().requests(REQUESTS).drivers_dma(drivers).open()?;
        let own = card.aperture(length, Rights::ReadWrite)?;
        let tripwire = RefCell::new(endpoint.tripwire(&Watch::local(&own, 0..PAGE)?)?);
        let peer: Descriptor = exchange_words(&own.descriptor()?.to_string())?.parse()?;
        let out = endpoint.map(&peer, 0, PAGE)?;
        Ok(Self { card, endpoint, own, peer, out, tripwire })
    }

    /// Makes later waits sleep at once instead of polling first.
    pub(crate) fn sleep_at_once(&self) {
        self.endpoint.set_polling(Polling::NEVER);
    }

    /// Polls a word of this end's own memory until it has the given value.
    pub(crate) fn poll(&self, word: usize, value: u32) -> Outcome {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            for _ in 0..LOOKS {
                if self.own.load_u32(word)? == value {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        Err(format!("the word at {word} was not {value} within {PATIENCE:?}").into())
    }
}

impl Words for End {
    fn say(&self, word: usize, value: u32) -> Outcome {
        Ok(self.out.store_u32(word, value)?)
    }

    fn wait(&self, word: usize, seen: u32) -> Outcome<u32> {
        let look = || Ok(Some(self.own.load_u32(word)?).filter(|found| *found != seen));
        Ok(self.tripwire.borrow_mut().wait_until_timeout(PATIENCE, look)?)
    }

    fn read(&self, at: usize, to: &mut [u8]) -> Outcome {
        Ok(self.own.read(at, to)?)
    }

    fn statistics(&self) -> Outcome<Statistics> {
        Ok(self.card.statistics()?)
    }
}
