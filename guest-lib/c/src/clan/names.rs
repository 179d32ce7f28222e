//! Processes that find each other by name. (clan_connect and clan_accept are for endpoints, which
//! have ports.)

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use super::card::clan_card;
use crate::call::{call, given};
use crate::connection::{hamlyn_connecting, hamlyn_connection, hamlyn_listener};
use crate::names::{self, hamlyn_found};

/// Takes a name, as hamlyn_listen does: the listener, who asks there and the connections are those
/// of any card. The operating systems watch such a connection, where clan_connect makes one of two
/// endpoints, whose port is known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_name_listen(
    card: Option<&clan_card>,
    name: *const c_char,
    backlog: u32,
    listener: Option<&mut MaybeUninit<Box<hamlyn_listener>>>,
) -> c_int {
    call(|| names::listen(&given(card, "card")?.0, name, backlog, listener))
}

/// Connects to a name on a host, as hamlyn_connect does. A descriptor, or an endpoint's address,
/// may be passed, here or with the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_name_connect(
    card: Option<&clan_card>,
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
pub unsafe extern "C" fn clan_name_connect_begin(
    card: Option<&clan_card>,
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
pub unsafe extern "C" fn clan_name_connect_any(
    card: Option<&clan_card>,
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
pub unsafe extern "C" fn clan_name_find(
    card: Option<&clan_card>,
    name: *const c_char,
    found: Option<&mut MaybeUninit<hamlyn_found>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| names::find(&given(card, "card")?.0, name, found, timeout_ms))
}
