//! A mailbox: an outbox and a doorbell on the card, and an inbox in this host's memory.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hamlyn_abi::echo::inbox::ECHO_RECORD_SIZE;
use hamlyn_abi::echo::uapi::*;
use hamlyn_abi::echo::window::*;
use hamlyn_abi::uapi::UlnObject;
use hamlyn_sys::{Access, Mapping};

use super::Echo;
use crate::core::attach::{CardAttachment, file_of};
use crate::core::device::{Node, nanoseconds};
use crate::core::polling::{Poller, Polling};
use crate::core::waiting::{Deadline, slept};
use crate::error::{Result, at_most};

/// Interval between two checks whether the card still exists.
const CHECK: Duration = Duration::from_millis(100);

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

/// An open mailbox.
#[derive(Debug)]
pub struct Mailbox {
    node: Arc<Node<Echo>>,
    number: u32,
    records: u32,
    /// Offset of the object for `mmap(2)`.
    offset: u64,
    outbox: Arc<Mapping>,
    doorbell: Arc<Mapping>,
    inbox: Arc<Mapping>,
    /// Number of doorbell rings, and of messages taken, modulo 2^32.
    rung: u32,
    taken: u32,
    poller: Arc<Poller>,
}

impl Mailbox {
    pub(super) fn open(node: &Arc<Node<Echo>>, records: u32) -> Result<Self> {
        let node = node.clone();
        let mut opened = EchoMailbox { records, ..EchoMailbox::default() };
        node.create::<ECHO_IOC_MAILBOX_OPEN, _>("open a mailbox", ECHO_SHARE_MAILBOXES, &mut opened, &[])?;
        let page = |what, offset, access| node.map(what, offset, ECHO_OUTBOX_SIZE as usize, access);
        let outbox = page("outbox", opened.outbox_offset, Access::ReadWrite)?;
        let doorbell = page("doorbell", opened.doorbell_offset, Access::Write)?;
        let inbox_bytes = (records * ECHO_RECORD_SIZE) as usize;
        let inbox = node.map("inbox", opened.inbox_offset, inbox_bytes, Access::Read)?;
        let (number, offset) = (opened.mailbox, opened.outbox_offset);
        Ok(Self {
            node,
            number,
            records,
            offset,
            outbox,
            doorbell,
            inbox,
            rung: 0,
            taken: 0,
            poller: Arc::default(),
        })
    }

    /// Returns its number. A sender needs this number and the host id.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Accepts only messages that carry this key from now on; 0: all messages.
    pub fn lock(&mut self, key: u64) {
        self.store_u64(ECHO_OUTBOX_LOCK, key);
    }

    /// Sends a message of at most 1,008 bytes. Returns when the card has taken the message. Blocks
    /// while the link is full. If the destination inbox is full or locked, the message is lost and
    /// counted by the receiving card.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] for a longer message or an impossible host.
    /// [`crate::Error::System`] if the card is gone.
    pub fn send(&mut self, to: Address, data: &[u8]) -> Result<()> {
        self.send_with_key(to, 0, data)
    }

    /// As [`Mailbox::send`], to a mailbox that is locked with this key.
    ///
    /// # Errors
    /// Those of [`Mailbox::send`].
    pub fn send_with_key(&mut self, to: Address, key: u64, data: &[u8]) -> Result<()> {
        self.post(to, key, &[data])?;
        self.wait_until_sent(None).map(drop)
    }

    /// Fills in the outbox and rings. The message is in several pieces. The card must have taken
    /// the last one.
    pub(super) fn post(&mut self, to: Address, key: u64, pieces: &[&[u8]]) -> Result<()> {
        let length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        at_most("message length", length as u64, ECHO_MAX_MESSAGE.into())?;
        at_most("host id", to.host.into(), u16::MAX.into())?;
        for (word, value) in [
            (ECHO_OUTBOX_DESTINATION, to.host),
            (ECHO_OUTBOX_MAILBOX, to.mailbox),
            (ECHO_OUTBOX_LENGTH, length as u32),
        ] {
            self.outbox.store_u32(word as usize, value);
        }
        self.store_u64(ECHO_OUTBOX_KEY, key);
        let mut at = ECHO_OUTBOX_DATA as usize;
        for piece in pieces {
            self.outbox.write(at, piece);
            at += piece.len();
        }
        self.doorbell.store_u32_release(0, 1);
        self.rung = self.rung.wrapping_add(1);
        Ok(())
    }

    fn store_u64(&self, at: u32, value: u64) {
        self.outbox.store_u32(at as usize, value as u32);
        self.outbox.store_u32(at as usize + 4, (value >> 32) as u32);
    }

    /// Busy-polls until the card has taken the last message. Returns `false` on timeout. Checks
    /// every 100 ms whether the card still exists.
    pub(super) fn wait_until_sent(&self, limit: Option<Duration>) -> Result<bool> {
        let is_sent = || self.outbox.load_u32_acquire(ECHO_OUTBOX_SENT as usize) == self.rung;
        if is_sent() {
            return Ok(true);
        }
        let (deadline, mut checked) = (Deadline::new(limit), Instant::now());
        while !is_sent() {
            if deadline.left() == Some(Duration::ZERO) {
                return Ok(false);
            }
            if checked.elapsed() > CHECK {
                self.node.query()?;
                checked = Instant::now();
            }
            std::thread::yield_now();
        }
        Ok(true)
    }

    /// Returns whether a message has arrived.
    #[must_use]
    pub fn has_message(&self) -> bool {
        self.inbox.load_u32_acquire(self.place()) == self.taken.wrapping_add(1)
    }

    /// Returns the offset of the next record.
    fn place(&self) -> usize {
        ((self.taken % self.records) * ECHO_RECORD_SIZE) as usize
    }

    /// Returns the next message, if one has arrived.
    pub fn try_recv(&mut self) -> Option<Message> {
        if !self.has_message() {
            return None;
        }
        let place = self.place();
        let [host, mailbox, length] = [4, 8, 12].map(|word| self.inbox.load_u32(place + word));
        let mut data = vec![0; length.min(ECHO_MAX_MESSAGE) as usize];
        self.inbox.read(place + 16, &mut data);
        self.taken = self.taken.wrapping_add(1);
        self.outbox.store_u32_release(ECHO_OUTBOX_TAKEN as usize, self.taken);
        Some(Message { from: Address { host, mailbox }, data })
    }

    /// Sets how long [`Mailbox::recv`] polls before it sleeps.
    pub fn set_polling(&mut self, polling: Polling) {
        self.poller.set(polling);
    }

    /// Returns the next message. Blocks until one arrives: polls, then sleeps.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the card is gone.
    pub fn recv(&mut self) -> Result<Message> {
        self.recv_within(None)
    }

    /// As [`Mailbox::recv`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`]; those of [`Mailbox::recv`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Message> {
        self.recv_within(Some(timeout))
    }

    fn recv_within(&mut self, timeout: Option<Duration>) -> Result<Message> {
        let poller = self.poller.clone();
        poller.wait(self, "message", timeout, Self::try_recv, |mailbox, left| slept(mailbox.sleep(left)))
    }

    /// Sleeps until a message has arrived.
    pub(super) fn sleep(&self, limit: Option<Duration>) -> Result<()> {
        let mut wait = EchoWait { mailbox: self.number, taken: self.taken, timeout_ns: nanoseconds(limit) };
        self.node.call::<ECHO_IOC_MAILBOX_WAIT, _>("wait for a message", &mut wait, &[])
    }

    /// Returns the number of messages taken, modulo 2^32.
    pub(super) fn taken(&self) -> u32 {
        self.taken
    }

    /// Opens a file that is readable while there is a message.
    pub(super) fn file(&self) -> Result<OwnedFd> {
        file_of(&*self.node, self.offset, &self.node.file())
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let mut object = UlnObject { index: self.number, ..UlnObject::default() };
        // If this fails, the card is gone, and the mailbox with it.
        let _ = self.node.call::<ECHO_IOC_MAILBOX_CLOSE, _>("close a mailbox", &mut object, &[]);
    }
}
