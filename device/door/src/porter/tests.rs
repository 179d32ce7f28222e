use super::*;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::ioctl_fionbio;
use rustix::net::sockopt::{set_socket_linger, set_socket_send_buffer_size};
use rustix::pipe::pipe;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A watchdog: nothing here takes long.
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

/// Both ends.
fn event() -> (OwnedFd, OwnedFd) {
    let ours = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    (ours.try_clone().unwrap(), ours)
}

/// The count, once there is one.
fn heard(eventfd: &OwnedFd) -> u64 {
    let timeout = Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(eventfd, PollFlags::IN)], Some(&timeout)), Ok(1), "no signal");
    let mut count = [0; 8];
    rustix::io::read(eventfd, &mut count).unwrap();
    u64::from_ne_bytes(count)
}

/// Its drop waits until that is allowed.
struct Slow(std::sync::mpsc::Receiver<()>);

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.0.recv();
    }
}

/// A thing whose drop waits, and what lets it go.
fn slow() -> (Slow, std::sync::mpsc::Sender<()>) {
    let (go, wait) = channel();
    (Slow(wait), go)
}

#[test]
fn what_is_kept_is_dropped_by_the_porter() {
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
    // Also what lies in another thing, is made of another thing, or outlives its porter's last
    // handle.
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

/// A connection with data that nobody takes, whose close waits for that for a minute; and its other
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
fn a_socket_that_lingers_holds_up_its_own_porter_alone() {
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
fn who_makes_closing_slow_is_told_of() {
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
fn porters_end_when_they_are_done_and_are_bounded() {
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
fn signals_of_a_line_are_gathered_and_none_is_lost() {
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
fn a_full_eventfd_holds_up_neither_its_owner_nor_the_porter_that_is_dismissed() {
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
fn a_porter_that_is_dismissed_signals_nobody() {
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
fn a_porter_that_was_filled_up_again_ends_when_its_peer_does() {
    let mut porters = Porters::new(1);
    let porter = porters.hire().unwrap();
    let (ours, line) = event();
    let line = porter.keep(line).line();
    ioctl_fionbio(&ours, false).unwrap();
    write(&ours, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    line.signal();
    eventually(|| porter.0.shared.lock().signalled.is_some());
    // As if the peer had filled it before the porter came round.
    porter.0.shared.lock().dismissed = true;
    drop((line, porter));
    assert!(matches!(porters.hire(), Err(HireError::TooMany { busy: 1, limit: 1 })));
    eventually(|| porters.busy() == 0);
}
