use super::*;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::ioctl_fionbio;
use rustix::net::sockopt::{set_socket_linger, set_socket_send_buffer_size};
use rustix::pipe::pipe;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A watchdog time-out: nothing here takes long.
const LONG: Duration = Duration::from_secs(60);

fn porter() -> Porter {
    Porters::new(1).hire().unwrap()
}

fn eventually(mut come: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if come() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("it does not come");
}

/// Returns both ends of an eventfd.
fn event() -> (OwnedFd, OwnedFd) {
    let ours = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    (ours.try_clone().unwrap(), ours)
}

/// Waits until the count is not 0, and returns it.
fn heard(eventfd: &OwnedFd) -> u64 {
    let timeout = Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(eventfd, PollFlags::IN)], Some(&timeout)), Ok(1), "no signal");
    let mut count = [0; 8];
    rustix::io::read(eventfd, &mut count).unwrap();
    u64::from_ne_bytes(count)
}

/// Its drop blocks until it is released.
struct Slow(std::sync::mpsc::Receiver<()>);

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.0.recv();
    }
}

/// Returns an object whose drop blocks, and the channel that releases it.
fn slow() -> (Slow, std::sync::mpsc::Sender<()>) {
    let (go, wait) = channel();
    (Slow(wait), go)
}

#[test]
fn kept_object_is_dropped_by_porter() {
    struct Tells(std::sync::mpsc::Sender<thread::ThreadId>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }
    let (tell, told) = channel();
    let porter = porter();
    drop(porter.keep(Tells(tell.clone())));
    let first = told.recv_timeout(LONG).unwrap();
    assert_ne!(first, thread::current().id());
    // Also an object inside another object, an object made of another object, and an object that
    // outlives its porter's last handle.
    drop(porter.keep((1, porter.keep(Tells(tell.clone())))));
    drop(porter.keep(2).map(|_| Tells(tell.clone())));
    let last = porter.keep(Tells(tell));
    drop(porter);
    drop(last);
    for _ in 0..3 {
        assert_eq!(told.recv_timeout(LONG).unwrap(), first);
    }
}

#[test]
fn descriptors_are_closed() {
    let porter = porter();
    let (reader, writer) = pipe().unwrap();
    porter.close(vec![writer.try_clone().unwrap(), writer]);
    let mut byte = [0];
    assert_eq!(rustix::io::read(&reader, &mut byte), Ok(0));
}

/// Returns a connection with unread data, whose close therefore lingers for a minute, and its other
/// end.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    set_socket_send_buffer_size(&stream, 1 << 16).unwrap();
    set_socket_linger(&stream, Some(LONG)).unwrap();
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[0; 1 << 16]).is_ok() {}
    stream.set_nonblocking(false).unwrap();
    (stream.into(), other)
}

#[test]
fn lingering_socket_delays_only_its_own_porter() {
    let mut porters = Porters::new(2);
    let porter = porters.hire().unwrap();
    let (stuck, other) = lingering();
    porter.close(vec![stuck]);
    eventually(|| porter.0.shared.lock().tasks.is_empty());
    assert!(!porter.is_idle());
    let next = porters.hire().unwrap();
    let (ours, line) = event();
    let line = next.keep(line).line();
    line.signal();
    assert_eq!(heard(&ours), 1);
    assert!(!porter.is_idle(), "the close has not waited");
    drop(other);
    eventually(|| porter.is_idle());
}

#[test]
fn porter_is_full_when_closing_is_slow() {
    let porter = porter();
    let (thing, go) = slow();
    drop(porter.keep(thing));
    for _ in 0..MOST_TASKS {
        assert!(!porter.is_full());
        drop(porter.keep(()));
    }
    assert!(porter.is_full());
    go.send(()).unwrap();
    eventually(|| porter.is_idle());
    assert!(!porter.is_full());
}

#[test]
fn porters_are_bounded_and_end_when_done() {
    let mut porters = Porters::new(2);
    let (thing, go) = slow();
    let first = porters.hire().unwrap();
    drop(first.keep(thing));
    drop(first);
    let second = porters.hire().unwrap();
    assert!(matches!(porters.hire(), Err(HireError::TooMany { busy: 2, limit: 2 })));
    drop(second);
    eventually(|| porters.busy() == 1);
    go.send(()).unwrap();
    eventually(|| porters.busy() == 0);
    assert!(porters.hire().is_ok());
}

#[test]
fn signals_are_merged_and_none_is_lost() {
    let porter = porter();
    let (ours, line) = event();
    let line = porter.keep(line).line();
    line.signal();
    assert_eq!(heard(&ours), 1);
    let (thing, go) = slow();
    drop(porter.keep(thing));
    eventually(|| porter.0.shared.lock().tasks.is_empty());
    (0..3).for_each(|_| line.signal());
    go.send(()).unwrap();
    assert_eq!(heard(&ours), 1);
    eventually(|| porter.is_idle());
    for round in 0..1000 {
        line.signal();
        assert!(heard(&ours) > 0, "round {round}");
    }
    line.signal();
    drop((line, porter));
    assert_eq!(heard(&ours), 1, "what was owed is signalled still");
}

#[test]
fn full_eventfd_blocks_neither_owner_nor_dismissed_porter() {
    let mut porters = Porters::new(1);
    let porter = porters.hire().unwrap();
    let (ours, line) = event();
    let line = porter.keep(line).line();
    ioctl_fionbio(&ours, false).unwrap();
    write(&ours, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    (0..100).for_each(|_| line.signal());
    eventually(|| porter.0.shared.lock().signalled.is_some());
    porter.dismiss();
    line.signal();
    drop((line, porter));
    eventually(|| porters.busy() == 0);
}

#[test]
fn dismissed_porter_does_not_signal() {
    let porter = porter();
    let (ours, line) = event();
    let line = porter.keep(line).line();
    porter.dismiss();
    line.signal();
    eventually(|| porter.is_idle());
    let mut count = [0; 8];
    assert_eq!(rustix::io::read(&ours, &mut count), Err(Errno::AGAIN));
}

#[test]
fn porter_with_refilled_eventfd_ends() {
    let mut porters = Porters::new(1);
    let porter = porters.hire().unwrap();
    let (ours, line) = event();
    let line = porter.keep(line).line();
    ioctl_fionbio(&ours, false).unwrap();
    write(&ours, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    line.signal();
    eventually(|| porter.0.shared.lock().signalled.is_some());
    // As if the peer had filled it before the porter got there.
    porter.0.shared.lock().dismissed = true;
    drop((line, porter));
    assert!(matches!(porters.hire(), Err(HireError::TooMany { busy: 1, limit: 1 })));
    eventually(|| porters.busy() == 0);
}
