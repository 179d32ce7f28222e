//! A card that attaches to faulty and hostile switches.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use hamlyn_door::{Kind, Listener};
use hamlyn_fabric::attach::{self, accept, read_request, refuse};
use hamlyn_fabric::express::{Form, Holding, Memory, Part, Shape};
use hamlyn_fabric::{
    Attached, ConnectError, Geometry, Header, HostId, Protocol, Request, Traffic, connect, connect_to,
};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, recv, sendmsg, socket_with,
};

const PATIENCE: Duration = Duration::from_secs(60);
const SMALL: Geometry = Geometry { capacity: 4096, max_packet: 1000 };
/// Bytes of memory that a link of this geometry takes: two rings with their indices.
const LINK_BYTES: u64 = 2 * (4096 + 512);

fn traffic() -> Traffic {
    Traffic { protocol: Protocol::parse(9).unwrap(), ordered: true }
}

fn request(host: Option<u16>) -> Request {
    Request { host: host.map(HostId), traffic: traffic(), express: false }
}

/// Runs `serve` for one client, which requests host 3.
fn with_switch(timeout: Duration, serve: impl FnOnce(OwnedFd) + Send) -> Result<Attached, ConnectError> {
    asking(request(Some(3)), timeout, serve)
}

/// Runs `serve` for one client with the given request.
fn asking(
    request: Request,
    timeout: Duration,
    serve: impl FnOnce(OwnedFd) + Send,
) -> Result<Attached, ConnectError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("switch");
    let listener =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || serve(rustix::net::accept(&listener).unwrap()));
        connect(&path, request, timeout)
    })
}

/// Waits for the request and checks it.
fn wait_for_request(socket: &OwnedFd) {
    recv(socket, &mut [0u8; 1][..], RecvFlags::PEEK).unwrap();
    assert_eq!(read_request(socket.as_fd()).unwrap(), request(Some(3)));
}

/// Returns an answer that accepts the client as host 3, without express memory.
fn answer(version: u8, capacity: u32, max_packet: u32) -> Vec<u8> {
    let head = [b'H', b'M', b'L', b'N', version, 0, 3, 0, 0, 0, 0, 0];
    [&head[..], &capacity.to_le_bytes(), &max_packet.to_le_bytes(), &[0; 16]].concat()
}

/// Returns an answer that accepts the client as host 3 of `ports`, with express memory of a form.
fn express_answer(form: u16, ports: u16, part: u32, number: u64) -> Vec<u8> {
    let mut answer = answer(6, 4096, 1000);
    answer[10..12].copy_from_slice(&ports.to_le_bytes());
    answer[20..22].copy_from_slice(&form.to_le_bytes());
    answer[24..28].copy_from_slice(&part.to_le_bytes());
    answer[28..].copy_from_slice(&number.to_le_bytes());
    answer
}

fn send_with(socket: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::empty()).unwrap();
}

fn memory(bytes: u64, seals: SealFlags) -> OwnedFd {
    let memory = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&memory, bytes).unwrap();
    fcntl_add_seals(&memory, seals).unwrap();
    memory
}

#[test]
fn a_link_carries_packets_both_ways() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let card = with_switch(PATIENCE, |socket| {
        wait_for_request(&socket);
        sender.send(accept(socket, HostId(3), 5, SMALL, None).unwrap()).unwrap();
    });
    let (mut card, mut switch) = (card.unwrap(), receiver.recv().unwrap());
    assert_eq!((card.host, card.ports, card.link.max_packet()), (HostId(3), 5, 1000));
    let header = Header { destination: HostId(1), source: HostId(2), protocol: traffic().protocol };
    for (from, to) in [(&mut card.link, &mut switch)] {
        for _ in 0..2 {
            from.reserve(header, 5).unwrap().unwrap().copy_from(b"hello");
            from.commit();
            let record = to.peek().unwrap().unwrap();
            let mut payload = [0; 5];
            record.payload.copy_to(&mut payload);
            assert_eq!((record.header().unwrap(), &payload), (header, b"hello"));
            to.consume();
            std::mem::swap(from, to);
        }
    }
}

#[test]
fn refusal_carries_its_reason() {
    let error = with_switch(PATIENCE, |socket| {
        wait_for_request(&socket);
        refuse(socket.as_fd(), &"no room at the inn ".repeat(100));
    })
    .unwrap_err();
    let ConnectError::Refused { reason, .. } = &error else { panic!("{error}") };
    assert!(reason.starts_with("no room at the inn no room") && reason.len() == 240, "{reason}");
}

#[test]
fn refusal_arrives_from_a_switch_that_reads_nothing() {
    // The switch may hang up before the request arrives, or after it.
    for waits in [false, true] {
        let error = with_switch(PATIENCE, |socket| {
            if waits {
                recv(&socket, &mut [0u8; 1][..], RecvFlags::PEEK).unwrap();
            }
            refuse(socket.as_fd(), "go away");
        })
        .unwrap_err();
        assert!(matches!(&error, ConnectError::Refused { reason, .. } if reason == "go away"), "{error}");
    }
}

#[test]
fn silent_switch_times_out() {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let error = with_switch(Duration::from_millis(50), move |socket| {
        std::thread::spawn(move || {
            let _ = wait.recv();
            drop(socket);
        });
    })
    .unwrap_err();
    drop(done);
    assert!(matches!(error, ConnectError::Socket { .. }), "{error}");
}

#[test]
fn absent_switch_is_an_error() {
    let error = connect("/nonexistent/switch".as_ref(), request(None), PATIENCE).unwrap_err();
    assert!(error.to_string().starts_with("cannot reach the switch at /nonexistent/switch: "), "{error}");
}

#[test]
fn untrusted_switch_is_sent_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("switch");
    let listener = Listener::bind(&path, Kind::Messages, 1).unwrap();
    let own = rustix::process::geteuid().as_raw();
    let error = connect_to(&path, &[own + 1], request(None), PATIENCE).unwrap_err();
    assert!(matches!(error, ConnectError::Stranger { user, .. } if user == own), "{error}");
    assert!(error.to_string().contains(&format!("belongs to user {own} (trusted: [{}]", own + 1)), "{error}");
    let client = listener.accept().unwrap().unwrap();
    assert_eq!(recv(&client, &mut [0u8; 8][..], RecvFlags::empty()), Ok((0, 0)));
}

#[test]
fn huge_pages_and_non_memfds_are_refused() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(LINK_BYTES).unwrap();
    let huge = memfd_create("huge", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB);
    let huge = huge.inspect(|huge| {
        ftruncate(huge, 2 << 20).unwrap();
        fcntl_add_seals(huge, SealFlags::SHRINK).unwrap();
    });
    let (pipe, _writer) = rustix::pipe::pipe().unwrap();
    let cases =
        [(Ok(file.into()), "can shrink|not a memfd"), (Ok(pipe), "not a memfd"), (huge, "huge pages")];
    for (memory, reasons) in cases {
        // A kernel without huge pages provides none.
        let Ok(memory) = memory else { continue };
        let error = with_switch(PATIENCE, move |socket| {
            wait_for_request(&socket);
            send_with(&socket, &answer(6, 4096, 1000), &[memory.as_fd()]);
        })
        .unwrap_err()
        .to_string();
        assert!(reasons.split('|').any(|reason| error.contains(reason)), "{error}");
    }
}

#[test]
fn invalid_answers_are_refused() {
    let cases = [
        (vec![], "answer of 0 bytes"),
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), "answer of 26 bytes is not one"),
        (answer(6, 4096, 1000)[..35].to_vec(), "answer of 35 bytes"),
        (answer(5, 4096, 1000), "version 5"),
        (answer(6, 4096, 1000), "it sent 0 descriptors (must be 1)"),
    ];
    for (bytes, reason) in cases {
        let error = with_switch(PATIENCE, move |socket| {
            wait_for_request(&socket);
            if !bytes.is_empty() {
                send_with(&socket, &bytes, &[]);
            }
        })
        .unwrap_err();
        assert!(
            matches!(error, ConnectError::Protocol { .. }) && error.to_string().contains(reason),
            "{error}"
        );
    }
}

#[test]
fn memory_that_contradicts_the_answer_is_refused() {
    let sealed = || memory(LINK_BYTES, SealFlags::SHRINK);
    let cases = [
        (memory(LINK_BYTES, SealFlags::GROW), answer(6, 4096, 1000), "can shrink"),
        (memory(LINK_BYTES - 1, SealFlags::SHRINK), answer(6, 4096, 1000), "ring memory has 9215 bytes"),
        (sealed(), answer(6, 4097, 1000), "ring of 4097 bytes is not possible"),
        (
            sealed(),
            answer(6, 4096, 2000),
            "packet size 2000 is too large for a ring of 4096 bytes (limit 1008)",
        ),
        (sealed(), answer(6, 1 << 31, 1000), "ring of 2147483648 bytes"),
    ];
    for (memory, bytes, reason) in cases {
        let error = with_switch(PATIENCE, move |socket| {
            wait_for_request(&socket);
            send_with(&socket, &bytes, &[memory.as_fd()]);
        })
        .unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    // The same in good order is accepted: the cases fail for the reason that they name.
    let memory = sealed();
    let attached = with_switch(PATIENCE, move |socket| {
        wait_for_request(&socket);
        send_with(&socket, &answer(6, 4096, 1000), &[memory.as_fd()]);
    });
    assert_eq!(attached.unwrap().host, HostId(3));
    assert_eq!(attach::VERSION, 6);
}

const PART: u32 = 64 << 10;
/// Bytes of express memory for four hosts, and of one pair's file of isolated memory.
const FOUR: u64 = 4 * 4 * PART as u64;
const PAIR: u64 = 2 * PART as u64;
/// Values of the answer's form field.
const SHARED: u16 = 1;
const ISOLATED: u16 = 2;

fn wishes() -> Request {
    Request { express: true, ..request(Some(3)) }
}

fn express(form: Form, hosts: u16) -> Memory {
    Memory::new(Shape::new(form, hosts, Part::new(PART.into()).unwrap()).unwrap()).unwrap()
}

/// Returns the files that host 3 is passed of express memory.
fn handed(memory: &mut Memory) -> Holding {
    let ports = memory.shape().hosts();
    let card = asking(wishes(), PATIENCE, move |socket| {
        recv(&socket, &mut [0u8; 1][..], RecvFlags::PEEK).unwrap();
        assert_eq!(read_request(socket.as_fd()).unwrap(), wishes());
        accept(socket, HostId(3), ports, SMALL, Some(memory)).unwrap();
    });
    card.unwrap().express.unwrap()
}

#[test]
fn express_memory_is_passed_on_request() {
    use std::os::unix::fs::FileExt;
    // One case has the largest number of hosts, so its message has the most descriptors.
    for (form, hosts, files) in [(Form::Shared, 4, 1), (Form::Isolated, 4, 3), (Form::Isolated, 64, 63)] {
        let mut memory = express(form, hosts);
        let found = handed(&mut memory);
        let own = memory.holding(HostId(3)).unwrap();
        assert_eq!((found.shape(), found.number()), (memory.shape(), own.number()));
        assert_eq!((found.host(), found.portions().len()), (HostId(3), files));
        for (found, own) in found.portions().iter().zip(own.portions()) {
            assert_eq!(found.peer(), own.peer());
            let place = own.place(own.peer().unwrap_or(HostId(1))).unwrap();
            own.file().write_all_at(b"shared", place).unwrap();
            let mut bytes = [0; 6];
            found.file().read_exact_at(&mut bytes, place).unwrap();
            assert_eq!(&bytes, b"shared");
        }
    }
}

/// Attaches to a switch whose answer passes these files after the rings' memory.
fn take(wish: Request, bytes: Vec<u8>, files: Vec<OwnedFd>) -> Result<Attached, ConnectError> {
    let rings = memory(LINK_BYTES, SealFlags::SHRINK);
    asking(wish, PATIENCE, move |socket| {
        recv(&socket, &mut [0u8; 1][..], RecvFlags::PEEK).unwrap();
        let all: Vec<_> = [&rings].into_iter().chain(&files).map(AsFd::as_fd).collect();
        send_with(&socket, &bytes, &all);
    })
}

#[test]
fn express_memory_that_contradicts_the_answer_is_refused() {
    let good = || memory(FOUR, SealFlags::SHRINK);
    let pair = || memory(PAIR, SealFlags::SHRINK);
    let shared = |ports, part, number| express_answer(SHARED, ports, part, number);
    let isolated = || express_answer(ISOLATED, 4, PART, 7);
    let cases = [
        (shared(4, PART, 7), vec![], "it sent 1 descriptors (must be 2)"),
        (shared(4, PART, 7), vec![good(), good()], "it sent 3 descriptors (must be 2)"),
        (answer(6, 4096, 1000), vec![good()], "it sent 2 descriptors (must be 1)"),
        (shared(4, PART, 0), vec![good()], "number 0"),
        (shared(4, PART + 1, 7), vec![good()], "a part of 65537 bytes"),
        (shared(4, 4096, 7), vec![good()], "a part of 4096 bytes"),
        (shared(0, PART, 7), vec![good()], "for 0 hosts is not possible"),
        (shared(65, PART, 7), vec![good()], "for 65 hosts is not possible"),
        (shared(3, PART, 7), vec![good()], "not for host 3 (limit 3)"),
        (shared(64, 256 << 20, 7), vec![good()], "(limit 68719476736)"),
        (shared(5, PART, 7), vec![good()], "express memory has 1048576 bytes (1638400 needed)"),
        (shared(4, PART, 7), vec![memory(FOUR, SealFlags::GROW)], "express memory can shrink"),
        (
            shared(4, PART, 7),
            vec![memory(FOUR, SealFlags::SHRINK | SealFlags::FUTURE_WRITE)],
            "express memory is for reading only",
        ),
        (express_answer(3, 4, PART, 7), vec![good()], "express memory is of form 3 (limit 2)"),
        (isolated(), vec![pair(), pair()], "it sent 3 descriptors (must be 4)"),
        (isolated(), vec![pair(), pair(), pair(), pair()], "it sent 5 descriptors (must be 4)"),
        (isolated(), vec![pair(), pair(), memory(PAIR, SealFlags::GROW)], "express memory can shrink"),
        (
            isolated(),
            vec![pair(), memory(PAIR - 1, SealFlags::SHRINK), pair()],
            "express memory has 131071 bytes (131072 needed)",
        ),
    ];
    for (bytes, files, reason) in cases {
        let error = take(wishes(), bytes, files).unwrap_err();
        assert!(error.to_string().contains(reason), "{reason}: {error}");
    }
    // In good order it is accepted, unless the card has not asked for it.
    for (bytes, files) in [(shared(4, PART, 7), 1), (isolated(), 3)] {
        let files = || (0..files).map(|_| if files == 1 { good() } else { pair() }).collect();
        assert!(take(wishes(), bytes.clone(), files()).unwrap().express.is_some());
        let error = take(request(Some(3)), bytes, files()).unwrap_err();
        assert!(error.to_string().contains("express memory that was not requested"), "{error}");
    }
}
