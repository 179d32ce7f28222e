//! Whole engines over links in memory.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use proptest::prelude::*;

use super::regions::Region;
use super::transport::{Content, Packet};
use super::wire::HEADER;
use super::*;
use crate::abi::{
    FI_ENOKEY, FI_ENOMSG, FI_ETRUNC, FI_MULTI_RECV, FI_READ, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_RMA,
    FI_SEND, FI_WRITE,
};

/// Turns of both ends after which the tests' messages have arrived.
const TURNS: usize = 400;

/// Packets in one direction.
type Wire = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// One end of a link that holds few packets.
#[derive(Debug)]
pub(super) struct MemoryLink {
    to: Wire,
    from: Wire,
    room: usize,
    host: u32,
    /// Whether the link is lost.
    is_cut: Rc<Cell<bool>>,
}

impl MemoryLink {
    fn new(to: &Wire, from: &Wire, room: usize, host: u32) -> Self {
        Self { to: to.clone(), from: from.clone(), room, host, is_cut: Rc::default() }
    }
}

impl Link for MemoryLink {
    fn host(&self) -> u32 {
        self.host
    }

    fn longest(&self) -> usize {
        LONGEST_EAGER + HEADER
    }

    fn send(&mut self, header: &[u8; HEADER], body: Content<'_>) -> Result<bool, i32> {
        if self.is_cut.get() {
            return Err(libc::ECONNRESET);
        }
        let mut wire = self.to.borrow_mut();
        if wire.len() >= self.room {
            return Ok(false);
        }
        let mut packet = header.to_vec();
        body.each(|_, bytes| packet.extend_from_slice(bytes));
        assert!(packet.len() <= self.longest(), "no packet is too long");
        wire.push_back(packet);
        Ok(true)
    }

    fn receive(&mut self, take: &mut dyn FnMut(&dyn Packet)) -> Result<bool, i32> {
        if self.is_cut.get() {
            return Err(libc::ECONNRESET);
        }
        let Some(packet) = self.from.borrow_mut().pop_front() else { return Ok(false) };
        take(&packet);
        Ok(true)
    }
}

impl Packet for Vec<u8> {
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), i32> {
        to.copy_from_slice(&self[offset..offset + to.len()]);
        Ok(())
    }
}

/// Two engines, each of which knows the other as peer 0.
pub(super) struct Pair {
    pub(super) ends: [Engine<MemoryLink>; 2],
    pub(super) regions: [Arc<Mutex<Regions>>; 2],
    /// From the second to the first.
    pub(super) back: Wire,
    pub(super) is_cut: Rc<Cell<bool>>,
}

impl Pair {
    pub(super) fn new(room: usize) -> Self {
        let addresses = [0, 1].map(|host| Address::new(host, "fi.end").expect("a valid name"));
        let regions = [(); 2].map(|()| Arc::new(Mutex::new(Regions::default())));
        let mut ends = [0, 1].map(|end| Engine::new(addresses[end], regions[end].clone()));
        let wires = [Wire::default(), Wire::default()];
        for end in [0, 1] {
            assert_eq!(ends[end].peer(addresses[1 - end]), 0);
        }
        let is_cut = Rc::new(Cell::new(false));
        let link = |end: usize| {
            let mut link = MemoryLink::new(&wires[end], &wires[1 - end], room, 1 - end as u32);
            link.is_cut = is_cut.clone();
            link
        };
        ends[0].connected(0, Ok(link(0)));
        ends[1].accepted(link(1));
        let back = wires[1].clone();
        let mut pair = Self { ends, regions, back, is_cut };
        pair.run();
        pair
    }

    /// Lets both ends work until nothing changes.
    pub(super) fn run(&mut self) {
        for _ in 0..TURNS {
            self.ends[0].progress();
            self.ends[1].progress();
        }
    }

    pub(super) fn events(&mut self, end: usize) -> Vec<Event> {
        std::mem::take(&mut self.ends[end].events)
    }

    fn send(&mut self, end: usize, bytes: &[u8], message: Message, context: usize) -> Result<(), i32> {
        let operation = Operation { context, flags: FI_SEND, report: true };
        self.ends[end].send(0, area(bytes), message, operation)
    }

    fn receive(&mut self, end: usize, to: &mut [u8], tag: u64, context: usize) {
        self.ends[end].receive(Posted { context, area: area(to), ..posted(tag) }, true);
    }
}

fn posted(tag: u64) -> Posted {
    Posted { context: 0, area: Area::default(), peer: None, tag, ignore: 0, report: true, multi: None }
}

pub(super) fn area(bytes: &[u8]) -> Area {
    // SAFETY: the tests keep their buffers until they are done.
    unsafe { Area::one(bytes.as_ptr(), bytes.len()) }
}

fn tagged(tag: u64) -> Message {
    Message { tag: Some(tag), ..Message::default() }
}

pub(super) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

pub(super) fn brief(events: &[Event]) -> Vec<(usize, usize, i32)> {
    events.iter().map(|event| (event.context, event.length, event.error)).collect()
}

#[test]
fn messages_of_every_length_arrive_whole() {
    for length in [0, 1, 4096, LONGEST_EAGER, LONGEST_EAGER + 1, 1_000_000] {
        for posts_first in [true, false] {
            let mut pair = Pair::new(4);
            let (sent, mut got) = (pattern(length), vec![0; length]);
            if posts_first {
                pair.receive(1, &mut got, 5, 1);
            }
            pair.send(0, &sent, tagged(5), 2).expect("room");
            pair.run();
            if !posts_first {
                pair.receive(1, &mut got, 5, 1);
                pair.run();
            }
            assert_eq!(brief(&pair.events(0)), [(2, length, 0)]);
            assert_eq!(brief(&pair.events(1)), [(1, length, 0)]);
            assert_eq!(got, sent);
        }
    }
}

#[test]
fn messages_longer_than_their_buffer_are_cut() {
    for length in [100, 100_000] {
        let mut pair = Pair::new(4);
        let (sent, mut got) = (pattern(length), vec![0; 60]);
        pair.receive(1, &mut got, 5, 1);
        pair.send(0, &sent, tagged(5), 2).expect("room");
        pair.run();
        let event = pair.events(1).remove(0);
        assert_eq!((event.error, event.length, event.missing), (FI_ETRUNC, 60, length - 60));
        assert_eq!(got, sent[..60]);
        assert_eq!(pair.events(0).len(), 1, "the sender is not concerned");
    }
}

#[test]
fn confirmed_messages_complete_when_received() {
    for length in [10, 100_000] {
        let mut pair = Pair::new(4);
        let (sent, mut got) = (pattern(length), vec![0; length]);
        let message = Message { delivery: true, ..tagged(5) };
        pair.send(0, &sent, message, 2).expect("room");
        pair.run();
        assert_eq!(pair.events(0), []);
        pair.receive(1, &mut got, 5, 1);
        pair.run();
        assert_eq!(brief(&pair.events(0)).len(), 1);
        assert_eq!(got, sent);
    }
}

#[test]
fn unexpected_bytes_are_limited() {
    let mut pair = Pair::new(64);
    let sent = pattern(LONGEST_EAGER);
    let count = 2 * EAGER_CREDIT as usize / LONGEST_EAGER;
    for context in 0..count {
        pair.send(0, &sent, tagged(5), context).expect("room");
        pair.run();
    }
    assert_eq!(pair.ends[1].peers[0].held, EAGER_CREDIT);
    assert_eq!(pair.events(0).len(), count / 2, "the others wait at the sender");
    let mut got = vec![0; LONGEST_EAGER];
    for context in 0..count {
        pair.receive(1, &mut got, 5, context);
        pair.run();
        assert_eq!(got, sent);
        got.fill(0);
    }
    assert_eq!((pair.events(0).len(), pair.events(1).len()), (count / 2, count));
    assert!(pair.ends[0].peers[0].eager <= CREDIT_STEP, "the credit has come back");
}

#[test]
fn injected_bytes_are_copied() {
    let mut pair = Pair::new(1);
    let mut sent = pattern(LONGEST_INJECT);
    for _ in 0..4 {
        pair.send(0, &sent, Message { inject: true, ..tagged(5) }, 2).expect("room");
    }
    let kept = sent.clone();
    sent.fill(0);
    let mut got = vec![0; LONGEST_INJECT];
    for _ in 0..4 {
        pair.receive(1, &mut got, 5, 1);
        pair.run();
        assert_eq!(got, kept);
    }
    let longer = vec![0; LONGEST_INJECT + 1];
    let refused = pair.send(0, &longer, Message { inject: true, ..tagged(5) }, 2);
    assert_eq!(refused, Err(libc::EMSGSIZE));
}

#[test]
fn claimed_messages_are_received_by_their_claim() {
    let mut pair = Pair::new(4);
    for byte in [1, 2] {
        pair.send(0, &[byte; 3], tagged(5), 0).expect("room");
    }
    pair.run();
    let wanted = posted(5).wanted();
    pair.ends[1].peek(wanted, true, 9, true, false);
    assert_eq!(brief(&pair.events(1)), [(9, 3, 0)]);
    let (mut first, mut second) = ([0; 3], [0; 3]);
    pair.receive(1, &mut second, 5, 1);
    pair.ends[1]
        .receive_claimed(Posted { context: 9, area: area(&first), ..posted(5) }, false)
        .expect("claimed");
    assert_eq!((first, second), ([1; 3], [2; 3]));
    first.fill(0);
    pair.ends[1].peek(wanted, true, 9, false, false);
    assert_eq!(pair.events(1).last().map(|event| event.error), Some(FI_ENOMSG));
    let again = pair.ends[1].receive_claimed(Posted { context: 9, ..posted(5) }, false);
    assert_eq!(again, Err(libc::EINVAL));
}

#[test]
fn buffer_for_several_messages_is_given_back_full() {
    let mut pair = Pair::new(4);
    let mut buffer = vec![0; 100];
    pair.ends[1].least_room = 30;
    let multi = Some(pair.ends[1].next_multi());
    pair.send(0, &[1; 40], Message::default(), 0).expect("room");
    pair.run();
    pair.ends[1].receive(Posted { context: 7, area: area(&buffer), multi, ..posted(0) }, false);
    pair.send(0, &[2; 35], Message::default(), 0).expect("room");
    pair.send(0, &[3; 5], Message::default(), 0).expect("room");
    pair.run();
    let events = pair.events(1);
    assert_eq!(brief(&events), [(7, 40, 0), (7, 35, 0)], "the third message found no buffer");
    let flags = events.iter().map(|event| event.flags & FI_MULTI_RECV != 0).collect::<Vec<_>>();
    assert_eq!(flags, [false, true]);
    assert_eq!(events[1].buffer, buffer.as_ptr() as usize + 40);
    assert_eq!((buffer[39], buffer[40], buffer[75]), (1, 2, 0));
    buffer.fill(0);
}

#[test]
fn regions_are_written_and_read() {
    let mut pair = Pair::new(2);
    let mut memory = vec![0_u8; 300_000];
    let region = Region { area: area(&memory), base: 0, readable: true, writable: true };
    let key = pair.regions[1].lock().expect("a lock").insert(Some(77), region).expect("a free key");
    let (sent, mut got) = (pattern(200_000), vec![0; 200_000]);
    let operation = |context, flags| Operation { context, flags, report: true };
    let message = Message { data: Some(6), ..Message::default() };
    pair.ends[0].write(0, area(&sent), (key, 1000), message, operation(1, FI_WRITE)).expect("room");
    pair.run();
    assert_eq!(brief(&pair.events(0)), [(1, 0, 0)]);
    let remote = pair.events(1);
    assert_eq!((remote.len(), remote[0].data, remote[0].flags & FI_REMOTE_WRITE), (1, 6, FI_REMOTE_WRITE));
    assert_eq!(memory[1000..201_000], sent);
    pair.ends[0].read(0, area(&got), (key, 1000), operation(2, FI_READ)).expect("room");
    pair.run();
    assert_eq!(brief(&pair.events(0)), [(2, 200_000, 0)]);
    assert_eq!(got, sent);
    let remote = pair.events(1);
    assert_eq!((remote.len(), remote[0].flags, remote[0].report), (1, FI_REMOTE_READ | FI_RMA, false));
    let refusals = [((key, 200_000), libc::EFAULT), ((key + 1, 0), FI_ENOKEY)];
    for (place, error) in refusals {
        memory.fill(0);
        pair.ends[0].write(0, area(&sent), place, message, operation(3, FI_WRITE)).expect("room");
        pair.ends[0].read(0, area(&got), place, operation(4, FI_READ)).expect("room");
        pair.run();
        let mut failed = brief(&pair.events(0));
        failed.sort_unstable();
        assert_eq!(failed, [(3, 0, error), (4, 0, error)]);
        assert_eq!(pair.events(1), []);
    }
    got.clear();
}

#[test]
fn messages_and_reads_come_after_earlier_writes() {
    let mut pair = Pair::new(2);
    let mut memory = vec![0_u8; 200_000];
    let region = Region { area: area(&memory), base: 0, readable: true, writable: true };
    let key = pair.regions[1].lock().expect("a lock").insert(None, region).expect("a free key");
    let (first, second, mut note, got) = (vec![1; 200_000], vec![2; 100_000], [0; 4], vec![0; 200_000]);
    let operation = |context| Operation { context, flags: FI_WRITE, report: true };
    pair.receive(1, &mut note, 5, 9);
    pair.ends[0].write(0, area(&first), (key, 0), Message::default(), operation(1)).expect("room");
    pair.ends[0].write(0, area(&second), (key, 0), Message::default(), operation(2)).expect("room");
    pair.send(0, b"done", tagged(5), 3).expect("room");
    pair.ends[0].read(0, area(&got), (key, 0), operation(4)).expect("room");
    while pair.ends[1].events.iter().all(|event| event.context != 9) {
        pair.ends[1].progress();
        pair.ends[0].progress();
    }
    assert_eq!((memory[99_999], memory[100_000], &note), (2, 1, b"done"));
    pair.run();
    assert_eq!((got[99_999], got[100_000]), (2, 1));
    memory.fill(0);
}

#[test]
fn operations_fail_when_their_peer_is_lost() {
    let mut pair = Pair::new(2);
    let (sent, mut got) = (pattern(100_000), vec![0; 100_000]);
    for context in 1..4 {
        pair.send(0, &sent, tagged(5), context).expect("room");
    }
    pair.receive(0, &mut got, 6, 9);
    // A packet that begins with no kind that exists.
    pair.back.borrow_mut().push_front(vec![0xff; HEADER]);
    pair.ends[0].progress();
    let lost = brief(&pair.events(0));
    let mut contexts = lost.iter().map(|event| event.0).collect::<Vec<_>>();
    contexts.sort_unstable();
    assert_eq!(contexts, [1, 2, 3]);
    assert!(lost.iter().all(|event| event.2 == libc::EPROTO));
    assert!(pair.ends[0].cancel(9), "a receive waits for other peers");
    assert_eq!(brief(&pair.events(0)), [(9, 0, FI_ECANCELED)]);
}

#[test]
fn peers_own_link_serves_without_another() {
    let mut pair = Pair::new(4);
    let address = Address::new(9, "fi.third").expect("a valid name");
    let third = pair.ends[0].peer(address);
    let operation = Operation { context: 4, flags: FI_SEND, report: true };
    pair.ends[0].send(third, Area::default(), tagged(5), operation).expect("room");
    assert_eq!(std::mem::take(&mut pair.ends[0].wanted), [third]);
    let wires = [Wire::default(), Wire::default()];
    let mut hello = Header::new(Kind::Hello).to_bytes().to_vec();
    hello.extend_from_slice(&address.0);
    wires[1].borrow_mut().push_back(hello);
    pair.ends[0].accepted(MemoryLink::new(&wires[0], &wires[1], 4, 9));
    pair.ends[0].progress();
    assert_eq!(wires[0].borrow().len(), 0, "this end's own link comes first");
    pair.ends[0].connected(third, Err(libc::ENOSPC));
    assert_eq!((wires[0].borrow().len(), brief(&pair.events(0))), (1, vec![(4, 0, 0)]));
    // Without any link, the operation fails.
    let fourth = pair.ends[0].peer(Address::new(9, "fi.fourth").expect("a valid name"));
    pair.ends[0].send(fourth, Area::default(), tagged(5), operation).expect("room");
    pair.ends[0].connected(fourth, Err(libc::ECONNREFUSED));
    assert_eq!(brief(&pair.events(0)), [(4, 0, libc::ECONNREFUSED)]);
}

/// A header, and what is false about it.
type Forgery = (fn(&mut Header, u64), &'static str);

#[test]
fn peer_that_breaks_the_protocol_is_lost() {
    let forgeries: [Forgery; 6] = [
        (
            |header, id| (header.kind, header.id, header.place) = (Kind::Piece, id, 8),
            "a piece is not the next",
        ),
        (|header, _| (header.kind, header.length) = (Kind::Credit, 1), "credit for nothing"),
        (|header, id| (header.kind, header.id) = (Kind::Ack, id), "a receive is confirmed"),
        (|header, id| (header.kind, header.id) = (Kind::Pull, id), "a receive is pulled"),
        (|header, id| (header.kind, header.id) = (Kind::Pull, id + 100), "an unknown message is pulled"),
        (|header, _| header.kind = Kind::Hello, "a second greeting"),
    ];
    for (forge, what) in forgeries {
        let mut pair = Pair::new(4);
        let (sent, mut got) = (pattern(50_000), vec![0; 50_000]);
        pair.receive(0, &mut got, 5, 7);
        pair.send(1, &sent, tagged(5), 0).expect("room");
        pair.ends[0].progress();
        assert_eq!(pair.events(0), []);
        let (mut header, id) = (Header::new(Kind::Eager), pair.ends[0].last);
        forge(&mut header, id);
        let mut packet = header.to_bytes().to_vec();
        packet.extend_from_slice(&[0xee; 16]);
        pair.back.borrow_mut().push_front(packet);
        pair.ends[0].progress();
        assert_eq!(brief(&pair.events(0)), [(7, 0, libc::EPROTO)], "{what}");
    }
}

#[test]
fn strangers_of_another_host_are_not_believed() {
    let mut pair = Pair::new(4);
    let wires = [Wire::default(), Wire::default()];
    let mut hello = Header::new(Kind::Hello).to_bytes().to_vec();
    hello.extend_from_slice(&Address::new(0, "fi.end").expect("a valid name").0);
    wires[1].borrow_mut().push_back(hello);
    let link = MemoryLink::new(&wires[0], &wires[1], 4, 2);
    pair.ends[1].accepted(link);
    pair.ends[1].progress();
    assert_eq!(pair.ends[1].links.iter().flatten().count(), 1, "the stranger is gone");
}

proptest! {
    #[test]
    fn messages_arrive_once_and_in_order(
        room in 1_usize..5,
        steps in prop::collection::vec((0_usize..2, 0_usize..40_000, any::<bool>(), 1_usize..4), 1..40),
    ) {
        let mut pair = Pair::new(room);
        let (mut sent, mut posted) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        let mut buffers: Vec<Vec<u8>> = Vec::new();
        for (end, length, receives, turns) in steps {
            if receives {
                let mut buffer = vec![0; 40_000];
                let context = buffers.len();
                pair.receive(end, &mut buffer, 3, context);
                buffers.push(buffer);
                posted[end].push(context);
            } else {
                let mut bytes = pattern(length);
                bytes.iter_mut().for_each(|byte| *byte ^= sent[end].len() as u8);
                pair.send(end, &bytes, tagged(3), 1000).expect("room");
                sent[end].push(bytes);
            }
            for turn in 0..turns {
                pair.ends[(end + turn) % 2].progress();
            }
        }
        pair.run();
        for end in [0, 1] {
            let mut received = pair.events(end);
            received.retain(|event| event.side == Side::Receive);
            let expected = sent[1 - end].len().min(posted[end].len());
            prop_assert_eq!(received.len(), expected);
            received.sort_by_key(|event| event.context);
            for (event, (context, bytes)) in received.iter().zip(posted[end].iter().zip(&sent[1 - end])) {
                prop_assert_eq!((event.context, event.length, event.error), (*context, bytes.len(), 0));
                prop_assert_eq!(&buffers[*context][..bytes.len()], &bytes[..]);
            }
        }
    }

    #[test]
    fn each_operation_ends_once_on_cut_links(
        room in 1_usize..5,
        steps in prop::collection::vec((0_usize..2, 0_usize..60_000, 0_usize..4, 1_usize..4), 1..30),
    ) {
        let mut pair = Pair::new(room);
        let (mut memory, mut buffers) = (vec![0; 60_000], Vec::new());
        let (mut begun, mut posted) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for end in [0, 1] {
            let region = Region { area: area(&memory), base: 0, readable: true, writable: true };
            pair.regions[end].lock().expect("a lock").insert(Some(1), region);
        }
        for (context, (end, length, kind, turns)) in steps.into_iter().enumerate() {
            buffers.push(vec![context as u8; length]);
            let buffer = buffers.last_mut().expect("a buffer");
            let operation = Operation { context, flags: 0, report: true };
            match kind {
                0 => pair.receive(end, buffer, 3, context),
                1 => pair.send(end, buffer, Message { delivery: length % 2 == 0, ..tagged(3) }, context).expect("room"),
                2 => pair.ends[end].write(0, area(buffer), (1, 0), Message::default(), operation).expect("room"),
                _ => pair.ends[end].read(0, area(buffer), (1, 0), operation).expect("room"),
            }
            if kind == 0 { posted[end].push(context) } else { begun[end].push(context) }
            for turn in 0..turns {
                pair.ends[(end + turn) % 2].progress();
            }
        }
        pair.is_cut.set(true);
        pair.run();
        for end in [0, 1] {
            let events = pair.events(end);
            let of = |side| {
                let of_side = events.iter().filter(move |event| event.side == side && event.report);
                of_side.map(|event| event.context)
            };
            let mut ended: Vec<usize> = of(Side::Transmit).collect();
            ended.sort_unstable();
            prop_assert_eq!(&ended, &begun[end]);
            let mut received: Vec<usize> = of(Side::Receive).collect();
            for context in &posted[end] {
                // What did not end is still there, once.
                if !received.contains(context) {
                    prop_assert!(pair.ends[end].cancel(*context));
                    received.push(*context);
                }
                prop_assert!(!pair.ends[end].cancel(*context));
            }
            received.sort_unstable();
            prop_assert_eq!(&received, &posted[end]);
            prop_assert_eq!((pair.ends[end].pending.len(), pair.ends[end].peers[0].eager), (0, 0));
        }
        memory.fill(0);
    }

    #[test]
    fn hostile_packets_harm_only_their_sender(
        packets in prop::collection::vec((0_u8..10, any::<u8>(), any::<[u8; 40]>(), 0_usize..200), 1..20),
        small in any::<bool>(),
    ) {
        let mut pair = Pair::new(64);
        let (sent, mut got) = (pattern(50_000), vec![0; 50_000]);
        pair.receive(0, &mut got, 5, 1);
        pair.send(0, &sent, tagged(5), 2).expect("room");
        for (kind, flags, mut rest, length) in packets {
            if small {
                // Numbers that exist are small.
                rest.chunks_exact_mut(8).for_each(|word| word[1..].fill(0));
            }
            let mut packet = vec![kind, flags, 0, 0, 0, 0, 0, 0];
            packet.extend_from_slice(&rest);
            packet.resize(HEADER + length, 0xee);
            pair.back.borrow_mut().push_back(packet);
        }
        for _ in 0..100 {
            pair.ends[0].progress();
        }
        prop_assert!(pair.events(0).len() < 64);
    }
}
