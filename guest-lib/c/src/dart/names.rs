//! Name service, and connections that are set up by name.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::card::dart_card;
use super::connection::{dart_connection, dart_connection_options};
use crate::call::{call, given, store};
use crate::connection::{uln_connecting, uln_connection, uln_name_listener, uln_request};
use crate::memory::text;
use crate::names::{self, uln_found};

/// Registers a name, like hamlyn_listen. The listener, its requests and the connections that the
/// operating systems monitor are the same as for any card. dart_admit creates a connection of the
/// card with a requester.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_name_listen(
    card: Option<&dart_card>,
    name: *const c_char,
    backlog: u32,
    listener: Option<&mut MaybeUninit<Box<uln_name_listener>>>,
) -> c_int {
    call(|| names::listen(&given(card, "card")?.0, name, backlog, listener))
}

/// Connects to a name on a host, like hamlyn_connect. An address may be passed, here or with the
/// answer; dart_reach does that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_name_connect(
    card: Option<&dart_card>,
    host: u32,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connection: Option<&mut MaybeUninit<Box<uln_connection>>>,
) -> c_int {
    call(|| names::connect(&given(card, "card")?.0, host, name, (data, length), connection))
}

/// Requests a connection like hamlyn_connect_begin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_name_connect_begin(
    card: Option<&dart_card>,
    host: u32,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connecting: Option<&mut MaybeUninit<Box<uln_connecting>>>,
) -> c_int {
    call(|| names::begin_connect(&given(card, "card")?.0, host, name, (data, length), connecting))
}

/// Connects to a name on the first of these hosts that accepts, like hamlyn_connect_any. Bit h of
/// `hosts` stands for host h; 0 stands for all hosts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_name_connect_any(
    card: Option<&dart_card>,
    hosts: u64,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connection: Option<&mut MaybeUninit<Box<uln_connection>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| names::connect_any(&given(card, "card")?.0, hosts, name, (data, length), connection, timeout_ms))
}

/// Finds the hosts that have a listener for a name, like hamlyn_find, and returns their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_name_find(
    card: Option<&dart_card>,
    name: *const c_char,
    found: Option<&mut MaybeUninit<uln_found>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| names::find(&given(card, "card")?.0, name, found, timeout_ms))
}

/// Opens a connection with the listener of a name at a host, and connects both ends. `known` is the
/// connection of the two processes that the operating systems monitor; it reports the end of the
/// other process. Fails like dart_connection_create and hamlyn_connect, and with -EINVAL if the
/// listener's answer is not that of dart_admit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_reach(
    card: Option<&dart_card>,
    options: Option<&dart_connection_options>,
    host: u32,
    name: *const c_char,
    connection: Option<&mut MaybeUninit<Box<dart_connection>>>,
    known: Option<&mut MaybeUninit<Box<uln_connection>>>,
) -> c_int {
    call(|| {
        let (card, to, known) =
            (given(card, "card")?, given(connection, "connection")?, given(known, "known")?);
        let builder = given(options, "options")?.builder(card)?;
        let (made, watched) = builder.reach(&card.0, host, text(name, "name")?)?;
        store(known, Box::new(uln_connection(watched)))?;
        store(to, Box::new(dart_connection(Arc::new(made))))
    })
}

/// Opens a connection with a process that has requested it by dart_reach, and connects both ends.
/// The request is destroyed, even if this fails: the requester is then notified that there is no
/// connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_admit(
    card: Option<&dart_card>,
    options: Option<&dart_connection_options>,
    request: Option<Box<uln_request>>,
    connection: Option<&mut MaybeUninit<Box<dart_connection>>>,
    known: Option<&mut MaybeUninit<Box<uln_connection>>>,
) -> c_int {
    call(|| {
        let request = given(request, "request")?.0;
        let (card, to, known) =
            (given(card, "card")?, given(connection, "connection")?, given(known, "known")?);
        let (made, watched) = given(options, "options")?.builder(card)?.admit(request)?;
        store(known, Box::new(uln_connection(watched)))?;
        store(to, Box::new(dart_connection(Arc::new(made))))
    })
}
