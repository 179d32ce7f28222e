//! Two ends over TCP and a channel in memory: every byte once and in order, wherever they switch.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::rc::Rc;

use proptest::prelude::*;

use super::{Link, Stream, Tcp, Way};

/// Bytes that a direction of TCP holds.
const TCP_ROOM: usize = 64;
/// Messages that a direction of the channel holds, and bytes of the longest.
const MESSAGES: usize = 4;
const LONGEST: usize = 48;

type Shared<T> = Rc<RefCell<VecDeque<T>>>;

/// Messages of a direction that were sent, and that have arrived.
type Held = (Shared<Vec<u8>>, Shared<Vec<u8>>);

/// One end of a connection of TCP.
struct MemoryTcp {
    to: Shared<u8>,
    from: Shared<u8>,
}

impl Tcp for MemoryTcp {
    fn peek(&mut self, to: &mut [u8]) -> Result<usize, i32> {
        let from = self.from.borrow();
        if from.is_empty() {
            return Err(libc::EAGAIN);
        }
        let length = from.len().min(to.len());
        to.iter_mut().zip(from.iter()).for_each(|(to, from)| *to = *from);
        Ok(length)
    }

    fn receive(&mut self, to: &mut [IoSliceMut<'_>], limit: usize) -> Result<usize, i32> {
        let length = self.peek(&mut to[0][..limit])?;
        self.from.borrow_mut().drain(..length);
        Ok(length)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, i32> {
        let mut to = self.to.borrow_mut();
        let length = bytes.len().min(TCP_ROOM - to.len());
        if length == 0 {
            return Err(libc::EAGAIN);
        }
        to.extend(&bytes[..length]);
        Ok(length)
    }
}

/// One end of a channel. What it sends waits in `sent` until it is let through.
struct MemoryLink {
    sent: Shared<Vec<u8>>,
    from: Shared<Vec<u8>>,
    front: Vec<u8>,
}

impl Link for MemoryLink {
    fn say(&mut self, message: &[u8]) -> Result<(), i32> {
        if self.sent.borrow().len() >= MESSAGES {
            return Err(libc::EAGAIN);
        }
        self.sent.borrow_mut().push_back(message.to_vec());
        Ok(())
    }

    fn hear(&mut self) -> Result<Option<Vec<u8>>, i32> {
        assert!(self.front.is_empty(), "a message is read as bytes before the ends agree");
        self.from.borrow_mut().pop_front().map(Some).ok_or(libc::EAGAIN)
    }

    fn write(&mut self, from: &[IoSlice<'_>]) -> Result<usize, i32> {
        let length = from[0].len().min(LONGEST);
        self.say(&from[0][..length]).map(|()| length)
    }

    fn read(&mut self, to: &mut [IoSliceMut<'_>], peek: bool) -> Result<usize, i32> {
        if self.front.is_empty() {
            self.front = self.from.borrow_mut().pop_front().ok_or(libc::EAGAIN)?;
        }
        let length = self.front.len().min(to[0].len());
        to[0][..length].copy_from_slice(&self.front[..length]);
        if !peek {
            self.front.drain(..length);
        }
        Ok(length)
    }
}

struct End {
    tcp: MemoryTcp,
    stream: Stream<MemoryLink>,
    /// Number of bytes sent and received so far; byte *n* of a direction is known.
    sent: usize,
    received: usize,
}

/// Byte `place` of what an end sends. Parts of the marker are among them.
fn byte(is_accepted: bool, place: usize) -> u8 {
    let pattern: &[u8] = if is_accepted { &[0xff, 1, 0xff, 1, 2, 0xff, 1, 2, 3, 9] } else { b"request" };
    pattern[place % pattern.len()]
}

const MARK: [u8; 16] = [0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

impl End {
    fn send(&mut self, length: usize) -> Result<(), i32> {
        let is_accepted = self.stream.is_accepted;
        let bytes: Vec<u8> = (0..length).map(|at| byte(is_accepted, self.sent + at)).collect();
        let sent = if self.stream.way_out(&mut self.tcp)? {
            self.stream.link().expect("a channel").write(&[IoSlice::new(&bytes)])?
        } else {
            let sent = self.tcp.send(&bytes)?;
            self.stream.sent(sent);
            sent
        };
        self.sent += sent;
        Ok(())
    }

    /// Receives up to `length` bytes, which must be the peer's next.
    fn receive(&mut self, length: usize) -> Result<usize, i32> {
        let mut bytes = vec![0; length];
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let got = match self.stream.way_in(&mut self.tcp, length)? {
            Way::Tcp(0) => return Err(libc::EAGAIN),
            Way::Tcp(limit) => {
                let got = self.tcp.receive(&mut parts, limit)?;
                self.stream.received(got);
                got
            }
            Way::Channel => self.stream.link().expect("a channel").read(&mut parts, false)?,
        };
        for (at, got) in bytes[..got].iter().enumerate() {
            let place = self.received + at;
            assert_eq!(*got, byte(!self.stream.is_accepted, place), "byte {place}");
        }
        self.received += got;
        Ok(got)
    }
}

/// A connection, and what its channel still holds back.
struct Pair {
    /// The connecting end, and the accepting one.
    ends: [End; 2],
    links: Option<[MemoryLink; 2]>,
    held: [Held; 2],
}

impl Pair {
    fn new() -> Self {
        let tcp: [Shared<u8>; 2] = Default::default();
        let held: [Held; 2] = Default::default();
        let end = |at: usize| End {
            tcp: MemoryTcp { to: tcp[at].clone(), from: tcp[1 - at].clone() },
            stream: Stream::new(at == 1),
            sent: 0,
            received: 0,
        };
        let link = |at: usize| MemoryLink {
            sent: held[at].0.clone(),
            from: held[1 - at].1.clone(),
            front: Vec::new(),
        };
        Self { ends: [end(0), end(1)], links: Some([link(0), link(1)]), held }
    }

    /// Lets one message of an end's channel through.
    fn deliver(&mut self, at: usize) {
        let (sent, arrived) = &self.held[at];
        arrived.borrow_mut().extend(sent.borrow_mut().pop_front());
    }

    fn attach(&mut self) {
        for (end, link) in self.ends.iter_mut().zip(self.links.take().into_iter().flatten()) {
            end.stream.attach(link, MARK).expect("room for a message");
        }
    }

    /// Receives everything that was sent.
    fn drain(&mut self) {
        for _ in 0..10_000 {
            for at in 0..2 {
                self.deliver(at);
                match self.ends[at].receive(40) {
                    Ok(_) | Err(libc::EAGAIN) => {}
                    Err(error) => panic!("end {at}: error {error}"),
                }
            }
        }
        for at in 0..2 {
            assert_eq!(self.ends[at].received, self.ends[1 - at].sent, "bytes to end {at}");
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Send(usize, usize),
    Receive(usize, usize),
    Deliver(usize),
    Attach,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..2_usize, 1..50_usize).prop_map(|(end, length)| Step::Send(end, length)),
        6 => (0..2_usize, 1..50_usize).prop_map(|(end, length)| Step::Receive(end, length)),
        4 => (0..2_usize).prop_map(Step::Deliver),
        1 => Just(Step::Attach),
    ];
    proptest::collection::vec(step, 0..150)
}

fn is_fine(done: Result<impl Sized, i32>) -> bool {
    matches!(done, Ok(_) | Err(libc::EAGAIN))
}

proptest! {
    #[test]
    fn bytes_arrive_once_and_in_order(steps in steps()) {
        let mut pair = Pair::new();
        for step in steps {
            let fine = match step {
                Step::Send(end, length) => is_fine(pair.ends[end].send(length)),
                Step::Receive(end, length) => is_fine(pair.ends[end].receive(length)),
                Step::Deliver(end) => {
                    pair.deliver(end);
                    true
                }
                Step::Attach => {
                    pair.attach();
                    true
                }
            };
            prop_assert!(fine);
        }
        pair.drain();
        let has_link = pair.links.is_none();
        for end in &mut pair.ends {
            // Once all was received, the next step of each end finds what is left to agree on.
            prop_assert!(is_fine(end.stream.advance(&mut end.tcp)));
            prop_assert_eq!(end.stream.has_switched(), has_link);
        }
    }

    /// A process opens a channel to the connecting end, but does not have its TCP connection.
    #[test]
    fn strangers_channel_changes_nothing(
        steps in steps(),
        lies in proptest::collection::vec((0..3_u8, 0..200_u64), 0..6),
    ) {
        let mut pair = Pair::new();
        let [own, _] = pair.links.take().expect("links");
        let to_own = own.from.clone();
        for (kind, position) in lies {
            to_own.borrow_mut().push_back(match kind {
                0 => super::wire::Switch { position }.to_bytes().to_vec(),
                1 => super::wire::Hello { marker: MARK }.to_bytes().to_vec(),
                _ => vec![0; position as usize],
            });
        }
        let mut own = Some(own);
        for step in steps {
            let fine = match step {
                Step::Send(end, length) => is_fine(pair.ends[end].send(length)),
                Step::Receive(end, length) => is_fine(pair.ends[end].receive(length)),
                Step::Deliver(_) => true,
                Step::Attach => {
                    own.take().is_none_or(|own| pair.ends[0].stream.attach(own, [0xa5; 16]).is_ok())
                }
            };
            prop_assert!(fine);
        }
        pair.drain();
        prop_assert!(pair.ends.iter().all(|end| !end.stream.has_switched()));
    }
}

#[test]
fn each_direction_switches_once_agreed() {
    let mut pair = Pair::new();
    pair.ends[0].send(7).expect("room");
    pair.attach();
    for _ in 0..4 {
        for at in 0..2 {
            pair.deliver(at);
            let _ = pair.ends[at].receive(10);
        }
    }
    for (at, end) in pair.ends.iter().enumerate() {
        assert!(end.stream.sends_by_channel() && end.stream.receives_by_channel(), "end {at}");
    }
    assert!(pair.ends.iter().all(|end| end.tcp.from.borrow().is_empty()), "the marker was received");
}

#[test]
fn lost_channel_leaves_tcp() {
    let mut pair = Pair::new();
    let [connecting, accepting] = pair.links.take().expect("links");
    pair.ends[1].stream.attach(accepting, MARK).expect("room");
    // Anything but a Hello ends the agreement, and nothing else.
    pair.held[0].1.borrow_mut().push_back(b"nonsense".to_vec());
    drop(connecting);
    pair.ends[1].send(5).expect("room");
    pair.ends[0].send(5).expect("room");
    pair.drain();
    assert!(!pair.ends[1].stream.has_switched());
    assert!(pair.ends[1].stream.link().is_none());
}

#[test]
fn ended_direction_stays_on_tcp() {
    let mut pair = Pair::new();
    assert!(pair.ends[0].stream.shut(), "the program ends it on TCP");
    pair.attach();
    pair.ends[1].send(30).expect("room");
    pair.drain();
    pair.ends[1].send(30).expect("room");
    pair.drain();
    assert!(pair.ends[0].stream.receives_by_channel() && !pair.ends[0].stream.sends_by_channel());
    assert!(!pair.ends[1].stream.shut(), "this direction ends by the channel");
}

#[test]
fn marker_of_a_lost_channel_is_not_data() {
    let mut pair = Pair::new();
    pair.attach();
    pair.ends[1].send(9).expect("room");
    pair.deliver(0);
    assert!(is_fine(pair.ends[1].stream.advance(&mut pair.ends[1].tcp)), "the marker is on its way");
    // The channel breaks before it has brought the number of bytes.
    pair.held[1].0.borrow_mut().clear();
    pair.held[1].1.borrow_mut().push_back(b"nonsense".to_vec());
    assert_eq!(pair.ends[0].receive(40), Ok(9));
    assert_eq!(pair.ends[0].receive(40), Err(libc::ECONNRESET));
    assert!(pair.ends[0].stream.link().is_none() && !pair.ends[0].stream.has_switched());
}
