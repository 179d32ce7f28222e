//! Processes that find each other by name: hamlyn_listen and its like, and what they share with
//! those of other models' cards.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::Found;
use hamlyn::attach::{Card, CardAttachment};

use crate::call::{Failure, at_once, call, count, given, store, timeout};
use crate::card::hamlyn_card;
use crate::connection::{hamlyn_connecting, hamlyn_connection, hamlyn_listener};
use crate::memory::{bytes, text};

/// Which hosts have a name: bit h of each word stands for host h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_found {
    /// Hosts on which somebody listened under it when they were asked.
    pub hosts: u64,
    /// Hosts that cannot say, as their drivers are too old: only who connects will know.
    pub too_old: u64,
    /// Hosts that have said nothing in time: most are not there.
    pub silent: u64,
    /// For what may come: zeros.
    pub reserved: [u32; 10],
}

/// Takes a name, of 1 to 64 bytes, that processes of any host can connect to. Up to `backlog`
/// requests, 1 to 1024, wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_listen(
    card: Option<&hamlyn_card>,
    name: *const c_char,
    backlog: u32,
    listener: Option<&mut MaybeUninit<Box<hamlyn_listener>>>,
) -> c_int {
    call(|| listen(&given(card, "card")?.0, name, backlog, listener))
}

/// Connects to a name on a host, passes up to HAMLYN_MAX_PRIVATE bytes, and waits until the other
/// side has accepted, up to 30 seconds: -ECONNREFUSED if nobody listens there or it was rejected,
/// -EHOSTUNREACH if there is no such host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_connect(
    card: Option<&hamlyn_card>,
    host: u32,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connection: Option<&mut MaybeUninit<Box<hamlyn_connection>>>,
) -> c_int {
    call(|| connect(&given(card, "card")?.0, host, name, (data, length), connection))
}

/// Asks for a connection as hamlyn_connect does, and does not wait for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_connect_begin(
    card: Option<&hamlyn_card>,
    host: u32,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connecting: Option<&mut MaybeUninit<Box<hamlyn_connecting>>>,
) -> c_int {
    call(|| begin_connect(&given(card, "card")?.0, host, name, (data, length), connecting))
}

/// Connects to a name, as hamlyn_connect does, on whichever of these hosts accepts first: bit h of
/// the word stands for host h, and 0 for all hosts. They are asked at once, and first whether they
/// have the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_connect_any(
    card: Option<&hamlyn_card>,
    hosts: u64,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    connection: Option<&mut MaybeUninit<Box<hamlyn_connection>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| connect_any(&given(card, "card")?.0, hosts, name, (data, length), connection, timeout_ms))
}

/// Which hosts have a listener of a name; returns how many. All hosts of the switch are asked at
/// once: it is done once each has answered, or with the time-out, which is no error. A host that is
/// not there never answers; 2000 ms allow for a busy one. Then hamlyn_connect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_find(
    card: Option<&hamlyn_card>,
    name: *const c_char,
    found: Option<&mut MaybeUninit<hamlyn_found>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| find(&given(card, "card")?.0, name, found, timeout_ms))
}

/// What any model's card does for its `…_listen`.
pub(crate) fn listen<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    name: *const c_char,
    backlog: u32,
    listener: Option<&mut MaybeUninit<Box<hamlyn_listener>>>,
) -> Result<c_int, Failure> {
    let to = given(listener, "listener")?;
    let listener = card.listen_backlog(text(name, "name")?, backlog)?;
    store(to, Box::new(hamlyn_listener(listener)))
}

/// What any model's card does for its `…_connect`.
pub(crate) fn connect<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    host: u32,
    name: *const c_char,
    data: (*const c_void, usize),
    connection: Option<&mut MaybeUninit<Box<hamlyn_connection>>>,
) -> Result<c_int, Failure> {
    let to = given(connection, "connection")?;
    let connection = card.connect(host, text(name, "name")?, bytes(data.0, data.1, "data")?)?;
    store(to, Box::new(hamlyn_connection(connection)))
}

/// What any model's card does for its `…_connect_begin`.
pub(crate) fn begin_connect<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    host: u32,
    name: *const c_char,
    data: (*const c_void, usize),
    connecting: Option<&mut MaybeUninit<Box<hamlyn_connecting>>>,
) -> Result<c_int, Failure> {
    let to = given(connecting, "connecting")?;
    let connecting = card.begin_connect(host, text(name, "name")?, bytes(data.0, data.1, "data")?)?;
    store(to, Box::new(hamlyn_connecting(connecting)))
}

/// What any model's card does for its `…_connect_any`.
pub(crate) fn connect_any<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    hosts: u64,
    name: *const c_char,
    data: (*const c_void, usize),
    connection: Option<&mut MaybeUninit<Box<hamlyn_connection>>>,
    timeout_ms: c_int,
) -> Result<c_int, Failure> {
    let to = given(connection, "connection")?;
    let (name, data) = (text(name, "name")?, bytes(data.0, data.1, "data")?);
    let asked = card.hosts()?.filter(|host| hosts == 0 || is_in(hosts, *host));
    let connection = at_once(timeout_ms, card.connect_any(asked, name, data, timeout(timeout_ms)))?;
    store(to, Box::new(hamlyn_connection(connection)))
}

/// What any model's card does for its `…_find`.
pub(crate) fn find<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    name: *const c_char,
    found: Option<&mut MaybeUninit<hamlyn_found>>,
    timeout_ms: c_int,
) -> Result<c_int, Failure> {
    let to = given(found, "found")?;
    let answers = card.find(text(name, "name")?, timeout(timeout_ms))?;
    store(to, hamlyn_found::new(&answers))?;
    Ok(count(answers.hosts.len()))
}

fn is_in(hosts: u64, host: u32) -> bool {
    1_u64.checked_shl(host).is_some_and(|bit| hosts & bit != 0)
}

impl hamlyn_found {
    fn new(found: &Found) -> Self {
        let bits = |hosts: &[u32]| hosts.iter().filter_map(|host| 1_u64.checked_shl(*host)).sum();
        let [hosts, too_old, silent] = [&found.hosts, &found.too_old, &found.silent].map(|list| bits(list));
        Self { hosts, too_old, silent, reserved: [0; 10] }
    }
}
