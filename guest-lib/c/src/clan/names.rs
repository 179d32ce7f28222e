//! Name service. (clan_connect and clan_accept are for endpoints, which have ports.)

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use super::card::clan_card;
use crate::call::{call, given};
use crate::connection::{uln_connecting, uln_connection, uln_name_listener};
use crate::names::{self, uln_found};

/// Registers a name, like hamlyn_listen. The listener, its requests and the connections are the
/// same as for any card. The operating systems monitor such a connection. In contrast, clan_connect
/// connects two endpoints, by a known port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_name_listen(
    card: Option<&clan_card>,
    name: *const c_char,
    backlog: u32,
    listener: Option<&mut MaybeUninit<Box<uln_name_listener>>>,
) -> c_int {
    call(|| names::listen(&given(card, "card")?.0, name, backlog, listener))
}

/// Connects to a name on a host, like hamlyn_connect. A descriptor or an endpoint's address may be
/// passed, here or with the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_name_connect(
    card: Option<&clan_card>,
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
pub unsafe extern "C" fn clan_name_connect_begin(
    card: Option<&clan_card>,
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
pub unsafe extern "C" fn clan_name_connect_any(
    card: Option<&clan_card>,
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
pub unsafe extern "C" fn clan_name_find(
    card: Option<&clan_card>,
    name: *const c_char,
    found: Option<&mut MaybeUninit<uln_found>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| names::find(&given(card, "card")?.0, name, found, timeout_ms))
}
