//! Processes that find each other by name, and connections that are set up in this way.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::card::dart_card;
use super::connection::{dart_connection, dart_connection_options};
use crate::call::{call, given, store};
use crate::connection::{hamlyn_connecting, hamlyn_connection, hamlyn_listener, hamlyn_request};
use crate::memory::text;
use crate::names::{self, hamlyn_found};

/// Takes a name, as hamlyn_listen does: the listener, who asks there and the connections that the
/// operating systems watch are those of any card. dart_admit makes a connection of the card's with
/// who has asked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_name_listen(
    card: Option<&dart_card>,
    name: *const c_char,
    backlog: u32,
    listener: Option<&mut MaybeUninit<Box<hamlyn_listener>>>,
) -> c_int {
    call(|| names::listen(&given(card, "card")?.0, name, backlog, listener))
}

/// Connects to a name on a host, as hamlyn_connect does. An address may be passed, here or with the
/// answer; dart_reach does that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_name_connect(
    card: Option<&dart_card>,
    host: u32,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connection: Option<&mut MaybeUninit<Box<hamlyn_connection>>>,
) -> c_int {
    call(|| names::connect(&given(card, "card")?.0, host, name, (data, length), connection))
}

/// Asks for a connection as hamlyn_connect_begin does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_name_connect_begin(
    card: Option<&dart_card>,
    host: u32,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connecting: Option<&mut MaybeUninit<Box<hamlyn_connecting>>>,
) -> c_int {
    call(|| names::begin_connect(&given(card, "card")?.0, host, name, (data, length), connecting))
}

/// Connects to a name on whichever of these hosts accepts first, as hamlyn_connect_any does: bit h
/// of the word stands for host h, and 0 for all hosts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_name_connect_any(
    card: Option<&dart_card>,
    hosts: u64,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connection: Option<&mut MaybeUninit<Box<hamlyn_connection>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| names::connect_any(&given(card, "card")?.0, hosts, name, (data, length), connection, timeout_ms))
}

/// Which hosts have a listener of a name, as hamlyn_find does; returns how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_name_find(
    card: Option<&dart_card>,
    name: *const c_char,
    found: Option<&mut MaybeUninit<hamlyn_found>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| names::find(&given(card, "card")?.0, name, found, timeout_ms))
}

/// Opens a connection with whoever listens under a name at a host, and connects both ends. `known`
/// is the connection of the two processes that the operating systems watch, and tells of the
/// other's end. It fails as dart_connection_create and hamlyn_connect do, and with -EINVAL if who
/// listens answers otherwise than dart_admit does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_reach(
    card: Option<&dart_card>,
    options: Option<&dart_connection_options>,
    host: u32,
    name: *const c_char,
    connection: Option<&mut MaybeUninit<Box<dart_connection>>>,
    known: Option<&mut MaybeUninit<Box<hamlyn_connection>>>,
) -> c_int {
    call(|| {
        let (card, to, known) =
            (given(card, "card")?, given(connection, "connection")?, given(known, "known")?);
        let builder = given(options, "options")?.builder(card)?;
        let (made, watched) = builder.reach(&card.0, host, text(name, "name")?)?;
        store(known, Box::new(hamlyn_connection(watched)))?;
        store(to, Box::new(dart_connection(Arc::new(made))))
    })
}

/// Opens a connection with who has asked for it by dart_reach, and connects both ends. The request
/// is gone, even if this fails: who has asked is told that there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_admit(
    card: Option<&dart_card>,
    options: Option<&dart_connection_options>,
    request: Option<Box<hamlyn_request>>,
    connection: Option<&mut MaybeUninit<Box<dart_connection>>>,
    known: Option<&mut MaybeUninit<Box<hamlyn_connection>>>,
) -> c_int {
    call(|| {
        let request = given(request, "request")?.0;
        let (card, to, known) =
            (given(card, "card")?, given(connection, "connection")?, given(known, "known")?);
        let (made, watched) = given(options, "options")?.builder(card)?.admit(request)?;
        store(known, Box::new(hamlyn_connection(watched)))?;
        store(to, Box::new(dart_connection(Arc::new(made))))
    })
}
