//! Name service, and connections that are set up by name.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use hamlyn::CONNECT_TIMEOUT;

use super::card::dart_card;
use super::connection::{dart_connection, dart_connection_options};
use crate::connection::{uln_connecting, uln_connection, uln_name_listener, uln_request};
use crate::exported::{Out, exported};
use crate::names::{self, uln_found};

exported! {
/// Registers a name, like hamlyn_listen. The listener, its requests and the connections that the
/// operating systems monitor are the same as for any card. dart_admit creates a connection of the
/// card with a requester.
fn dart_name_listen(card: &dart_card, name: &str, backlog: u32, listener: Out<Box<uln_name_listener>>) {
    names::listen(&card.0, name, backlog, listener)?
}

/// Connects to a name on a host, like hamlyn_connect. An address may be passed, here or with the
/// answer; dart_reach does that.
fn dart_name_connect(
    card: &dart_card,
    host: u32,
    name: &str,
    data: *const c_void,
    length: usize,
    connection: Out<Box<uln_connection>>,
) {
    names::connect(&card.0, host, name, (data, length), connection)?
}

/// Requests a connection like hamlyn_connect_begin.
fn dart_name_connect_begin(
    card: &dart_card,
    host: u32,
    name: &str,
    data: *const c_void,
    length: usize,
    connecting: Out<Box<uln_connecting>>,
) {
    names::begin_connect(&card.0, host, name, (data, length), connecting)?
}

/// Connects to a name on the first of these hosts that accepts, like hamlyn_connect_any. Bit h of
/// `hosts` stands for host h; 0 stands for all hosts.
fn dart_name_connect_any(
    card: &dart_card,
    hosts: u64,
    name: &str,
    data: *const c_void,
    length: usize,
    connection: Out<Box<uln_connection>>,
    timeout_ms: c_int,
) {
    names::connect_any(&card.0, hosts, name, (data, length), connection, timeout_ms)?
}

/// Finds the hosts that have a listener for a name, like hamlyn_find, and returns their number.
fn dart_name_find(card: &dart_card, name: &str, found: Out<uln_found>, timeout_ms: c_int) {
    names::find(&card.0, name, found, timeout_ms)?
}

/// Opens a connection with the listener of a name at a host, and connects both ends. `known` is the
/// connection of the two processes that the operating systems monitor; it reports the end of the
/// other process. Fails like dart_connection_create and hamlyn_connect, and with -EINVAL if the
/// listener's answer is not that of dart_admit.
fn dart_reach(
    card: &dart_card,
    options: &dart_connection_options,
    host: u32,
    name: &str,
    connection: Out<Box<dart_connection>>,
    known: Out<Box<uln_connection>>,
) {
    let builder = options.builder(card)?;
    let (made, watched) = builder.reach_timeout(&card.0, host, name, CONNECT_TIMEOUT)?;
    known.store(uln_connection(watched));
    connection.store(dart_connection(Arc::new(made)))
}

/// Opens a connection with a process that has requested it by dart_reach, and connects both ends.
/// The request is destroyed, even if this fails: the requester is then notified that there is no
/// connection.
fn dart_admit(
    card: &dart_card,
    options: &dart_connection_options,
    request: Box<uln_request>,
    connection: Out<Box<dart_connection>>,
    known: Out<Box<uln_connection>>,
) {
    let (made, watched) = options.builder(card)?.admit(request.0)?;
    known.store(uln_connection(watched));
    connection.store(dart_connection(Arc::new(made)))
}
}
