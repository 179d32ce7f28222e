//! Name service.

use std::ffi::{c_int, c_void};

use super::card::shrimp_card;
use crate::connection::{uln_connecting, uln_connection, uln_name_listener};
use crate::exported::{Out, exported};
use crate::names::{self, uln_found};

exported! {
/// Registers a name, like hamlyn_listen. The listener, its requests and the connections are the
/// same as for any card.
fn shrimp_listen(card: &shrimp_card, name: &str, backlog: u32, listener: Out<Box<uln_name_listener>>) {
    names::listen(&card.0, name, backlog, listener)?
}

/// Connects to a name on a host, like hamlyn_connect. A handle may be passed, here or with the
/// answer.
fn shrimp_connect(
    card: &shrimp_card,
    host: u32,
    name: &str,
    data: *const c_void,
    length: usize,
    connection: Out<Box<uln_connection>>,
) {
    names::connect(&card.0, host, name, (data, length), connection)?
}

/// Requests a connection like hamlyn_connect_begin.
fn shrimp_connect_begin(
    card: &shrimp_card,
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
fn shrimp_connect_any(
    card: &shrimp_card,
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
fn shrimp_find(card: &shrimp_card, name: &str, found: Out<uln_found>, timeout_ms: c_int) {
    names::find(&card.0, name, found, timeout_ms)?
}
}
