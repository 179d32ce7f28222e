//! Name service: hamlyn_listen and related calls, and the parts shared with other card models.

use std::ffi::{c_int, c_void};

use hamlyn::attach::{Card, CardAttachment};
use hamlyn::{CONNECT_TIMEOUT, Found};

use crate::call::{Failure, waited};
use crate::card::hamlyn_card;
use crate::connection::{uln_connecting, uln_connection, uln_name_listener};
use crate::exported::{Out, exported};
use crate::memory::bytes;

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

exported! {
/// Registers a name, of 1 to 64 bytes, that processes on any host can connect to. Up to `backlog`
/// requests, 1 to 1024, may be pending.
fn hamlyn_listen(card: &hamlyn_card, name: &str, backlog: u32, listener: Out<Box<uln_name_listener>>) {
    listen(&card.0, name, backlog, listener)?
}

/// Connects to a name on a host, and passes up to ULN_MAX_PRIVATE bytes. Waits up to 30 seconds
/// until the peer has accepted. Fails with -ECONNREFUSED if the name has no listener there or the
/// peer rejected the request, and with -EHOSTUNREACH if there is no such host.
fn hamlyn_connect(
    card: &hamlyn_card,
    host: u32,
    name: &str,
    data: *const c_void,
    length: usize,
    connection: Out<Box<uln_connection>>,
) {
    connect(&card.0, host, name, (data, length), connection)?
}

/// Requests a connection like hamlyn_connect, but does not wait for the answer.
fn hamlyn_connect_begin(
    card: &hamlyn_card,
    host: u32,
    name: &str,
    data: *const c_void,
    length: usize,
    connecting: Out<Box<uln_connecting>>,
) {
    begin_connect(&card.0, host, name, (data, length), connecting)?
}

/// Connects to a name, like hamlyn_connect, on the first of these hosts that accepts. Bit h of
/// `hosts` stands for host h; 0 stands for all hosts. All hosts are asked in parallel, first
/// whether they have the name.
fn hamlyn_connect_any(
    card: &hamlyn_card,
    hosts: u64,
    name: &str,
    data: *const c_void,
    length: usize,
    connection: Out<Box<uln_connection>>,
    timeout_ms: c_int,
) {
    connect_any(&card.0, hosts, name, (data, length), connection, timeout_ms)?
}

/// Finds the hosts that have a listener for a name, and returns their number. Asks all hosts of the
/// switch in parallel. Returns once each has answered or the timeout expires, which is not an
/// error. A host that does not exist never answers; 2000 ms are enough for a busy one. To connect,
/// call hamlyn_connect next.
fn hamlyn_find(card: &hamlyn_card, name: &str, found: Out<uln_found>, timeout_ms: c_int) {
    find(&card.0, name, found, timeout_ms)?
}
}

/// Implements `…_listen` for any card model.
pub(crate) fn listen<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    name: &str,
    backlog: u32,
    listener: Out<Box<uln_name_listener>>,
) -> Result<(), Failure> {
    listener.store(uln_name_listener(card.listen_backlog(name, backlog)?));
    Ok(())
}

/// Implements `…_connect` for any card model.
pub(crate) fn connect<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    host: u32,
    name: &str,
    data: (*const c_void, usize),
    connection: Out<Box<uln_connection>>,
) -> Result<(), Failure> {
    let made = card.connect_timeout(host, name, bytes(data.0, data.1, "data")?, CONNECT_TIMEOUT)?;
    connection.store(uln_connection(made));
    Ok(())
}

/// Implements `…_connect_begin` for any card model.
pub(crate) fn begin_connect<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    host: u32,
    name: &str,
    data: (*const c_void, usize),
    connecting: Out<Box<uln_connecting>>,
) -> Result<(), Failure> {
    let begun = card.begin_connect(host, name, bytes(data.0, data.1, "data")?)?;
    connecting.store(uln_connecting(begun));
    Ok(())
}

/// Implements `…_connect_any` for any card model.
pub(crate) fn connect_any<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    hosts: u64,
    name: &str,
    data: (*const c_void, usize),
    connection: Out<Box<uln_connection>>,
    timeout_ms: c_int,
) -> Result<(), Failure> {
    let data = bytes(data.0, data.1, "data")?;
    let asked = card.hosts()?.filter(|host| hosts == 0 || is_in(hosts, *host));
    let made = waited!(timeout_ms, card => connect_any / connect_any_timeout(asked, name, data))?;
    connection.store(uln_connection(made));
    Ok(())
}

/// Implements `…_find` for any card model.
pub(crate) fn find<A: CardAttachment + ?Sized>(
    card: &Card<A>,
    name: &str,
    found: Out<uln_found>,
    timeout_ms: c_int,
) -> Result<usize, Failure> {
    let answers = waited!(timeout_ms, card => find / find_timeout(name))?;
    found.store(uln_found::new(&answers));
    Ok(answers.hosts.len())
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
