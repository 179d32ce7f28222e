//! The echo card has mailboxes only. It is the tutorial card; `docs/new-card.md` builds it.
//!
//! ```no_run
//! use hamlyn::echo::{Address, Card};
//!
//! let card = Card::open(0)?;
//! let mut mailbox = card.open_mailbox(64)?;
//! mailbox.send(Address { host: 1, mailbox: 0 }, b"hello")?;
//! let answer = mailbox.receive(None)?;
//! println!("{:?} says {}", answer.from, String::from_utf8_lossy(&answer.data));
//! # Ok::<(), hamlyn::Error>(())
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use hamlyn_abi::echo::identity::{ECHO_ABI_VERSION, ECHO_MODEL};
use hamlyn_abi::echo::inbox::ECHO_RECORD_SIZE;
use hamlyn_abi::echo::uapi::*;
use hamlyn_abi::echo::window::*;
use hamlyn_abi::uapi::UlnObject;
use hamlyn_sys::{Access, Mapping};

use crate::core::attach::CardAttachment;
use crate::core::card::{self, SelfTest};
use crate::core::device::{Node, nanoseconds};
use crate::core::model::{Model, Shared};
use crate::error::{Result, at_most};

/// Model of the echo card.
#[derive(Debug)]
pub enum Echo {}

impl Model for Echo {
    const NUMBER: u32 = ECHO_MODEL;
    const NAME: &'static str = "echo";
    const VERSION: u32 = ECHO_ABI_VERSION;
    const SHARED: &'static [Shared] = &[Shared {
        object: "mailboxes",
        remedy: "close some, or give the card more (hamlyn card --mailboxes)",
        limit: |card| card.of_card::<EchoQuery>().map_or(0, |own| own.mailboxes),
    }];
}

/// An open echo card. Objects created from it belong to this process and are closed with it.
#[derive(Debug, Clone)]
pub struct Card(Arc<Node<Echo>>);

/// Source or destination of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// Host id.
    pub host: u32,
    /// Number of the mailbox on that host.
    pub mailbox: u32,
}

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Sender, as reported by the two cards.
    pub from: Address,
    /// Payload.
    pub data: Vec<u8>,
}

impl Card {
    /// Opens `/dev/echoN`.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::OtherModel`] if that is another model's card.
    pub fn open(number: u32) -> Result<Self> {
        Node::open_number(number).map(Arc::new).map(Self)
    }

    /// Returns the card's host id; `None` while its link is down.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn host(&self) -> Result<Option<u32>> {
        let host = self.0.query()?.host;
        Ok((host != hamlyn_abi::family::link::ULN_NO_HOST).then_some(host))
    }

    /// Runs the self-tests of access, DMA and interrupts. In a guest this needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn self_test(&self) -> Result<SelfTest> {
        card::Card::attached(self.0.clone()).self_test()
    }

    /// Opens a mailbox whose inbox has `records` entries: 4 to 1,024, a power of two.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Exhausted`] or [`crate::Error::Quota`] if none is
    /// left.
    pub fn open_mailbox(&self, records: u32) -> Result<Mailbox> {
        let node = self.0.clone();
        let mut opened = EchoMailbox { records, ..EchoMailbox::default() };
        node.create::<ECHO_IOC_MAILBOX_OPEN, _>("open a mailbox", ECHO_SHARE_MAILBOXES, &mut opened, &[])?;
        let page = |what, offset, access| node.map(what, offset, ECHO_OUTBOX_SIZE as usize, access);
        let outbox = page("outbox", opened.outbox_offset, Access::ReadWrite)?;
        let doorbell = page("doorbell", opened.doorbell_offset, Access::Write)?;
        let inbox_bytes = (records * ECHO_RECORD_SIZE) as usize;
        let inbox = node.map("inbox", opened.inbox_offset, inbox_bytes, Access::Read)?;
        Ok(Mailbox { node, number: opened.mailbox, records, outbox, doorbell, inbox, rung: 0, taken: 0 })
    }
}

/// An open mailbox.
#[derive(Debug)]
pub struct Mailbox {
    node: Arc<Node<Echo>>,
    number: u32,
    records: u32,
    outbox: Arc<Mapping>,
    doorbell: Arc<Mapping>,
    inbox: Arc<Mapping>,
    /// Number of doorbell rings, and of messages taken, modulo 2^32.
    rung: u32,
    taken: u32,
}

impl Mailbox {
    /// Returns its number. A sender needs this number and the host id.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Sends a message of at most 1,008 bytes. Returns when the card has taken the message. Blocks
    /// while the link is full. If the destination inbox is full, the message is lost and counted by
    /// the receiving card.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] for a longer message or an impossible host.
    /// [`crate::Error::System`] if the card is gone.
    pub fn send(&mut self, to: Address, data: &[u8]) -> Result<()> {
        at_most("message length", data.len() as u64, ECHO_MAX_MESSAGE.into())?;
        for (word, value) in [
            (ECHO_OUTBOX_DESTINATION, to.host),
            (ECHO_OUTBOX_MAILBOX, to.mailbox),
            (ECHO_OUTBOX_LENGTH, data.len() as u32),
        ] {
            self.outbox.store_u32(word as usize, value);
        }
        self.outbox.write(ECHO_OUTBOX_DATA as usize, data);
        self.doorbell.store_u32_release(0, 1);
        self.rung = self.rung.wrapping_add(1);
        self.wait_until_sent()?;
        match self.outbox.load_u32(ECHO_OUTBOX_RESULT as usize) {
            ECHO_RESULT_SENT => Ok(()),
            ECHO_RESULT_BAD_HOST => at_most("host id", to.host.into(), u16::MAX.into()),
            _ => at_most("message length", data.len() as u64, ECHO_MAX_MESSAGE.into()),
        }
    }

    /// Busy-polls until the card has taken the message. Checks every 100 ms whether the card still
    /// exists.
    fn wait_until_sent(&self) -> Result<()> {
        let mut looked = Instant::now();
        while self.outbox.load_u32_acquire(ECHO_OUTBOX_SENT as usize) != self.rung {
            if looked.elapsed() > Duration::from_millis(100) {
                self.node.query()?;
                looked = Instant::now();
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Returns the next message, if one has arrived.
    pub fn try_receive(&mut self) -> Option<Message> {
        let place = ((self.taken % self.records) * ECHO_RECORD_SIZE) as usize;
        let next = self.taken.wrapping_add(1);
        if self.inbox.load_u32_acquire(place) != next {
            return None;
        }
        let [host, mailbox, length] = [4, 8, 12].map(|word| self.inbox.load_u32(place + word));
        let mut data = vec![0; length.min(ECHO_MAX_MESSAGE) as usize];
        self.inbox.read(place + 16, &mut data);
        self.taken = next;
        self.outbox.store_u32_release(ECHO_OUTBOX_TAKEN as usize, next);
        Some(Message { from: Address { host, mailbox }, data })
    }

    /// Returns the next message. Blocks until one arrives, for at most `timeout`.
    ///
    /// # Errors
    /// [`crate::Error::System`], of kind [`crate::ErrorKind::TimedOut`] or if the card is gone.
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<Message> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(message) = self.try_receive() {
                return Ok(message);
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let mut wait =
                EchoWait { mailbox: self.number, taken: self.taken, timeout_ns: nanoseconds(left) };
            self.node.call::<ECHO_IOC_MAILBOX_WAIT, _>("wait for a message", &mut wait, &[])?;
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let mut object = UlnObject { index: self.number, ..UlnObject::default() };
        // If this fails, the card is gone, and the mailbox with it.
        let _ = self.node.call::<ECHO_IOC_MAILBOX_CLOSE, _>("close a mailbox", &mut object, &[]);
    }
}
