//! Connections.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::Arc;

use hamlyn::dart::{Connection, ConnectionBuilder, Rights};

use super::address::dart_address;
use super::bank::dart_bank;
use super::card::dart_card;
use super::endpoint::dart_endpoint;
use super::operation::dart_operation;
use super::queue::dart_queue;
use crate::call::{Failure, at_once, call, free, given, store, timeout, unused, wait};
use crate::memory::items;

/// The most bytes of data of a message.
pub const DART_LONGEST: u32 = 65504;
/// How many messages of a connection can wait to leave.
pub const DART_MAX_SENDS: u32 = 64;

/// The other end's messages may read the endpoint.
pub const DART_RIGHT_READ: u32 = 1;
/// They may write to it.
pub const DART_RIGHT_WRITE: u32 = 2;

/// For dart_connection_options: a window without registers, where 0 is all that there are.
pub const DART_NO_REGISTERS: u32 = 0xffff_ffff;

/// The most registers of a window.
const WINDOW: u32 = 256;

/// One end of a path to another host, or to this one (section 3): what is sent by it is executed by
/// the other end's card, on that one's endpoint and registers, in the order in which it was sent,
/// each message once or not at all. Any number of threads may use it at once.
pub struct dart_connection(pub(crate) Arc<Connection>);

/// What a connection is made of. All of it may be destroyed before the connection is.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_connection_options {
    /// What messages reach, and what is sent comes from.
    pub endpoint: *const dart_endpoint,
    /// What the window is of.
    pub bank: *const dart_bank,
    /// Where its messages' events are told; NULL is nowhere.
    pub events: *const dart_queue,
    /// Where its exceptions are told: what is for software, and what was not executed; NULL is
    /// nowhere.
    pub exceptions: *const dart_queue,
    /// The window's first register.
    pub first_register: u32,
    /// How many it has, up to 256; 0 is all that are behind, or 256. DART_NO_REGISTERS is none.
    pub registers: u32,
    /// The program's first entry.
    pub first_entry: u32,
    /// How many it has; 0 is none.
    pub entries: u32,
    /// What the other end's messages may do to the endpoint: DART_RIGHT_READ, DART_RIGHT_WRITE,
    /// both, or 0. They may change the window's registers whatever this is.
    pub rights: u32,
    /// Must be 0.
    pub reserved: [u32; 5],
}

/// What a pointer of the options is to; the caller in C promises that it is that.
fn part<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    Ok(&items(pointer, 1, name)?[0])
}

impl dart_connection_options {
    /// What is to be opened.
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

/// Opens a connection with another host, or with this one. It takes messages at once; none leave
/// before dart_connect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_connection_create(
    card: Option<&dart_card>,
    options: Option<&dart_connection_options>,
    host: u32,
    connection: Option<&mut MaybeUninit<Box<dart_connection>>>,
) -> c_int {
    call(|| {
        let (card, to) = (given(card, "card")?, given(connection, "connection")?);
        let connection = given(options, "options")?.builder(card)?.open(host)?;
        store(to, Box::new(dart_connection(Arc::new(connection))))
    })
}

/// Lets a connection go; it is closed when what was made with it is destroyed, too. The other end
/// is told. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_connection_destroy(connection: Option<Box<dart_connection>>) {
    free(connection);
}

/// Its number at this host, which records have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_connection_number(connection: Option<&dart_connection>) -> c_int {
    call(|| Ok(given(connection, "connection")?.0.number() as c_int))
}

/// The other end's host id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_connection_host(connection: Option<&dart_connection>) -> c_int {
    call(|| Ok(given(connection, "connection")?.0.host() as c_int))
}

/// What its other end must know to be that: for the process that is to be the other end, and for
/// nobody else. -ENETDOWN while the card's link is down.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_connection_address(
    connection: Option<&dart_connection>,
    address: Option<&mut MaybeUninit<dart_address>>,
) -> c_int {
    call(|| {
        let (connection, to) = (&given(connection, "connection")?.0, given(address, "address")?);
        store(to, dart_address::new(&connection.address()?))
    })
}

/// Says what a connection's other end is, once. Both ends do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_connect(
    connection: Option<&dart_connection>,
    address: Option<&dart_address>,
) -> c_int {
    call(|| {
        let (connection, address) = (&given(connection, "connection")?.0, given(address, "address")?);
        Ok(connection.connect(&address.read()?).map(|()| 0)?)
    })
}

/// Sends a message with these bytes of this end's endpoint, which must not be changed before it has
/// left (dart_wait_until_left). No system call, unless it waits for room: DART_MAX_SENDS can wait
/// to leave. -ECONNRESET or -ENETDOWN if the connection is broken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_send(
    connection: Option<&dart_connection>,
    operation: Option<&dart_operation>,
    offset: u64,
    length: u64,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let connection = &given(connection, "connection")?.0;
        let operation = given(operation, "operation")?.read()?;
        let data = offset..end_of(offset, length)?;
        let send = || connection.send(&operation, data.clone());
        wait(timeout_ms, send, |limit| connection.send_wait(&operation, data.clone(), limit))?;
        Ok(0)
    })
}

/// Asks: what is read, or register i, comes back as a message of the operation `answer` with it as
/// its data, which is executed here. So it may be put somewhere, or told as an event with its data,
/// or both.
///
/// `bytes` are read by a DART_READ_MULTIPLE, or by a DART_CALL of one, whose answer is a
/// DART_WRITE_MULTIPLE; others have one block. The question takes 20 bytes of this end's endpoint
/// from `scratch` on, until it has left. -EAGAIN if as many messages wait to leave as can.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_ask(
    connection: Option<&dart_connection>,
    question: Option<&dart_operation>,
    answer: Option<&dart_operation>,
    bytes: u32,
    scratch: u64,
) -> c_int {
    call(|| {
        let connection = &given(connection, "connection")?.0;
        let (question, answer) = (given(question, "question")?.read()?, given(answer, "answer")?.read()?);
        Ok(connection.ask(&question.answered(), &answer, bytes, scratch).map(|()| 0)?)
    })
}

/// Waits until all messages that were sent have left: their data may be changed. What becomes of
/// them only an answer tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_wait_until_left(
    connection: Option<&dart_connection>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let connection = &given(connection, "connection")?.0;
        at_once(timeout_ms, connection.wait_until_left(timeout(timeout_ms))).map(|()| 0)
    })
}

/// Waits until `exceptions` of dart_connection_status is another number than `known`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_wait_for_exception(
    connection: Option<&dart_connection>,
    known: u32,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let connection = &given(connection, "connection")?.0;
        at_once(timeout_ms, connection.wait_for_exception(known, timeout(timeout_ms))).map(|_| 0)
    })
}

/// Loads register `number` of a connection's window, as it is now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_register(
    connection: Option<&dart_connection>,
    number: u32,
    value: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let (connection, to) = (&given(connection, "connection")?.0, given(value, "value")?);
        store(to, connection.register(number)?)
    })
}

/// Stores to register `number` of a connection's window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_set_register(
    connection: Option<&dart_connection>,
    number: u32,
    value: u64,
) -> c_int {
    call(|| Ok(given(connection, "connection")?.0.set_register(number, value).map(|()| 0)?))
}

/// The first byte behind these.
pub(crate) fn end_of(offset: u64, length: u64) -> Result<u64, Failure> {
    offset.checked_add(length).ok_or_else(|| {
        Failure::argument(format!("{length} bytes at offset {offset} reach past the end of all memory"))
    })
}
