//! Processes that find each other by name.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use super::card::shrimp_card;
use crate::call::{at_once, call, count, given, store, timeout};
use crate::connection::{hamlyn_connecting, hamlyn_connection, hamlyn_found, hamlyn_listener, is_in};
use crate::memory::{bytes, text};

/// Takes a name, as hamlyn_listen does: the listener, who asks there and the connections are those of any card.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_listen(
    card: Option<&shrimp_card>,
    name: *const c_char,
    backlog: u32,
    listener: Option<&mut MaybeUninit<Box<hamlyn_listener>>>,
) -> c_int {
    call(|| {
        let to = given(listener, "listener")?;
        let listener = given(card, "card")?.0.listen_backlog(text(name, "name")?, backlog)?;
        store(to, Box::new(hamlyn_listener(listener)))
    })
}

/// Connects to a name on a host, as hamlyn_connect does. A handle may be passed, here or with the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_connect(
    card: Option<&shrimp_card>,
    host: u32,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connection: Option<&mut MaybeUninit<Box<hamlyn_connection>>>,
) -> c_int {
    call(|| {
        let to = given(connection, "connection")?;
        let card = &given(card, "card")?.0;
        let connection = card.connect(host, text(name, "name")?, bytes(data, length, "data")?)?;
        store(to, Box::new(hamlyn_connection(connection)))
    })
}

/// Asks for a connection as hamlyn_connect_begin does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_connect_begin(
    card: Option<&shrimp_card>,
    host: u32,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connecting: Option<&mut MaybeUninit<Box<hamlyn_connecting>>>,
) -> c_int {
    call(|| {
        let to = given(connecting, "connecting")?;
        let card = &given(card, "card")?.0;
        let connecting = card.begin_connect(host, text(name, "name")?, bytes(data, length, "data")?)?;
        store(to, Box::new(hamlyn_connecting(connecting)))
    })
}

/// Connects to a name on whichever of these hosts accepts first, as hamlyn_connect_any does: bit h of the word stands for host h, and 0
/// for all hosts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_connect_any(
    card: Option<&shrimp_card>,
    hosts: u64,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connection: Option<&mut MaybeUninit<Box<hamlyn_connection>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = given(connection, "connection")?;
        let card = &given(card, "card")?.0;
        let (name, data) = (text(name, "name")?, bytes(data, length, "data")?);
        let all = card.hosts()?.filter(|host| hosts == 0 || is_in(hosts, *host));
        let connection = at_once(timeout_ms, card.connect_any(all, name, data, timeout(timeout_ms)))?;
        store(to, Box::new(hamlyn_connection(connection)))
    })
}

/// Which hosts have a listener of a name, as hamlyn_find does; returns how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_find(
    card: Option<&shrimp_card>,
    name: *const c_char,
    found: Option<&mut MaybeUninit<hamlyn_found>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = given(found, "found")?;
        let answers = given(card, "card")?.0.find(text(name, "name")?, timeout(timeout_ms))?;
        store(to, hamlyn_found::new(&answers))?;
        Ok(count(answers.hosts.len()))
    })
}
