//! The host's end of a vsock device that is a Unix socket here, as Cloud Hypervisor makes it.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use hamlyn_agent::protocol::VSOCK_PORT;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Time between two attempts to reach an agent that does not listen yet.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the device may take to answer an attempt. The guest may have no driver yet.
const ANSWER: Duration = Duration::from_secs(5);
/// The longest answer, in bytes.
const LONGEST: usize = 64;

/// Returns a stream to the agent of a machine, which outlives the machine's reboots, as a
/// virtio-serial port does: each boot's agent gets a connection of its own behind it. The stream
/// ends when `is_over` says so and no connection is left.
pub(super) fn stream(socket: &Path, is_over: impl Fn() -> bool + Send + 'static) -> io::Result<UnixStream> {
    let (near, far) = UnixStream::pair()?;
    let socket = PathBuf::from(socket);
    thread::spawn(move || {
        let mut is_whole = true;
        while !is_over() && !has_hung_up(&far) {
            match dial(&socket) {
                Ok(guest) => is_whole = carry(&far, &guest, is_whole),
                Err(_) => thread::sleep(PAUSE),
            }
        }
    });
    Ok(near)
}

/// Connects to the agent.
fn dial(socket: &Path) -> io::Result<UnixStream> {
    let mut guest = UnixStream::connect(socket)?;
    guest.set_read_timeout(Some(ANSWER))?;
    guest.write_all(format!("CONNECT {VSOCK_PORT}\n").as_bytes())?;
    // Not one byte more: the agent's own follow.
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while answer.last() != Some(&b'\n') && answer.len() < LONGEST {
        guest.read_exact(&mut byte)?;
        answer.extend(byte);
    }
    if !answer.starts_with(b"OK ") {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    guest.set_read_timeout(None)?;
    Ok(guest)
}

/// Carries bytes in both directions until an end closes. `is_whole`: the host has only whole lines
/// so far. Returns the same for afterwards.
fn carry(host: &UnixStream, guest: &UnixStream, is_whole: bool) -> bool {
    // The end of the boot before may have cut a line off.
    let start: &[u8] = if is_whole { b"" } else { b"\n" };
    if discard(host).is_err() || { host }.write_all(start).is_err() {
        return is_whole;
    }
    thread::scope(|scope| {
        let to_host = scope.spawn(|| {
            let whole = copy_lines(guest, host);
            // Ends the other direction as well.
            let _ = guest.shutdown(std::net::Shutdown::Both);
            whole
        });
        let _ = copy_until_gone(host, guest);
        let _ = guest.shutdown(std::net::Shutdown::Both);
        to_host.join().unwrap_or(false)
    })
}

/// Discards what the host has said to an earlier boot's agent.
fn discard(mut host: &UnixStream) -> io::Result<()> {
    let mut bytes = [0; 4096];
    host.set_nonblocking(true)?;
    while host.read(&mut bytes).is_ok_and(|length| length > 0) {}
    host.set_nonblocking(false)
}

/// Copies the agent's lines. Returns whether the last one is whole.
fn copy_lines(mut guest: &UnixStream, mut host: &UnixStream) -> bool {
    let (mut bytes, mut last) = ([0; 16 << 10], b'\n');
    while let Ok(length @ 1..) = guest.read(&mut bytes) {
        last = bytes[length - 1];
        if host.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    last == b'\n'
}

/// Copies the host's bytes until the guest is gone.
fn copy_until_gone(host: &UnixStream, guest: &UnixStream) -> io::Result<()> {
    let mut bytes = [0; 16 << 10];
    loop {
        let mut ends = [PollFd::new(host, PollFlags::IN), PollFd::new(guest, PollFlags::RDHUP)];
        match poll(&mut ends, None) {
            Err(Errno::INTR) => continue,
            ready => ready?,
        };
        if !ends[1].revents().is_empty() {
            return Ok(());
        }
        match { host }.read(&mut bytes)? {
            0 => return Ok(()),
            length => { guest }.write_all(&bytes[..length])?,
        }
    }
}

fn has_hung_up(host: &UnixStream) -> bool {
    let mut ends = [PollFd::new(host, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut ends, Some(&now)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Accepts a connection as the device does, and returns it with the host's request.
    fn accept(listener: &UnixListener, answer: &str) -> (BufReader<UnixStream>, String) {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        let (mut input, mut request) = (BufReader::new(stream), String::new());
        input.read_line(&mut request).unwrap();
        (input, request)
    }

    fn line(from: &mut impl BufRead) -> String {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn stream_outlives_reboots() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent");
        let listener = UnixListener::bind(&socket).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let host = stream(&socket, {
            let over = over.clone();
            move || over.load(Ordering::Relaxed)
        });
        let mut host = BufReader::new(host.unwrap());
        // The guest has no driver, and then no agent.
        drop(accept(&listener, ""));
        drop(accept(&listener, "no\n"));
        let (mut first, request) = accept(&listener, "OK 1073741824\nready\n");
        assert_eq!(request, "CONNECT 1000\n");
        assert_eq!(line(&mut host), "ready\n");
        host.get_mut().write_all(b"run\n").unwrap();
        assert_eq!(line(&mut first), "run\n");
        first.get_mut().write_all(b"cut of").unwrap();
        drop(first);
        // Its end may be noticed before or after this is said: no later boot hears it.
        host.get_mut().write_all(b"too late\n").unwrap();
        let (mut second, _) = accept(&listener, "OK 1073741825\nready again\n");
        assert_eq!(line(&mut host), "cut of\n");
        assert_eq!(line(&mut host), "ready again\n");
        host.get_mut().write_all(b"now\n").unwrap();
        assert_eq!(line(&mut second), "now\n");
        over.store(true, Ordering::Relaxed);
        drop((second, listener));
        assert_eq!(line(&mut host), "", "the machine has ended");
    }
}
