//! Connections to other hosts.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hamlyn_abi::dart::command::{DART_CONNECTION_READ, DART_CONNECTION_WRITE, DART_NO_QUEUE};
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::{DART_BLOCK, DartControl};
use hamlyn_abi::dart::uapi::{DartConnection, DartExceptionWait, DartLeftWait, DartPeer};
use hamlyn_abi::family::link::ULN_NO_HOST;
use hamlyn_sys::{Access, Mapping};
use zerocopy::IntoBytes;

use super::address::Address;
use super::attachment::{Attachment, Object, Page};
use super::bank::{self, Bank};
use super::endpoint::{self, Endpoint};
use super::fault::{Broken, Dropped, Status, Trap};
use super::operation::Operation;
use super::queue::{self, Queue};
use crate::core::polling::{Poller, Polling};
use crate::core::waiting::{Deadline, slept, slice};
use crate::error::{Error, Result, at_most, inside};

/// Size of a page of the card in bytes.
const PAGE: usize = DART_PAGE_SIZE as usize;
/// What a wait for room reports when it times out.
const LEAVING: &str = "message that leaves";
/// The first version of a card with [`DART_SEND_DATA`].
const WITH_DATA_REGISTER: u32 = 0x0001_0001;

/// Access rights of a connection's messages to its endpoint. Messages may always change the
/// connection's registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rights {
    /// No access.
    None,
    /// Messages may read the endpoint.
    Read,
    /// Messages may write to the endpoint.
    Write,
    /// Messages may read the endpoint and write to it.
    ReadWrite,
}

impl Rights {
    fn flags(self) -> u32 {
        match self {
            Rights::None => 0,
            Rights::Read => DART_CONNECTION_READ,
            Rights::Write => DART_CONNECTION_WRITE,
            Rights::ReadWrite => DART_CONNECTION_READ | DART_CONNECTION_WRITE,
        }
    }
}

/// Builds a connection with an endpoint and a bank. Defaults: all of the bank's registers, none of
/// its programs, no queues, and messages with full access to the endpoint.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until it is opened"]
pub struct ConnectionBuilder {
    card: Arc<dyn Attachment>,
    endpoint: Arc<endpoint::Parts>,
    bank: Arc<bank::Parts>,
    registers: Range<u32>,
    program: Range<u32>,
    events: Option<Arc<queue::Parts>>,
    exceptions: Option<Arc<queue::Parts>>,
    rights: Rights,
}

impl ConnectionBuilder {
    pub(super) fn new(card: &Arc<dyn Attachment>, endpoint: &Endpoint, bank: &Bank) -> Self {
        Self {
            card: card.clone(),
            endpoint: endpoint.parts().clone(),
            bank: bank.parts().clone(),
            registers: 0..bank.registers().min(DART_MAX_REGISTERS),
            program: 0..0,
            events: None,
            exceptions: None,
            rights: Rights::ReadWrite,
        }
    }

    /// Sets the connection's window: a range of the bank's registers, at most 256.
    pub fn registers(mut self, registers: Range<u32>) -> Self {
        self.registers = registers;
        self
    }

    /// Sets the connection's program: a range of the bank's entries.
    pub fn program(mut self, entries: Range<u32>) -> Self {
        self.program = entries;
        self
    }

    /// Sets the queue for events of its messages.
    pub fn events(mut self, queue: &Queue) -> Self {
        self.events = Some(queue.parts().clone());
        self
    }

    /// Sets the queue for exceptions: software exceptions, and messages that were not executed.
    /// Without it, [`Connection::wait_for_exception`] reports messages that were not executed, and
    /// software exceptions are refused.
    pub fn exceptions(mut self, queue: &Queue) -> Self {
        self.exceptions = Some(queue.parts().clone());
        self
    }

    /// Sets the access rights of messages to the endpoint.
    pub fn rights(mut self, rights: Rights) -> Self {
        self.rights = rights;
        self
    }

    /// Opens the connection, with another host or with this one. It accepts messages at once, but
    /// none leave before [`Connection::connect`].
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::OutOfRange`] if the bank does not have these registers or
    /// entries; [`Error::Invalid`] if the parts were created with different open cards;
    /// [`Error::Exhausted`] or [`Error::Quota`] if no connection is free; [`Error::System`].
    pub fn open(&self, host: u32) -> Result<Connection> {
        let card = &self.card;
        at_most("registers of a window", self.registers.len() as u64, DART_MAX_REGISTERS.into())?;
        self.bank.check(&self.registers, &self.program)?;
        let queues = [&self.events, &self.exceptions].into_iter().flatten().map(|queue| queue.card());
        if queues.chain([self.bank.card(), self.endpoint.card()]).any(|other| !Arc::ptr_eq(other, card)) {
            return Err(Error::Invalid("a connection's parts are made with the same open card"));
        }
        let number =
            |queue: &Option<Arc<queue::Parts>>| queue.as_ref().map_or(DART_NO_QUEUE, |queue| queue.number());
        let mut opened = DartConnection {
            endpoint: self.endpoint.number(),
            host,
            bank: self.bank.number(),
            first_register: self.registers.start,
            registers: self.registers.len() as u32,
            first_entry: self.program.start,
            entries: self.program.len() as u32,
            events: number(&self.events),
            exceptions: number(&self.exceptions),
            flags: self.rights.flags(),
            ..DartConnection::default()
        };
        card.open_connection(&mut opened)?;
        let open = Open { card: card.clone(), number: opened.connection };
        let page = card.page(opened.connection, opened.page_offset)?;
        let state = card.map_pages("connection's state", opened.state_offset, PAGE, Access::Read)?;
        Ok(Connection {
            open,
            page,
            state,
            key: opened.key,
            host,
            registers: opened.registers,
            sender: Mutex::default(),
            poller: Poller::default(),
            has_data_register: card.query()?.abi_version >= WITH_DATA_REGISTER,
            endpoint: self.endpoint.clone(),
            _kept: (self.bank.clone(), self.events.clone(), self.exceptions.clone()),
        })
    }
}

/// A connection (section 3). The card of the other end executes its messages on the endpoint and
/// registers of that end. Messages are executed in the order in which they were sent, each at most
/// once.
#[derive(Debug)]
pub struct Connection {
    open: Open,
    page: Box<dyn Page>,
    state: Arc<Mapping>,
    key: u64,
    host: u32,
    registers: u32,
    sender: Mutex<Sender>,
    /// For waits until messages leave.
    poller: Poller,
    /// The card has the register [`DART_SEND_DATA`].
    has_data_register: bool,
    endpoint: Arc<endpoint::Parts>,
    // Dropped last: they cannot be closed while a connection refers to them.
    _kept: (Arc<bank::Parts>, Option<Arc<queue::Parts>>, Option<Arc<queue::Parts>>),
}

#[derive(Debug)]
struct Open {
    card: Arc<dyn Attachment>,
    number: u32,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.card.close(Object::Connection, self.number);
    }
}

/// Contents of the Send Registers, which keep their values, and the number of messages stored.
#[derive(Debug, Default)]
struct Sender {
    kept: [u64; 3],
    sent: u32,
}

impl Connection {
    /// Returns the connection's number at this host.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.open.number
    }

    /// Returns the host of the other end.
    #[must_use]
    pub fn host(&self) -> u32 {
        self.host
    }

    /// Returns the address that the other end needs to connect. Pass it only to the process that is
    /// to be the other end.
    ///
    /// # Errors
    /// [`Error::LinkDown`], [`Error::System`].
    pub fn address(&self) -> Result<Address> {
        match self.open.card.query()?.host {
            ULN_NO_HOST => Err(Error::LinkDown),
            host => Ok(Address::new(host, self.open.number, self.key)),
        }
    }

    /// Sets the other end, once. Both ends must call this.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the address is at another host than the one the connection was opened
    /// with; [`Error::System`], also if the other end is already set.
    pub fn connect(&self, other: &Address) -> Result<()> {
        if other.host != self.host {
            return Err(Error::Invalid("the address is not at the host that the connection was opened with"));
        }
        let mut peer = DartPeer { key: other.key, connection: self.open.number, peer: other.number };
        self.open.card.set_peer(&mut peer)
    }

    /// Sends a message with these bytes of this end's endpoint, if fewer than the maximum number of
    /// messages wait to leave. Makes no system call. The bytes must not be changed before the
    /// message has left ([`Connection::wait_until_left`]).
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::OutOfRange`] if there is more data than the operation takes;
    /// [`Error::WouldBlock`] if the maximum number of messages is waiting; [`crate::dart::Broken`].
    pub fn try_send(&self, operation: &Operation, data: Range<u64>) -> Result<()> {
        let length = self.check(operation, &data)?;
        let mut sender = self.sender();
        self.check_room(&sender)?;
        self.store(&mut sender, operation.control(), data.start, length);
        Ok(())
    }

    /// Sends a message; blocks while the maximum number of messages is waiting.
    ///
    /// # Errors
    /// Same as [`Connection::try_send`], except [`Error::WouldBlock`].
    pub fn send(&self, operation: &Operation, data: Range<u64>) -> Result<()> {
        self.send_within(operation, data, None)
    }

    /// As [`Connection::send`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Connection::send`].
    pub fn send_timeout(&self, operation: &Operation, data: Range<u64>, timeout: Duration) -> Result<()> {
        self.send_within(operation, data, Some(timeout))
    }

    fn send_within(&self, operation: &Operation, data: Range<u64>, timeout: Option<Duration>) -> Result<()> {
        let deadline = Deadline::new(timeout);
        loop {
            match self.try_send(operation, data.clone()) {
                Err(Error::WouldBlock { .. }) => self.wait_for_room(DART_MAX_SENDS, deadline.left())?,
                result => return result,
            }
        }
    }

    /// Sends a question. The data that was read, or register `i`, comes back as the data of a
    /// message with the operation `answer`, which is executed here. So an answer can be stored, or
    /// create an event with its data, or both.
    ///
    /// An [`Operation::read_multiple`] reads `bytes` bytes, and its answer is an
    /// [`Operation::write_multiple`]. Other operations read one block. The question takes 20 bytes
    /// of this end's endpoint, starting at `scratch`, until it has left.
    ///
    /// # Errors
    /// Same as [`Connection::try_send`].
    pub fn ask(&self, question: &Operation, answer: &Operation, bytes: u32, scratch: u64) -> Result<()> {
        at_most("bytes that are asked for", bytes.into(), DART_LONGEST.into())?;
        let mut sender = self.sender();
        self.check_room(&sender)?;
        let mut asked = [0; 20];
        asked[..16].copy_from_slice(answer.control().as_bytes());
        asked[16..].copy_from_slice(&bytes.to_le_bytes());
        self.endpoint.memory().write(scratch as usize, &asked)?;
        self.store(&mut sender, question.control(), scratch, asked.len() as u32);
        Ok(())
    }

    fn check(&self, operation: &Operation, data: &Range<u64>) -> Result<u32> {
        let length = data.end.saturating_sub(data.start);
        let limit = if operation.is_long() { DART_LONGEST } else { DART_BLOCK };
        at_most("data of a message", length, limit.into())?;
        if length > 0 {
            inside("endpoint", data.start, length, self.endpoint.memory().len() as u64)?;
        }
        Ok(length as u32)
    }

    fn sender(&self) -> MutexGuard<'_, Sender> {
        // A panic cannot happen while the lock is held.
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_room(&self, sender: &Sender) -> Result<()> {
        if let Some(broken) = self.broken() {
            return Err(broken.into());
        }
        if sender.sent.wrapping_sub(self.left()) >= DART_MAX_SENDS {
            return Err(Error::WouldBlock {
                object: "places for messages that wait to leave",
                limit: DART_MAX_SENDS,
            });
        }
        Ok(())
    }

    /// Stores the values that differ from the contents of the Send Registers; the last store sends.
    /// The offset of empty data does not matter.
    fn store(&self, sender: &mut Sender, control: DartControl, offset: u64, length: u32) {
        let offset = if length == 0 { sender.kept[2] } else { offset };
        let [i, j, k] = control.indices.map(u64::from);
        let first = u64::from(control.opcode) | u64::from(control.mask) << 32 | i << 40 | j << 48 | k << 56;
        let is_moved = sender.kept[2] != offset;
        let at_once = is_moved && self.has_data_register && offset >> (u64::BITS - DART_SEND_DATA_SHIFT) == 0;
        let places = [DART_SEND_CONTROL, DART_SEND_OPERAND, DART_SEND_OFFSET];
        for ((kept, place), value) in sender.kept.iter_mut().zip(places).zip([first, control.operand, offset])
        {
            let is_new = std::mem::replace(kept, value) != value;
            if is_new && !(at_once && place == DART_SEND_OFFSET) {
                self.page.store_u64(place, value);
            }
        }
        if at_once {
            self.page.store_u64(DART_SEND_DATA, offset << DART_SEND_DATA_SHIFT | u64::from(length));
        } else {
            self.page.store_u32(DART_SEND_LENGTH, length);
        }
        sender.sent = sender.sent.wrapping_add(1);
    }

    fn state(&self, word: u32) -> u32 {
        self.state.load_u32_acquire(word as usize)
    }

    fn left(&self) -> u32 {
        self.state(DART_STATE_LEFT)
    }

    /// Returns whether all messages have left.
    pub(super) fn has_left(&self) -> bool {
        self.sender().sent == self.left()
    }

    /// Blocks until fewer than `limit` messages wait to leave.
    pub(super) fn wait_for_room(&self, limit: u32, timeout: Option<Duration>) -> Result<()> {
        self.wait_until(timeout, |left| self.sender().sent.wrapping_sub(left) < limit)
    }

    /// Blocks until the number of messages that have left satisfies a condition: polls, then
    /// sleeps.
    fn wait_until(&self, timeout: Option<Duration>, is_met: impl Fn(u32) -> bool) -> Result<()> {
        let look = || match is_met(self.left()) {
            true => Some(Ok(())),
            false => self.broken().map(|broken| Err(broken.into())),
        };
        // Mostly it is met, and no clock is needed.
        if let Some(found) = look() {
            return found;
        }
        // A message that leaves after the last look ends the sleep at once.
        let look = |left: &mut u32| {
            *left = self.left();
            look()
        };
        self.poller.wait(&mut 0, LEAVING, timeout, look, |left, limit| self.sleep(*left, limit))?
    }

    /// Sets how long calls that wait for messages to leave poll before they sleep.
    pub fn set_polling(&self, polling: Polling) {
        self.poller.set(polling);
    }

    fn broken(&self) -> Option<Broken> {
        Broken::of(self.state(DART_STATE_BROKEN))
    }

    fn sleep(&self, left: u32, limit: Option<Duration>) -> Result<()> {
        let mut wait = DartLeftWait { timeout_ns: slice(limit), connection: self.open.number, left };
        slept(self.open.card.wait_until_left(&mut wait))
    }

    /// Blocks until all messages sent so far have left: their data may then be changed. Only an
    /// answer confirms that they were executed.
    ///
    /// # Errors
    /// [`crate::dart::Broken`], [`Error::System`].
    pub fn wait_until_left(&self) -> Result<()> {
        self.wait_until_left_within(None)
    }

    /// As [`Connection::wait_until_left`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Connection::wait_until_left`].
    pub fn wait_until_left_timeout(&self, timeout: Duration) -> Result<()> {
        self.wait_until_left_within(Some(timeout))
    }

    fn wait_until_left_within(&self, timeout: Option<Duration>) -> Result<()> {
        let sent = self.sender().sent;
        // Other threads may have sent more messages, which have left too.
        self.wait_until(timeout, |left| sent.wrapping_sub(left) as i32 <= 0)
    }

    /// Blocks until [`Status::exceptions`] differs from `known`, and returns it. Without an
    /// exception queue, this is all that the receiving host learns of a trap. The sender is
    /// notified of it, too.
    ///
    /// # Errors
    /// [`crate::dart::Broken`], [`Error::System`].
    pub fn wait_for_exception(&self, known: u32) -> Result<u32> {
        self.wait_for_exception_within(known, None)
    }

    /// As [`Connection::wait_for_exception`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Connection::wait_for_exception`].
    pub fn wait_for_exception_timeout(&self, known: u32, timeout: Duration) -> Result<u32> {
        self.wait_for_exception_within(known, Some(timeout))
    }

    fn wait_for_exception_within(&self, known: u32, timeout: Option<Duration>) -> Result<u32> {
        let deadline = Deadline::new(timeout);
        loop {
            let exceptions = self.state(DART_STATE_EXCEPTIONS);
            if exceptions != known {
                return Ok(exceptions);
            }
            if let Some(broken) = self.broken() {
                return Err(broken.into());
            }
            let timeout_ns = slice(deadline.check("exception")?);
            let mut wait = DartExceptionWait { timeout_ns, connection: self.open.number, exceptions: known };
            slept(self.open.card.wait_for_exceptions(&mut wait))?;
        }
    }

    /// Fails if the connection is broken, or a message of this end was not executed.
    pub(super) fn check_executed(&self) -> Result<()> {
        if let Some(broken) = self.broken() {
            return Err(broken.into());
        }
        Trap::of(self.state(DART_STATE_TRAP)).map_or(Ok(()), |trap| Err(trap.into()))
    }

    /// Returns the connection's status.
    #[must_use]
    pub fn status(&self) -> Status {
        let traps = self.state(DART_STATE_TRAPS);
        Status {
            left: self.left(),
            dropped: self.state(DART_STATE_DROPPED),
            dropped_why: Dropped::of(self.state(DART_STATE_DROPPED_WHY)),
            traps,
            trap: Trap::of(self.state(DART_STATE_TRAP))
                .map(|trap| (trap, self.state(DART_STATE_TRAP_OPCODE))),
            exceptions: self.state(DART_STATE_EXCEPTIONS),
            exception: Trap::of(self.state(DART_STATE_EXCEPTION))
                .map(|trap| (trap, self.state(DART_STATE_EXCEPTION_OPCODE))),
            broken: self.broken(),
        }
    }

    /// Returns the current value of register `number` of the window.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn register(&self, number: u32) -> Result<u64> {
        Ok(self.page.load_u64(self.place(number)?))
    }

    /// Sets register `number` of the window.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn set_register(&self, number: u32, value: u64) -> Result<()> {
        self.page.store_u64(self.place(number)?, value);
        Ok(())
    }

    fn place(&self, number: u32) -> Result<u32> {
        match self.registers.checked_sub(1) {
            Some(last) => at_most("register", number.into(), last.into())?,
            None => return Err(Error::Invalid("the connection's window has no registers")),
        }
        Ok(DART_PAGE_REGISTERS + number * 8)
    }
}
