//! Connections.

use std::ffi::c_int;
use std::sync::Arc;

use hamlyn::dart::{Connection, ConnectionBuilder, Rights};

use super::address::dart_address;
use super::bank::dart_bank;
use super::card::dart_card;
use super::endpoint::dart_endpoint;
use super::operation::dart_operation;
use super::queue::dart_queue;
use crate::call::{Failure, unused, waited};
use crate::exported::{Out, exported};
use crate::memory::items;

/// Maximum data of a message, in bytes.
pub const DART_LONGEST: u32 = 65504;
/// Number of messages of a connection that can wait to leave.
pub const DART_MAX_SENDS: u32 = 64;

/// Messages from the other end may read the endpoint.
pub const DART_RIGHT_READ: u32 = 1;
/// Messages from the other end may write to the endpoint.
pub const DART_RIGHT_WRITE: u32 = 2;

/// For dart_connection_options.registers: a window without registers. 0 selects all registers
/// instead.
pub const DART_NO_REGISTERS: u32 = 0xffff_ffff;

/// Maximum number of registers of a window.
const WINDOW: u32 = 256;

/// One end of a path to another host, or to this one (section 3). The card of the other end
/// executes its messages on the endpoint and registers of that end. Messages are executed in the
/// order in which they were sent, each at most once. Any number of threads may use it at once.
pub struct dart_connection(pub(crate) Arc<Connection>);

/// The parts and options of a connection. All parts may be destroyed before the connection is.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_connection_options {
    /// The endpoint that messages access, and that sent data comes from.
    pub endpoint: *const dart_endpoint,
    /// The bank that the window is part of.
    pub bank: *const dart_bank,
    /// The queue for its messages' events; NULL for none.
    pub events: *const dart_queue,
    /// The queue for its exceptions: software exceptions, and messages that were not executed; NULL
    /// for none.
    pub exceptions: *const dart_queue,
    /// The window's first register.
    pub first_register: u32,
    /// Number of registers of the window, up to 256. 0 selects all registers from the first one, at
    /// most 256. DART_NO_REGISTERS selects none.
    pub registers: u32,
    /// The program's first entry.
    pub first_entry: u32,
    /// Number of entries of the program; 0 for none.
    pub entries: u32,
    /// What messages from the other end may do to the endpoint: DART_RIGHT_READ, DART_RIGHT_WRITE,
    /// both, or 0. They may always change the window's registers.
    pub rights: u32,
    /// Must be 0.
    pub reserved: [u32; 5],
}

/// Returns the object that a pointer of the options refers to. The C caller promises that it has
/// this type.
fn part<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    Ok(&items(pointer, 1, name)?[0])
}

impl dart_connection_options {
    /// Returns a builder for the connection.
    pub(crate) fn builder(&self, card: &dart_card) -> Result<ConnectionBuilder, Failure> {
        unused(&self.reserved)?;
        let endpoint = part(self.endpoint, "endpoint of the options")?;
        let bank = &part(self.bank, "bank of the options")?.0;
        let registers = match self.registers {
            DART_NO_REGISTERS => 0,
            0 => bank.registers().saturating_sub(self.first_register).min(WINDOW),
            some => some,
        };
        let mut builder = card
            .0
            .connection(&endpoint.0, bank)
            .registers(self.first_register..self.first_register.saturating_add(registers))
            .program(self.first_entry..self.first_entry.saturating_add(self.entries))
            .rights(rights_of(self.rights)?);
        if !self.events.is_null() {
            builder = builder.events(&part(self.events, "events")?.0);
        }
        if !self.exceptions.is_null() {
            builder = builder.exceptions(&part(self.exceptions, "exceptions")?.0);
        }
        Ok(builder)
    }
}

fn rights_of(number: u32) -> Result<Rights, Failure> {
    Ok(match number {
        0 => Rights::None,
        DART_RIGHT_READ => Rights::Read,
        DART_RIGHT_WRITE => Rights::Write,
        3 => Rights::ReadWrite,
        _ => {
            let limit = DART_RIGHT_READ | DART_RIGHT_WRITE;
            return Err(Failure::argument(format!("rights {number:#x} are unknown (limit {limit:#x})")));
        }
    })
}

exported! {
/// Opens a connection with another host, or with this one. It accepts messages immediately, but
/// none leave before dart_connect.
fn dart_connection_create(
    card: &dart_card,
    options: &dart_connection_options,
    host: u32,
    connection: Out<Box<dart_connection>>,
) {
    connection.store(dart_connection(Arc::new(options.builder(card)?.open(host)?)))
}

/// Releases a connection. It is closed once everything created with it is destroyed too. The other
/// end is notified. NULL is a no-op.
fn dart_connection_destroy(connection: Box<dart_connection>);

/// Returns the connection's number at this host, which its records contain.
fn dart_connection_number(connection: &dart_connection) {
    connection.0.number() as c_int
}

/// Returns the host id of the other end.
fn dart_connection_host(connection: &dart_connection) {
    connection.0.host() as c_int
}

/// Stores the address that the other end needs to connect. Pass it only to the process that is to
/// be the other end. Fails with -ENETDOWN while the card's link is down.
fn dart_connection_address(connection: &dart_connection, address: Out<dart_address>) {
    address.store(dart_address::new(&connection.0.address()?))
}

/// Sets the other end of a connection, once. Both ends must call this.
fn dart_connect(connection: &dart_connection, address: &dart_address) {
    connection.0.connect(&address.read()?)?
}

/// Sends a message with these bytes of this end's endpoint. The bytes must not be changed before
/// the message has left (dart_wait_until_left). Makes no system call, unless it waits for room:
/// DART_MAX_SENDS messages can wait to leave. Fails with -ECONNRESET or -ENETDOWN if the connection
/// is broken.
fn dart_send(
    connection: &dart_connection,
    operation: &dart_operation,
    offset: u64,
    length: u64,
    timeout_ms: c_int,
) {
    let operation = operation.read()?;
    let data = offset..end_of(offset, length)?;
    waited!(timeout_ms, connection.0 => try_send / send / send_timeout(&operation, data))?;
}

/// Sends a question. The data that was read, or register i, comes back as the data of a message
/// with the operation `answer`, which is executed here. So an answer can be stored, or create an
/// event with its data, or both.
///
/// A DART_READ_MULTIPLE, or a DART_CALL of one, reads `bytes` bytes, and its answer is a
/// DART_WRITE_MULTIPLE. Other operations read one block. The question takes 20 bytes of this end's
/// endpoint, starting at `scratch`, until it has left. Fails with -EAGAIN if the maximum number of
/// messages is waiting to leave.
fn dart_ask(
    connection: &dart_connection,
    question: &dart_operation,
    answer: &dart_operation,
    bytes: u32,
    scratch: u64,
) {
    let (question, answer) = (question.read()?, answer.read()?);
    connection.0.ask(&question.answered(), &answer, bytes, scratch)?
}

/// Waits until all messages sent so far have left: their data may then be changed. Only an answer
/// confirms that they were executed.
fn dart_wait_until_left(connection: &dart_connection, timeout_ms: c_int) {
    waited!(timeout_ms, connection.0 => wait_until_left / wait_until_left_timeout())?
}

/// Waits until `exceptions` of dart_connection_status differs from `known`.
fn dart_wait_for_exception(connection: &dart_connection, known: u32, timeout_ms: c_int) {
    waited!(timeout_ms, connection.0 => wait_for_exception / wait_for_exception_timeout(known)).map(|_| 0)?
}

/// Stores the current value of register `number` of a connection's window in `value`.
fn dart_register(connection: &dart_connection, number: u32, value: Out<u64>) {
    value.store(connection.0.register(number)?)
}

/// Sets register `number` of a connection's window.
fn dart_set_register(connection: &dart_connection, number: u32, value: u64) {
    connection.0.set_register(number, value)?
}
}

/// Returns the offset after the last byte.
pub(crate) fn end_of(offset: u64, length: u64) -> Result<u64, Failure> {
    offset.checked_add(length).ok_or_else(|| {
        Failure::argument(format!("{length} bytes at offset {offset} reach past the end of all memory"))
    })
}
