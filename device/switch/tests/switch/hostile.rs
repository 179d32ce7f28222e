//! Clients and cards that try to stop or impersonate others, while well-behaved cards are served.

use std::fs;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::kit::{Card, PATIENCE, Running, request};
use hamlyn_fabric::bell::End;
use hamlyn_fabric::{Heard, Reason, Request, connect};
use hamlyn_switch::{Form, Options, Part, Policy, Switch};
use rustix::event::epoll;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const HELLO: &[u8] = b"HMLN\x06\x00\xff\xff\x01\x00\x00\x00";
const RING: &[u8] = b"!";

/// Returns a socket whose close waits for hours for unread data, and the peer that does not read.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (reader, _) = listener.accept().unwrap();
    set_socket_linger(&socket, Some(Duration::from_secs(10_000))).unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 1 << 16]).is_ok() {}
    (socket.into(), reader)
}

fn pass(socket: &OwnedFd, message: &[u8], passed: OwnedFd) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [passed.as_fd()];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(socket, &[IoSlice::new(message)], &mut ancillary, SendFlags::empty()).unwrap();
    // The other side may already have closed its copy, if this thread was not scheduled. Then this
    // is the last copy, and closing it is slow.
    std::thread::spawn(move || drop(passed));
}

/// Runs two cards that exchange packets on another thread, so that a switch that hangs is noticed.
fn is_served(running: &Running) {
    let path = running.path().to_owned();
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut one, mut two) = (Card::connect(&path, None), Card::connect(&path, None));
        for number in 0..200u8 {
            one.send_when_room(two.host, &[number]);
            assert_eq!(two.receive(), (one.host, vec![number]));
        }
        done.send(()).unwrap();
    });
    wait.recv_timeout(PATIENCE).expect("the switch stands still");
}

#[test]
fn slow_close_delays_only_its_own_client() {
    let running = Running::start(crate::kit::small());
    for message in [HELLO, RING] {
        let (passed, mut reader) = lingering();
        let socket = match message {
            HELLO => crate::kit::raw_connect(&running),
            _ => crate::kit::raw_card(&running, 9).0,
        };
        pass(&socket, message, passed);
        is_served(&running);
        assert!(crate::kit::hangs_up(&socket));
        drop(socket);
        is_served(&running);
        // The socket was not closed before: its data can still be read, up to the end.
        reader.set_read_timeout(Some(PATIENCE)).unwrap();
        std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
    }
}

#[test]
fn bell_flood_does_not_harm_others() {
    let running = Running::start(crate::kit::small());
    let (socket, _memory) = crate::kit::raw_card(&running, 9);
    let (stop, stopped) = mpsc::channel::<()>();
    let flood = std::thread::spawn(move || {
        while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
            let _ = rustix::net::send(&socket, RING, SendFlags::DONTWAIT);
        }
    });
    is_served(&running);
    drop(stop);
    flood.join().unwrap();
}

#[test]
fn regular_file_is_not_replaced_by_a_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("thesis.tex");
    fs::write(&path, "precious").unwrap();
    let error = Switch::bind(&path, crate::kit::small()).unwrap_err();
    assert!(error.to_string().ends_with("exists and is not a socket"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn old_switch_keeps_its_successors_socket_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("switch");
    let old = Switch::bind(&path, crate::kit::small()).unwrap();
    fs::remove_file(&path).unwrap();
    let _successor = Switch::bind(&path, crate::kit::small()).unwrap();
    drop(old);
    assert!(path.exists());
}

#[test]
fn unlisted_user_is_refused() {
    let own = rustix::process::geteuid().as_raw();
    let policy = Policy { users: vec![own + 1], ..Policy::default() };
    let running = Running::start(Options { policy, ..crate::kit::small() });
    let error = connect(running.path(), request(None), PATIENCE).unwrap_err().to_string();
    assert!(error.contains(&format!("user {own} may not attach here; see --allow-user")), "{error}");
}

#[test]
fn ports_per_user_are_limited() {
    let policy = Policy { ports_for_each: 2, ..Policy::default() };
    let running = Running::start(Options { policy, ..crate::kit::small() });
    let _cards = [Card::attach(&running, None), Card::attach(&running, None)];
    let error = connect(running.path(), request(None), PATIENCE).unwrap_err().to_string();
    assert!(error.contains("(limit 2; see --user-ports)"), "{error}");
}

const NOBODY: u32 = 65534;

/// Runs only as a child of the next test, as another user: requests ports and prints the results.
#[test]
fn child_of_another_user() {
    let Ok(path) = std::env::var("HAMLYN_TEST_STRANGER") else { return };
    for wanted in [Some(0), None, Some(1)] {
        match connect(path.as_ref(), Request { express: true, ..request(wanted) }, PATIENCE) {
            Ok(attached) => {
                let files = attached.express.map_or(0, |express| express.portions().len());
                println!("got {} with {files} files", attached.host);
            }
            Err(error) => println!("{error}"),
        }
    }
}

/// Returns the child's output. Needs root, to run as two users.
fn ask_as_another_user(running: &Running) -> String {
    let folder = running.path().parent().unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("test");
    // Another process makes the copy. Otherwise a child that another thread starts meanwhile would
    // briefly inherit a descriptor that is open for writing. A file that is open for writing cannot
    // be executed.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status().unwrap();
    assert!(copied.success());
    let mut command = Command::new(&program);
    command.args(["--exact", "hostile::child_of_another_user", "--nocapture"]).uid(NOBODY).current_dir("/");
    let output = command.env("HAMLYN_TEST_STRANGER", running.path()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn second_user_of_id_gets_no_express_memory() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let policy = Policy { users: vec![0, NOBODY], keep: Some(Duration::ZERO), ..Policy::default() };
    let express = Some((Form::Isolated, Part::default()));
    let running = Running::start(Options { policy, express, ports: 4, ..crate::kit::small() });
    drop(Card::attach(&running, Some(0)));
    // Repeats until the switch has noticed that the card is gone.
    let mut said = ask_as_another_user(&running);
    while said.contains("is taken") || said.contains("is kept for user 0") {
        said = ask_as_another_user(&running);
    }
    assert!(said.contains("got 0 with 0 files") && said.contains("got 1 with 3 files"), "{said}");
}

#[test]
fn host_id_stays_with_its_last_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let policy = Policy { users: vec![0, NOBODY], ..Policy::default() };
    let running = Running::start(Options { policy, ..crate::kit::small() });
    drop(Card::attach(&running, Some(0)));
    let said = ask_as_another_user(&running);
    assert!(said.contains("host id 0 is kept for user 0, its last owner (not for user 65534)"), "{said}");
    assert!(said.contains("got 1"), "{said}");
    // The same applies in the other direction, although root may do everything else.
    let error = connect(running.path(), request(Some(1)), PATIENCE).unwrap_err().to_string();
    assert!(error.contains("host id 1 is kept for user 65534"), "{error}");
    Card::attach(&running, Some(0));
}

#[test]
fn stalled_card_blocks_no_others_and_is_detached() {
    let stall_timeout = Duration::from_secs(2);
    let running = Running::start(Options { stall_timeout, ..crate::kit::small() });
    let [mut sender, stuck, mut third] = [0, 1, 2].map(|port| Card::attach(&running, Some(port)));
    // Twice as much as its ring holds.
    for number in 0..40 {
        sender.send_when_room(stuck.host, &[number; 3000]);
    }
    for number in 0..100 {
        sender.send_when_room(third.host, &[number; 100]);
        assert_eq!(third.receive(), (sender.host, vec![number; 100]));
    }
    assert!(stuck.is_cut_off(PATIENCE));
    // A new card may attach.
    let mut again = Card::attach(&running, Some(1));
    sender.send_when_room(again.host, b"again");
    assert_eq!(again.receive(), (sender.host, b"again".to_vec()));
    let counters = running.stop();
    assert_eq!((counters.ports[1].stalled_out, counters.ports[0].blocked), (1, 0));
}

#[test]
fn slow_to_wake_card_is_kept_out() {
    let most = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: most.maximum, ..most }).unwrap();
    let running = Running::start(crate::kit::small());
    let mut slow = Card::attach(&running, Some(9));
    let (mut one, mut two) = (Card::attach(&running, None), Card::attach(&running, None));
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let bell = slow.link().bell().unwrap();
    let copies: Vec<_> = (0..8000).map(|_| bell.try_clone_to_owned().unwrap()).collect();
    for copy in &copies {
        epoll::add(&epoll, copy, epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap();
    }
    let begun = Instant::now();
    let end = loop {
        assert!(begun.elapsed() < PATIENCE, "it is still rung for");
        one.send(slow.host, &[1], 1);
        while slow.take().is_some() {}
        slow.link().sleep_for_records().unwrap();
        if let Heard::End(end) = slow.link().hear() {
            break end;
        }
    };
    assert_eq!(end, End::ByOther(Reason::Slow));
    drop((slow, epoll, copies));
    // The others continue, and a card of the same user has to wait.
    one.send_when_room(two.host, &[7]);
    assert_eq!(two.receive(), (one.host, vec![7]));
    let refused = connect(running.path(), request(Some(9)), PATIENCE).unwrap_err().to_string();
    assert!(refused.contains("wake-ups take too long") && refused.contains("try again in"), "{refused}");
    while connect(running.path(), request(Some(9)), PATIENCE).is_err() {
        assert!(begun.elapsed() < PATIENCE, "it is not let in again");
    }
}
