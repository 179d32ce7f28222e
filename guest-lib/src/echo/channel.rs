//! Channels over echo cards: every post is one or several messages to the peer's mailbox.
//!
//! The card only deposits messages, so this code does what other cards do in hardware. A message
//! says where its bytes belong in the receiver's ring. The receiver copies them there and stores
//! the word of the last message, in the order of the messages' numbers, since messages may overtake
//! each other. An inbox that is full loses messages. So each half counts the messages that the peer
//! has taken, and sends no more than its inbox holds.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use hamlyn_abi::echo::command::ECHO_INBOX_MAX_RECORDS;
use hamlyn_abi::echo::window::ECHO_MAX_MESSAGE;
use hamlyn_sys::Mapping;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::mailbox::{Address, Mailbox, Message};
use super::{Card, Echo};
use crate::core::carrier::{AnyCard, Carrier};
use crate::core::express::memory::RingMemory;
use crate::core::express::ring::{Shared, Word};
use crate::core::key::random_key;
use crate::core::model::Model;
use crate::core::place::PAGE;
use crate::core::remote::{Ends, Remote};
use crate::core::waiting::{Deadline, slept};
use crate::error::{Error, Result};

/// Bytes of a ring in one message.
const DATA: u64 = ECHO_MAX_MESSAGE as u64 - size_of::<Head>() as u64;
/// Records of an inbox for words alone. A peer has only a few in flight.
const WORD_RECORDS: u32 = 32;
/// Messages that a receiving half's post takes.
const WORD_POST: u32 = 2;
/// The largest ring: half of an inbox has room for all of its bytes.
const LARGEST_RING: u64 = 122 * PAGE as u64;
/// Time in which the card takes a message, unless the link is full.
const BRIEF: Duration = Duration::from_micros(50);
/// Longest wait for the card to take a message, and for the last one of a half.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest sleep between two checks for room.
const LOOK: Duration = Duration::from_millis(20);

/// The words that messages store, by their number.
const WORDS: [Word; 4] = [Word::Written, Word::Ended, Word::Released, Word::Left];
/// Number of a message without a word.
const NO_WORD: u32 = WORDS.len() as u32;

/// The start of a message.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Head {
    /// The message's number, from 0, modulo 2^32.
    number: U32,
    /// Number of messages that the sender has taken, modulo 2^32.
    taken: U32,
    /// The word to store, or [`NO_WORD`], and its value.
    word: U32,
    /// Where the bytes belong in the ring.
    at: U32,
    value: U64,
}

/// What the other half needs to reach a mailbox.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Offer {
    mailbox: U32,
    records: U32,
    key: U64,
}

/// Returns the number of messages that the bytes of a whole ring take, in as many pieces as there
/// may be, and one for the end.
fn messages_of(capacity: u64) -> u32 {
    capacity.div_ceil(DATA) as u32 + 3
}

impl Carrier for Card {
    fn model(&self) -> (&'static str, u32) {
        (Echo::NAME, Echo::NUMBER)
    }

    fn card(&self) -> &dyn AnyCard {
        self
    }

    fn ends(&self, _host: u32, capacity: u64) -> Result<Box<dyn Ends>> {
        let records = (2 * messages_of(capacity)).next_power_of_two();
        let sender = Own::open(self, WORD_RECORDS, capacity)?;
        let receiver = Own::open(self, records, capacity)?;
        Ok(Box::new(EchoEnds { sender, receiver }))
    }

    fn largest_ring(&self) -> u64 {
        LARGEST_RING
    }
}

/// Both halves, before the peer's halves are known.
#[derive(Debug)]
struct EchoEnds {
    sender: Own,
    receiver: Own,
}

/// A half's mailbox and memory.
#[derive(Debug)]
struct Own {
    mailbox: Mailbox,
    offer: Offer,
    memory: RingMemory,
}

impl Own {
    fn open(card: &Card, records: u32, capacity: u64) -> Result<Self> {
        let (mut mailbox, key) = (card.open_mailbox(records)?, random_key()?);
        mailbox.lock(key);
        // What came before that is for an earlier owner.
        while mailbox.try_recv().is_some() {}
        let offer = Offer { mailbox: mailbox.number().into(), records: records.into(), key: key.into() };
        let memory = Mapping::anonymous(PAGE + capacity as usize);
        let memory = memory.map_err(Error::system("allocate a channel's ring"))?;
        let memory = RingMemory::over(Arc::new(memory));
        Ok(Self {
            mailbox,
            offer,
            memory: memory.ok_or(Error::Invalid("a channel's area has two pages at least"))?,
        })
    }

    /// `post` is the number of messages that a post of this half takes.
    fn join(self, peer: Offer, host: u32, post: u32, capacity: u64) -> Result<Box<dyn Remote>> {
        let records = peer.records.get();
        if records < 2 * post || records > ECHO_INBOX_MAX_RECORDS {
            return Err(Error::Malformed("an offer of a channel with an inbox of another size"));
        }
        let (mailbox, inbox) = (self.mailbox, self.offer.records.get());
        let counts =
            Counts { mailbox, sent: 0, arrived: 0, taken: 0, told: 0, words: WordsInOrder::default() };
        let to = Address { host, mailbox: peer.mailbox.get() };
        let failed = RefCell::new(None);
        let (counts, armed, key) = (RefCell::new(counts), Cell::new(0), peer.key.get());
        Ok(Box::new(Half {
            counts,
            to,
            key,
            records,
            inbox,
            post,
            capacity,
            memory: self.memory,
            armed,
            failed,
        }))
    }
}

impl Ends for EchoEnds {
    fn address(&self) -> Result<Vec<u8>> {
        Ok([self.sender.offer.as_bytes(), self.receiver.offer.as_bytes()].concat())
    }

    fn join(self: Box<Self>, peer: &[u8], host: u32, capacity: u64) -> Result<[Box<dyn Remote>; 2]> {
        let [to_sender, to_receiver] = <[Offer; 2]>::read_from_bytes(peer)
            .map_err(|_| Error::Malformed("an offer of a channel of another length"))?;
        let receiver = self.receiver.join(to_sender, host, WORD_POST, capacity)?;
        Ok([self.sender.join(to_receiver, host, messages_of(capacity), capacity)?, receiver])
    }
}

#[derive(Debug)]
struct Half {
    counts: RefCell<Counts>,
    /// The peer's mailbox, its key and its number of records.
    to: Address,
    key: u64,
    records: u32,
    /// Number of records of this half's inbox.
    inbox: u32,
    post: u32,
    capacity: u64,
    /// The area of a receiver and the mirror of a sender.
    memory: RingMemory,
    /// Number of messages taken when the half was armed.
    armed: Cell<u32>,
    /// Why nothing can be sent or received any longer.
    failed: RefCell<Option<&'static str>>,
}

/// A half's mailbox, and its counts of messages, modulo 2^32.
#[derive(Debug)]
struct Counts {
    mailbox: Mailbox,
    sent: u32,
    /// Of those, the peer has taken this number.
    arrived: u32,
    taken: u32,
    /// The last number of taken messages that the peer was told.
    told: u32,
    words: WordsInOrder,
}

/// The words of messages that may overtake each other.
#[derive(Debug, Default)]
struct WordsInOrder {
    /// Number of the message whose word is next, modulo 2^32.
    next: u32,
    /// The words of later messages.
    early: HashMap<u32, Option<(Word, u64)>>,
}

impl WordsInOrder {
    /// Takes a message's word, and stores those that are next. Returns `false` for a message that
    /// is not one of the next `most`.
    fn take(
        &mut self,
        number: u32,
        word: Option<(Word, u64)>,
        most: u32,
        mut store: impl FnMut(Word, u64),
    ) -> bool {
        if number.wrapping_sub(self.next) >= most || self.early.insert(number, word).is_some() {
            return false;
        }
        while let Some(word) = self.early.remove(&self.next) {
            self.next = self.next.wrapping_add(1);
            if let Some((word, value)) = word {
                store(word, value);
            }
        }
        true
    }
}

impl Half {
    /// Sends a message. The card must have taken the last one within `limit`.
    fn send(
        &self,
        counts: &mut Counts,
        (at, bytes): (u64, &[u8]),
        word: Option<(u32, u64)>,
        limit: Duration,
    ) -> Result<()> {
        if !counts.mailbox.wait_until_sent(Some(limit))? {
            return Err(Error::TimedOut { what: "room in the link", after: limit });
        }
        let (word, value) = word.unwrap_or((NO_WORD, 0));
        let (number, taken) = (counts.sent.into(), counts.taken.into());
        let head = Head { number, taken, word: word.into(), at: (at as u32).into(), value: value.into() };
        counts.mailbox.post(self.to, self.key, &[head.as_bytes(), bytes])?;
        counts.sent = counts.sent.wrapping_add(1);
        counts.told = counts.taken;
        Ok(())
    }

    /// Returns the number of messages for which the peer's inbox has room.
    fn room(&self, counts: &Counts) -> u32 {
        self.records.saturating_sub(counts.sent.wrapping_sub(counts.arrived))
    }

    /// Takes all messages, and reports them if that is due.
    fn take(&self) {
        let counts = &mut *self.counts.borrow_mut();
        while let Some(message) = counts.mailbox.try_recv() {
            // Others do not know the key. Their messages came before the mailbox was locked.
            if message.from == self.to && self.apply(counts, &message).is_none() {
                self.failed.borrow_mut().get_or_insert("a message that is not of this channel");
            }
        }
        if self.report_is_due(counts) {
            // Without room now, a later call does it.
            let _ = self.send(counts, (0, &[]), None, Duration::ZERO);
        }
    }

    fn report_is_due(&self, counts: &Counts) -> bool {
        counts.taken.wrapping_sub(counts.told) >= self.inbox / 4 && self.room(counts) > 1
    }

    /// Copies a message's bytes into the ring, and stores the words that are next. Returns `None`
    /// if the message makes no sense.
    fn apply(&self, counts: &mut Counts, message: &Message) -> Option<()> {
        let (head, bytes) = Head::read_from_prefix(&message.data).ok()?;
        let (at, end) = (head.at.get(), u64::from(head.at.get()) + bytes.len() as u64);
        let arrived = head.taken.get().wrapping_sub(counts.arrived);
        let known = head.word.get() == NO_WORD || WORDS.get(head.word.get() as usize).is_some();
        if end > self.capacity || !known {
            return None;
        }
        counts.taken = counts.taken.wrapping_add(1);
        // A message that was overtaken brings an old count.
        if arrived <= counts.sent.wrapping_sub(counts.arrived) {
            counts.arrived = head.taken.get();
        }
        self.memory.mapping().write(PAGE + at as usize, bytes);
        let word = WORDS.get(head.word.get() as usize).map(|word| (*word, head.value.get()));
        let (number, store) = (head.number.get(), |word, value| self.memory.store(word, value));
        counts.words.take(number, word, self.inbox, store).then_some(())
    }

    fn check_sense(&self) -> Result<()> {
        self.failed.borrow().map_or(Ok(()), |why| Err(Error::Malformed(why)))
    }
}

impl Remote for Half {
    fn area(&self) -> &RingMemory {
        &self.memory
    }

    fn mirror(&self) -> &RingMemory {
        &self.memory
    }

    fn post(&self, pieces: &[Range<u64>; 2], word: Word, value: u64) -> Result<()> {
        self.check_sense()?;
        let number = WORDS.iter().position(|known| *known == word);
        let number = number.ok_or(Error::Invalid("a word that channels over this card do not send"))? as u32;
        let counts = &mut *self.counts.borrow_mut();
        let chunks = pieces
            .iter()
            .flat_map(|piece| piece.clone().step_by(DATA as usize).map(|at| at..piece.end.min(at + DATA)));
        let (mut chunks, mut bytes) = (chunks.peekable(), [0; DATA as usize]);
        while let Some(chunk) = chunks.next() {
            let bytes = &mut bytes[..(chunk.end - chunk.start) as usize];
            self.memory.mapping().read(PAGE + chunk.start as usize, bytes);
            let word = chunks.peek().is_none().then_some((number, value));
            self.send(counts, (chunk.start, bytes), word, PATIENCE)?;
        }
        if pieces.iter().all(Range::is_empty) {
            self.send(counts, (0, &[]), Some((number, value)), PATIENCE)?;
        }
        Ok(())
    }

    fn load(&self, word: Word) -> u64 {
        self.take();
        self.memory.load(word)
    }

    fn has_news(&self, written: u64) -> bool {
        let counts = self.counts.borrow();
        let stored = |word| self.memory.load(word);
        counts.mailbox.has_message()
            || stored(Word::Written) != written
            || stored(Word::Ended) != 0
            || self.report_is_due(&counts)
    }

    fn wait_for_room(&self, limit: Option<Duration>) -> Result<bool> {
        let deadline = Deadline::new(limit);
        loop {
            self.take();
            self.check_sense()?;
            let counts = self.counts.borrow();
            let has_room = self.room(&counts) >= self.post;
            if has_room && counts.mailbox.wait_until_sent(Some(BRIEF))? {
                return Ok(true);
            }
            let left = deadline.left().unwrap_or(LOOK).min(LOOK);
            if left.is_zero() {
                return Ok(false);
            }
            if has_room {
                counts.mailbox.wait_until_sent(Some(left))?;
            } else {
                slept(counts.mailbox.sleep(Some(left)))?;
            }
        }
    }

    fn arm(&self) -> Result<()> {
        self.armed.set(self.counts.borrow().mailbox.taken());
        Ok(())
    }

    /// Each load takes messages, so one may have been taken after the load of its word.
    fn arm_file(&self) -> Result<bool> {
        Ok(self.counts.borrow().mailbox.taken() != self.armed.get())
    }

    fn file(&self) -> Result<OwnedFd> {
        self.counts.borrow().mailbox.file()
    }

    fn check(&self) -> Result<()> {
        self.check_sense()
    }

    fn finish(&self, limit: Option<Duration>) -> Result<()> {
        let limit = limit.unwrap_or(PATIENCE);
        match self.counts.borrow().mailbox.wait_until_sent(Some(limit))? {
            true => Ok(()),
            false => Err(Error::TimedOut { what: "room in the link", after: limit }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The window is as large as an inbox, and the numbers wrap around.
        #[test]
        fn words_are_stored_in_order(ranks in proptest::collection::vec(any::<u64>(), 1..40), start: u32) {
            let mut order: Vec<u32> = (0..ranks.len() as u32).collect();
            order.sort_by_key(|at| ranks[*at as usize]);
            let (mut words, mut stored) = (WordsInOrder { next: start, ..Default::default() }, Vec::new());
            for at in order {
                // Every third message has no word.
                let word = (at % 3 != 0).then_some((Word::Written, at.into()));
                let number = start.wrapping_add(at);
                let taken = words.take(number, word, 40, |_, value| stored.push(value));
                prop_assert!(taken);
                let again = words.take(number, word, 40, |_, value| stored.push(value));
                prop_assert!(!again);
            }
            let expected: Vec<u64> = (0..ranks.len() as u64).filter(|at| at % 3 != 0).collect();
            prop_assert_eq!(stored, expected);
            let far = words.next.wrapping_add(40);
            prop_assert!(!words.take(far, None, 40, |_, _| ()));
        }
    }

    #[test]
    fn largest_ring_fits_half_an_inbox() {
        assert!(2 * messages_of(LARGEST_RING) <= ECHO_INBOX_MAX_RECORDS);
        assert!(2 * messages_of(LARGEST_RING + PAGE as u64) > ECHO_INBOX_MAX_RECORDS);
        assert_eq!(messages_of(DATA), 4);
        assert_eq!(messages_of(DATA + 1), 5);
    }
}
