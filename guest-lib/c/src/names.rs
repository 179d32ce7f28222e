//! Name service: hamlyn_listen and related calls, and the parts shared with other card models.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::Found;
use hamlyn::attach::{Card, CardAttachment};

use crate::call::{Failure, at_once, call, count, given, store, timeout};
use crate::card::hamlyn_card;
use crate::connection::{uln_connecting, uln_connection, uln_name_listener};
use crate::memory::{bytes, text};

/// The hosts that have a name: bit h of each word stands for host h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct uln_found {
    /// Hosts that had a listener for the name when they answered.
    pub hosts: u64,
    /// Hosts whose drivers are too old to answer: only a connection attempt can tell.
    pub too_old: u64,
    /// Hosts that did not answer in time: most do not exist.
    pub silent: u64,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 10],
}

/// Registers a name, of 1 to 64 bytes, that processes on any host can connect to. Up to `backlog`
/// requests, 1 to 1024, may be pending.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_listen(
    card: Option<&hamlyn_card>,
    name: *const c_char,
    backlog: u32,
    listener: Option<&mut MaybeUninit<Box<uln_name_listener>>>,
) -> c_int {
    call(|| listen(&given(card, "card")?.0, name, backlog, listener))
}

/// Connects to a name on a host, and passes up to ULN_MAX_PRIVATE bytes. Waits up to 30 seconds
/// until the peer has accepted. Fails with -ECONNREFUSED if the name has no listener there or the
/// peer rejected the request, and with -EHOSTUNREACH if there is no such host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_connect(
    card: Option<&hamlyn_card>,
    host: u32,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connection: Option<&mut MaybeUninit<Box<uln_connection>>>,
) -> c_int {
    call(|| connect(&given(card, "card")?.0, host, name, (data, length), connection))
}

/// Requests a connection like hamlyn_connect, but does not wait for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_connect_begin(
    card: Option<&hamlyn_card>,
    host: u32,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connecting: Option<&mut MaybeUninit<Box<uln_connecting>>>,
) -> c_int {
    call(|| begin_connect(&given(card, "card")?.0, host, name, (data, length), connecting))
}

/// Connects to a name, like hamlyn_connect, on the first of these hosts that accepts. Bit h of
/// `hosts` stands for host h; 0 stands for all hosts. All hosts are asked in parallel, first
/// whether they have the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_connect_any(
    card: Option<&hamlyn_card>,
    hosts: u64,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connection: Option<&mut MaybeUninit<Box<uln_connection>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| connect_any(&given(card, "card")?.0, hosts, name, (data, length), connection, timeout_ms))
}

/// Finds the hosts that have a listener for a name, and returns their number. Asks all hosts of the
/// switch in parallel. Returns once each has answered or the timeout expires, which is not an
/// error. A host that does not exist never answers; 2000 ms are enough for a busy one. To connect,
/// call hamlyn_connect next.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_find(
    card: Option<&hamlyn_card>,
    name: *const c_char,
    found: Option<&mut MaybeUninit<uln_found>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| find(&given(card, "card")?.0, name, found, timeout_ms))
}

/// Implements `…_listen` for any card model.
pub(crate) fn listen<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    name: *const c_char,
    backlog: u32,
    listener: Option<&mut MaybeUninit<Box<uln_name_listener>>>,
) -> Result<c_int, Failure> {
    let to = given(listener, "listener")?;
    let listener = card.listen_backlog(text(name, "name")?, backlog)?;
    store(to, Box::new(uln_name_listener(listener)))
}

/// Implements `…_connect` for any card model.
pub(crate) fn connect<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    host: u32,
    name: *const c_char,
    data: (*const c_void, usize),
    connection: Option<&mut MaybeUninit<Box<uln_connection>>>,
) -> Result<c_int, Failure> {
    let to = given(connection, "connection")?;
    let connection = card.connect(host, text(name, "name")?, bytes(data.0, data.1, "data")?)?;
    store(to, Box::new(uln_connection(connection)))
}

/// Implements `…_connect_begin` for any card model.
pub(crate) fn begin_connect<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    host: u32,
    name: *const c_char,
    data: (*const c_void, usize),
    connecting: Option<&mut MaybeUninit<Box<uln_connecting>>>,
) -> Result<c_int, Failure> {
    let to = given(connecting, "connecting")?;
    let connecting = card.begin_connect(host, text(name, "name")?, bytes(data.0, data.1, "data")?)?;
    store(to, Box::new(uln_connecting(connecting)))
}

/// Implements `…_connect_any` for any card model.
pub(crate) fn connect_any<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    hosts: u64,
    name: *const c_char,
    data: (*const c_void, usize),
    connection: Option<&mut MaybeUninit<Box<uln_connection>>>,
    timeout_ms: c_int,
) -> Result<c_int, Failure> {
    let to = given(connection, "connection")?;
    let (name, data) = (text(name, "name")?, bytes(data.0, data.1, "data")?);
    let asked = card.hosts()?.filter(|host| hosts == 0 || is_in(hosts, *host));
    let connection = at_once(timeout_ms, card.connect_any(asked, name, data, timeout(timeout_ms)))?;
    store(to, Box::new(uln_connection(connection)))
}

/// Implements `…_find` for any card model.
pub(crate) fn find<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    name: *const c_char,
    found: Option<&mut MaybeUninit<uln_found>>,
    timeout_ms: c_int,
) -> Result<c_int, Failure> {
    let to = given(found, "found")?;
    let answers = card.find(text(name, "name")?, timeout(timeout_ms))?;
    store(to, uln_found::new(&answers))?;
    Ok(count(answers.hosts.len()))
}

fn is_in(hosts: u64, host: u32) -> bool {
    1_u64.checked_shl(host).is_some_and(|bit| hosts & bit != 0)
}

impl uln_found {
    fn new(found: &Found) -> Self {
        let bits = |hosts: &[u32]| hosts.iter().filter_map(|host| 1_u64.checked_shl(*host)).sum();
        let [hosts, too_old, silent] = [&found.hosts, &found.too_old, &found.silent].map(|list| bits(list));
        Self { hosts, too_old, silent, reserved: [0; 10] }
    }
}
