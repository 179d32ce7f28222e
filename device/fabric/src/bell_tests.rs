//! Bells whose peer misbehaves.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use hamlyn_door::Porters;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
use rustix::pipe::pipe;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

fn is_readable(fd: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

#[test]
fn bell_is_readable_until_it_is_heard() {
    let (here, there) = Bell::pair().unwrap();
    assert_eq!((is_readable(&here), here.hear()), (false, Heard::Nothing));
    there.ring();
    assert!(is_readable(&here) && !is_readable(&there));
    assert_eq!((here.hear(), here.hear()), (Heard::Ring, Heard::Nothing));
    assert!(!is_readable(&here));
    here.ring();
    assert_eq!(there.hear(), Heard::Ring);
}

#[test]
fn ringing_an_unread_bell_does_not_block() {
    let (here, there) = Bell::pair().unwrap();
    // Clearing O_NONBLOCK at the other end must not affect this end.
    rustix::io::ioctl_fionbio(&there.socket, false).unwrap();
    for _ in 0..100_000 {
        here.ring();
    }
    assert!(is_readable(&there));
    let heard = std::iter::from_fn(|| (there.hear() == Heard::Ring).then_some(())).count();
    assert!((1..100_000).contains(&heard), "{heard}");
    here.ring();
    assert_eq!(there.hear(), Heard::Ring);
}

/// The peer fills and drains the bell while it is rung and heard, through a blocking copy of its
/// descriptor. At the end it leaves the bell full.
#[test]
fn ringing_does_not_block_on_a_hostile_peer() {
    const RINGS: u64 = 200_000;
    let (here, there) = Bell::pair().unwrap();
    let theirs = there.as_fd().try_clone_to_owned().unwrap();
    rustix::io::ioctl_fionbio(&theirs, false).unwrap();
    let rung = Arc::new(AtomicU64::new(0));
    let (counter, (done, wait)) = (rung.clone(), mpsc::channel());
    let ringer = std::thread::spawn(move || {
        for _ in 0..RINGS {
            here.ring();
            let _ = here.hear();
            counter.fetch_add(1, Ordering::Relaxed);
        }
        done.send(()).unwrap();
        here
    });
    while rung.load(Ordering::Relaxed) < RINGS / 2 {
        while recv(&theirs, &mut [0u8; 8], RecvFlags::DONTWAIT).is_ok() {}
        for _ in 0..50 {
            let _ = send(&theirs, RING, SendFlags::DONTWAIT);
        }
    }
    wait.recv_timeout(Duration::from_secs(60)).expect("the bell is being rung still");
    let here = ringer.join().unwrap();
    while here.hear() == Heard::Ring {}
    assert_eq!(here.hear(), Heard::Nothing);
}

#[test]
fn hang_up_is_reported_after_earlier_rings() {
    let (here, there) = Bell::pair().unwrap();
    there.ring();
    drop(there);
    assert_eq!(here.hear(), Heard::Ring);
    assert_eq!(here.hear(), Heard::End(End::Gone));
    here.ring();
}

#[test]
fn invalid_message_ends_the_link() {
    for message in [&b"hello?"[..], b"", b"!!"] {
        let (here, there) = Bell::pair().unwrap();
        send(&there.socket, message, SendFlags::empty()).unwrap();
        assert!(matches!(here.hear(), Heard::End(_)), "{message:?}");
    }
}

#[test]
fn descriptors_are_not_taken_and_so_not_closed() {
    let (here, there) = Bell::pair().unwrap();
    let (reader, writer) = pipe().unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let passed = [writer.as_fd()];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&passed)));
    sendmsg(&there.socket, &[IoSlice::new(RING)], &mut ancillary, SendFlags::empty()).unwrap();
    drop(writer);
    for _ in 0..3 {
        assert_eq!(here.hear(), Heard::End(End::ByUs(Reason::Descriptors)));
    }
    // The last descriptor of the pipe's write end is still in flight.
    assert!(!is_readable(&reader));
    drop(here);
    assert!(is_readable(&reader));
}

#[test]
fn porter_closes_a_kept_end() {
    let mut porters = Porters::new(1);
    let porter = porters.hire().unwrap();
    let (here, there) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let (here, there) = (Bell::over(porter.keep(here).into()), Bell::over(there.into()));
    there.ring();
    assert_eq!(here.hear(), Heard::Ring);
    drop((here, porter));
    let mut fds = [PollFd::new(&there, PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&Timespec { tv_sec: 60, tv_nsec: 0 })), Ok(1));
    assert_eq!(there.hear(), Heard::End(End::Gone));
}

#[test]
fn ended_bell_sends_reason_and_stops_ringing() {
    let (here, there) = Bell::pair().unwrap();
    here.meter.overcharge();
    here.ring();
    assert_eq!(here.hear(), Heard::End(End::ByUs(Reason::Slow)));
    // The last ring before the end is still received, and no later one.
    here.ring();
    assert_eq!(there.hear(), Heard::Ring);
    for _ in 0..3 {
        assert_eq!(there.hear(), Heard::End(End::ByOther(Reason::Slow)));
    }
}

#[test]
fn farewell_is_received_after_unread_rings() {
    for reason in Reason::ALL {
        let (here, there) = Bell::pair().unwrap();
        // The ring is unread when `here` closes, so the first peek of `there` fails.
        there.ring();
        here.end(reason);
        here.end(Reason::Slow);
        drop(here);
        assert_eq!(there.hear(), Heard::End(End::ByOther(reason)));
    }
}

/// Adds watchers to one end of a bell, which makes it slow to wake.
fn watch(bell: &Bell, watchers: usize) -> (OwnedFd, Vec<OwnedFd>) {
    let most = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: most.maximum, ..most }).unwrap();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let copies: Vec<_> = (0..watchers).map(|_| bell.as_fd().try_clone_to_owned().unwrap()).collect();
    for copy in &copies {
        epoll::add(&epoll, copy, epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap();
    }
    (epoll, copies)
}

#[test]
fn peer_with_many_watchers_is_ended() {
    let (here, there) = Bell::pair().unwrap();
    let _watchers = watch(&there, 8000);
    let mut heard = (0..1000).map(|_| {
        here.ring();
        there.hear()
    });
    let last = heard.find(|heard| *heard != Heard::Ring);
    assert_eq!(last, Some(Heard::End(End::ByOther(Reason::Slow))), "{:?}", here.meter);
    assert_eq!(here.hear(), Heard::End(End::ByUs(Reason::Slow)));
    assert!(here.penalty() > Duration::ZERO);
}

/// The watcher is edge-triggered, so that it reports each wake-up of the socket, whatever the
/// reason.
#[test]
fn peer_that_hung_up_is_not_woken_again() {
    let (here, there) = Bell::pair().unwrap();
    there.ring();
    hang_up(&there.socket);
    let watcher = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let how = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&watcher, &there, epoll::EventData::new_u64(0), how).unwrap();
    let woken = |_| {
        here.ring();
        let mut events = [const { MaybeUninit::uninit() }; 1];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&watcher, &mut events, Some(&at_once)).unwrap().0.len()
    };
    let counts: Vec<_> = (0..100).map(woken).collect();
    assert_eq!(counts.iter().skip(1).sum::<usize>(), 0, "{counts:?}");
    assert_eq!((here.hear(), here.hear()), (Heard::Ring, Heard::End(End::Gone)));
}
