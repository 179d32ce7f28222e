//! Two processes, each with a connection to the other's endpoint. The endpoint's first page holds
//! words that the peer writes. The data follows. The last page is the source of the words and
//! questions that this end sends.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hamlyn::Polling;
use hamlyn::dart::{Bank, Card, Connection, Endpoint, Operation, Queue, Urgency};

use crate::engine::counts::Statistics;
use crate::engine::lap_words::{DATA, PAGE, Words};
use crate::engine::result::{Outcome, exchange_words};
use crate::engine::wait::PATIENCE;

/// Records of a queue: more than are ever pending at once.
pub(crate) const RECORDS: u32 = 64;
/// Registers of a window.
const REGISTERS: u32 = 4;
/// How long a wait polls for a record before it sleeps, as in the library's programs.
const POLLING: Duration = Duration::from_micros(50);
/// Polls between two reads of the clock.
const LOOKS: u32 = 1 << 16;
/// Mask of all words of a block except the first.
const ALL_BUT_ONE: u8 = 0b1111_1110;

/// One of the two processes.
pub(crate) struct End {
    pub(crate) card: Card,
    pub(crate) endpoint: Endpoint,
    pub(crate) connection: Arc<Connection>,
    /// Offset of the last page in the endpoint.
    pub(crate) scratch: usize,
    queue: RefCell<Option<Queue>>,
    _bank: Bank,
}

/// Returns the other one of hosts 0 and 1.
pub(crate) fn other_host(card: &Card) -> Outcome<u32> {
    Ok(1 - card.host()?.filter(|host| *host < 2).ok_or("the card is not that of host 0 or 1")?)
}

/// Connects each of these connections to the peer process's connection with the same index.
pub(crate) fn connect<'a>(own: impl IntoIterator<Item = &'a Connection>) -> Outcome {
    let own: Vec<&Connection> = own.into_iter().collect();
    let addresses = own.iter().map(|one| Ok(one.address()?.to_string())).collect::<Outcome<Vec<_>>>()?;
    let others = exchange_words(&addresses.join(" "))?;
    let others: Vec<&str> = others.split(' ').collect();
    if others.len() != own.len() {
        return Err(format!("the other end has {} connections, not {}", others.len(), own.len()).into());
    }
    for (own, other) in own.into_iter().zip(others) {
        own.connect(&other.parse()?)?;
    }
    Ok(())
}

impl End {
    /// Opens a connected end with `length` bytes of data.
    pub(crate) fn open(length: usize) -> Outcome<Self> {
        let end = Self::open_alone(length)?;
        connect([&*end.connection])?;
        Ok(end)
    }

    /// Opens an end that is not connected yet.
    pub(crate) fn open_alone(length: usize) -> Outcome<Self> {
        let card = Card::open_default()?;
        let scratch = DATA + length.next_multiple_of(PAGE);
        let (endpoint, bank) = (card.endpoint(scratch + PAGE)?, card.bank(REGISTERS, 0)?);
        let queue = card.queue(RECORDS, Urgency::Delayed)?;
        let connection = card.connection(&endpoint, &bank).events(&queue).open(other_host(&card)?)?;
        let (connection, queue) = (Arc::new(connection), RefCell::new(Some(queue)));
        Ok(Self { card, endpoint, connection, scratch, queue, _bank: bank })
    }

    /// Takes the queue of the peer's notifications, for a program of the library. After that, this
    /// end cannot wait for words.
    pub(crate) fn take_queue(&self) -> Outcome<Queue> {
        self.queue.borrow_mut().take().ok_or_else(|| "the queue was taken already".into())
    }

    /// Sets how long [`End::sleep`] polls before it sleeps.
    pub(crate) fn set_polling(&self, polling: Polling) -> Outcome {
        self.of_queue(|queue| {
            queue.set_polling(polling);
            Ok(())
        })
    }

    /// Takes the next record, waiting for it if necessary.
    pub(crate) fn sleep(&self) -> Outcome {
        self.of_queue(|queue| Ok(queue.recv_timeout(PATIENCE).map(drop)?))
    }

    fn of_queue<T>(&self, act: impl FnOnce(&mut Queue) -> Outcome<T>) -> Outcome<T> {
        act(self.queue.borrow_mut().as_mut().ok_or("the queue was taken already")?)
    }

    /// Polls 4 bytes of this end's own memory until they have the given value.
    pub(crate) fn poll(&self, at: usize, value: u32) -> Outcome {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            for _ in 0..LOOKS {
                if self.endpoint.load_u32(at)? == value {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        Err(format!("the word at {at} was not {value} within {PATIENCE:?}").into())
    }
}

/// Waits until the last message has left, because closing the connection would drop it.
impl Drop for End {
    fn drop(&mut self) {
        // If it has not left, the peer reports the missing message.
        let _ = self.connection.wait_until_left_timeout(PATIENCE);
    }
}

impl Words for End {
    fn say(&self, word: usize, value: u32) -> Outcome {
        let from = self.scratch + word;
        // The previous message from this place has left, because the peer answered it.
        self.endpoint.store_u32(from, value)?;
        let write = Operation::write(word as u64).mask(ALL_BUT_ONE).tell();
        Ok(self.connection.send_timeout(&write, from as u64..from as u64 + 4, PATIENCE)?)
    }

    fn wait(&self, word: usize, seen: u32) -> Outcome<u32> {
        self.of_queue(|queue| {
            loop {
                // A full queue would block incoming messages.
                while queue.try_recv().is_some() {}
                let found = self.endpoint.load_u32(word)?;
                if found != seen {
                    return Ok(found);
                }
                if queue.poll(POLLING).is_none() {
                    queue.recv_timeout(PATIENCE)?;
                }
            }
        })
    }

    fn read(&self, at: usize, to: &mut [u8]) -> Outcome {
        Ok(self.endpoint.read(at, to)?)
    }

    fn statistics(&self) -> Outcome<Statistics> {
        Ok(self.card.statistics()?)
    }
}
