//! Listeners and connections: every invalid field, and calls in every wrong state.

use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use hamlyn_abi::uapi::*;
use hamlyn_sys::{ConnectionFile, Device};
use rustix::io::Errno;
use zerocopy::FromZeros;

use crate::bench::NO_OBJECT;
use crate::checks::{Checks, Spoil, spoilt};
use crate::common::Outcome;

/// Timeout for two processes of this machine to connect.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn connections(checks: &mut Checks, device: &Device) -> Outcome {
    listen_calls(checks, device)?;
    socket_names(checks, device)?;
    connect_calls(checks, device)?;
    states(checks, device)
}

pub(crate) fn listen_to(name: &[u8]) -> UlnListen {
    let mut listen = UlnListen { name_length: name.len() as u32, backlog: 1, ..UlnListen::new_zeroed() };
    listen.name[..name.len()].copy_from_slice(name);
    listen
}

pub(crate) fn connect_to(host: u32, name: &[u8]) -> UlnConnect {
    let mut connect = UlnConnect { host, name_length: name.len() as u32, ..UlnConnect::new_zeroed() };
    connect.name[..name.len()].copy_from_slice(name);
    connect
}

pub(crate) fn host(device: &Device) -> io::Result<u32> {
    let mut query = UlnQuery::default();
    device.query(&mut query)?;
    Ok(query.host)
}

fn listen_calls(checks: &mut Checks, device: &Device) -> Outcome {
    let ways: [Spoil<UlnListen>; 9] = [
        ("no name", |listen| listen.name_length = 0, Errno::INVAL),
        ("a name too long", |listen| listen.name_length = ULN_MAX_NAME + 1, Errno::INVAL),
        ("the largest number as length", |listen| listen.name_length = u32::MAX, Errno::INVAL),
        ("something behind the name", |listen| listen.name[63] = 1, Errno::INVAL),
        ("no backlog", |listen| listen.backlog = 0, Errno::INVAL),
        ("too long a backlog", |listen| listen.backlog = ULN_MAX_BACKLOG + 1, Errno::INVAL),
        ("first reserved", |listen| listen.reserved0 = 1, Errno::INVAL),
        ("last reserved", |listen| listen.reserved1 = 1, Errno::INVAL),
        ("a socket for a name of no connection", |listen| listen.socket = 1, Errno::INVAL),
    ];
    spoilt(checks, "listen", &listen_to(b"calls"), &ways, |listen| device.listen(listen).map(drop))?;
    let longest = [0xff; ULN_MAX_NAME as usize];
    let listener = device.listen(&mut listen_to(&longest))?;
    checks.refused("a name that is taken", device.listen(&mut listen_to(&longest)), Errno::ADDRINUSE)?;
    checks.done("the beginning of it", device.listen(&mut listen_to(&longest[1..])))?;
    checks.refused("next request of none", listener.next_request(), Errno::AGAIN)?;
    drop(listener);
    checks.done("a name that was given back", device.listen(&mut listen_to(&longest)))
}

/// Names of TCP connections, which only their owner gets.
fn socket_names(checks: &mut Checks, device: &Device) -> Outcome {
    let listening = TcpListener::bind("127.0.0.1:0")?;
    let connected = TcpStream::connect(listening.local_addr()?)?;
    let datagrams = UdpSocket::bind("127.0.0.1:0")?;
    datagrams.connect(listening.local_addr()?)?;
    let file = File::open("/proc/self/exe")?;
    let name = format!("tcp/{}-{}", connected.local_addr()?, connected.peer_addr()?);
    let reversed = format!("tcp/{}-{}", connected.peer_addr()?, connected.local_addr()?);
    let listen = |name: &str, socket: u32| {
        let mut listen = UlnListen { socket, ..listen_to(name.as_bytes()) };
        device.listen(&mut listen)
    };
    let plus_1 = |file: &dyn AsRawFd| file.as_raw_fd() as u32 + 1;
    let own = plus_1(&connected);
    checks.refused("a connection's name without it", listen(&name, 0), Errno::ACCESS)?;
    checks.refused("the name of its other end", listen(&reversed, own), Errno::ACCESS)?;
    checks.refused("a longer name", listen(&format!("{name}0"), own), Errno::ACCESS)?;
    checks.refused("a listening socket", listen(&name, plus_1(&listening)), Errno::ACCESS)?;
    checks.refused("datagrams", listen(&name, plus_1(&datagrams)), Errno::ACCESS)?;
    checks.refused("a file", listen(&name, plus_1(&file)), Errno::NOTSOCK)?;
    checks.refused("a descriptor that is closed", listen(&name, 1 << 20), Errno::BADF)?;
    checks.refused("the largest descriptor", listen(&name, u32::MAX), Errno::BADF)?;
    let listener = listen(&name, own)?;
    checks.refused("a connection's name that is taken", listen(&name, own), Errno::ADDRINUSE)?;
    drop(listener);
    checks.done("a connection's name", listen(&name, own))
}

fn connect_calls(checks: &mut Checks, device: &Device) -> Outcome {
    let ways: [Spoil<UlnConnect>; 9] = [
        ("no name", |connect| connect.name_length = 0, Errno::INVAL),
        ("a name too long", |connect| connect.name_length = ULN_MAX_NAME + 1, Errno::INVAL),
        ("something behind the name", |connect| connect.name[63] = 1, Errno::INVAL),
        ("too much private data", |connect| connect.private_length = ULN_MAX_PRIVATE + 1, Errno::INVAL),
        ("something behind the private data", |connect| connect.data[0] = 1, Errno::INVAL),
        ("first reserved", |connect| connect.reserved0 = 1, Errno::INVAL),
        ("second reserved", |connect| connect.reserved1 = 1, Errno::INVAL),
        ("a host over the limit", |connect| connect.host = 64, Errno::HOSTUNREACH),
        ("the largest number as host", |connect| connect.host = NO_OBJECT, Errno::HOSTUNREACH),
    ];
    let good = connect_to(host(device)?, b"calls");
    spoilt(checks, "connect", &good, &ways, |connect| device.connect(connect).map(drop))?;
    spoilt(checks, "ask", &good, &ways, |connect| device.ask(connect).map(drop))?;
    let mut with_data = UlnConnect { private_length: 1, ..good };
    checks.refused("a question with private data", device.ask(&mut with_data), Errno::INVAL)?;
    questions(checks, device)
}

/// A question ends with its answer, and accepts no other call.
fn questions(checks: &mut Checks, device: &Device) -> Outcome {
    let ask = |due: u32| -> io::Result<bool> {
        let question = device.ask(&mut connect_to(host(device)?, b"calls"))?;
        let mut private = UlnPrivate::new_zeroed();
        let inert = question.accept(&mut private).is_err() && question.reject(&mut private).is_err();
        let reason = until(&question, ULN_CONNECTION_ENDED)?.reason;
        Ok(inert && reason == due && question.close(&mut private).is_err())
    };
    checks.holds("a question about a name without a listener", ask(ULN_END_NOT_LISTENING)?)?;
    let listener = device.listen(&mut listen_to(b"calls"))?;
    checks.holds("a question about a name with a listener", ask(ULN_END_LISTENING)?)?;
    checks.refused("a question is not a request", listener.next_request(), Errno::AGAIN)
}

/// Waits until a connection is in a state.
pub(crate) fn until(connection: &ConnectionFile, wanted: u32) -> io::Result<UlnConnectionState> {
    let start = Instant::now();
    loop {
        let mut state = UlnConnectionState::new_zeroed();
        connection.query(&mut state)?;
        if state.state == wanted {
            return Ok(state);
        }
        if start.elapsed() > PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn states(checks: &mut Checks, device: &Device) -> Outcome {
    let private = || UlnPrivate::new_zeroed();
    let listener = device.listen(&mut listen_to(b"calls"))?;
    let asking = device.connect(&mut connect_to(host(device)?, b"calls"))?;
    checks.refused("to accept one's own request", asking.accept(&mut private()), Errno::NOTCONN)?;
    checks.refused("to reject one's own request", asking.reject(&mut private()), Errno::NOTCONN)?;
    let start = Instant::now();
    let asked = loop {
        match listener.next_request() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => break other?,
        }
    };
    let mut spoilt_state = UlnConnectionState { reserved: 1, ..UlnConnectionState::new_zeroed() };
    checks.refused("query of a connection, reserved", asked.query(&mut spoilt_state), Errno::INVAL)?;
    let ways: [Spoil<UlnPrivate>; 3] = [
        ("too much private data", |private| private.length = ULN_MAX_PRIVATE + 1, Errno::INVAL),
        ("something behind the private data", |private| private.data[255] = 1, Errno::INVAL),
        ("reserved", |private| private.reserved = 1, Errno::INVAL),
    ];
    spoilt(checks, "accept", &private(), &ways, |private| asked.accept(private))?;
    spoilt(checks, "reject", &private(), &ways, |private| asked.reject(private))?;
    spoilt(checks, "close", &private(), &ways, |private| asked.close(private))?;
    checks.done("accept", asked.accept(&mut private()))?;
    checks.refused("accept again", asked.accept(&mut private()), Errno::NOTCONN)?;
    checks.refused("reject what was accepted", asked.reject(&mut private()), Errno::NOTCONN)?;
    checks.done("it is established", until(&asking, ULN_CONNECTION_ESTABLISHED))?;
    checks.done("close", asking.close(&mut private()))?;
    checks.refused("close again", asking.close(&mut private()), Errno::NOTCONN)?;
    let ended = until(&asked, ULN_CONNECTION_ENDED)?;
    checks.holds("the other side is told why", ended.reason == ULN_END_CLOSED)?;
    checks.refused("close what the peer closed", asked.close(&mut private()), Errno::NOTCONN)
}
