//! Remote fetch-and-op: it passes the same checks as any packet, and its rules prevent deadlock and
//! loss.

use std::time::Duration;

use crate::support::{AREA, Host, KEY, SLOT, TestArea, Two, request};
use hamlyn_abi::family::control::ULN_REG_CONTROL;
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::{HAMLYN_ONE_SHOT_LOCKED, HamlynMetadataEntry};
use hamlyn_abi::hamlyn::request::*;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::HamlynTerminusStatus;
use hamlyn_card::card::{Card, Progress};
use hamlyn_card_hamlyn::HamlynOptions;
use zerocopy::IntoBytes;

/// A receiver whose slot allows fetch-and-op, and the sender's status words.
struct Pair {
    two: Two,
    status: u64,
}

impl Pair {
    fn new(mode: u32) -> Self {
        let mut two = Two::new(HamlynOptions::default(), mode);
        let status = two.sender.open_terminus(1);
        let (area, metadata) = (two.receiver.area(AREA, 0), two.metadata);
        let slot = slot(&area, &metadata, mode, HAMLYN_SLOT_FETCH);
        two.receiver.command(HAMLYN_COMMAND_CLOSE_SLOT, SLOT, 0_u64).unwrap();
        two.receiver.open_slot(SLOT, slot);
        two.area = area;
        Self { two, status }
    }

    /// Posts a fetch-and-op and carries packets both ways until nothing moves.
    fn fetch(&mut self, message: HamlynRequest, operand: u64, compare: u64) -> Result<u64, Statistic> {
        let before = self.status();
        self.two.sender.post(1, message, HamlynFetch { operand, compare }.as_bytes());
        self.carry();
        let after = self.status();
        assert_eq!(after.completed, before.completed + 1, "it is not finished with");
        let entry = (before.completed % 64) as usize;
        match after.reasons[entry] {
            0 => Ok(after.fetched[entry]),
            reason => Err(Statistic::from_number(reason).unwrap()),
        }
    }

    fn carry(&mut self) {
        let Two { sender, receiver, .. } = &mut self.two;
        loop {
            sender.transmit_all();
            receiver.transmit_all();
            let (there, back) =
                (std::mem::take(&mut sender.wire.sent), std::mem::take(&mut receiver.wire.sent));
            if there.is_empty() && back.is_empty() {
                return;
            }
            there.into_iter().for_each(|(_, bytes)| receiver.deliver(0, bytes));
            back.into_iter().for_each(|(_, bytes)| sender.deliver(1, bytes));
        }
    }

    fn status(&self) -> HamlynTerminusStatus {
        self.two.sender.read(self.status)
    }

    fn word(&self) -> u64 {
        u64::from_le_bytes(self.two.receiver.peek(&self.two.area, 8, 8).try_into().unwrap())
    }
}

fn slot(area: &TestArea, metadata: &TestArea, mode: u32, flags: u32) -> HamlynOpenSlot {
    HamlynOpenSlot {
        area: area.abi,
        metadata: metadata.abi,
        key: KEY,
        metadata_entries: 4,
        mode,
        queue: 0,
        flags,
        ..Default::default()
    }
}

fn fetch(operation: u32) -> HamlynRequest {
    HamlynRequest { flags: HAMLYN_REQUEST_FETCH, operation, ..request(8, 16) }
}

#[test]
fn each_operation_returns_previous_value() {
    let mut pair = Pair::new(HAMLYN_MODE_NORMAL);
    pair.two.receiver.poke(&pair.two.area, 0, &[0xee; 24]);
    pair.two.receiver.poke(&pair.two.area, 8, &10_u64.to_le_bytes());
    for (operation, operand, compare, found, left) in [
        (HAMLYN_FETCH_ADD, 5, 0, 10, 15),
        (HAMLYN_FETCH_ADD, u64::MAX, 0, 15, 14),
        (HAMLYN_FETCH_AND, 6, 0, 14, 6),
        (HAMLYN_FETCH_OR, 9, 0, 6, 15),
        (HAMLYN_FETCH_XOR, 1 << 63, 0, 15, 1 << 63 | 15),
        (HAMLYN_FETCH_SWAP, 7, 0, 1 << 63 | 15, 7),
        (HAMLYN_FETCH_COMPARE_SWAP, 8, 6, 7, 7),
        (HAMLYN_FETCH_COMPARE_SWAP, 8, 7, 7, 8),
    ] {
        assert_eq!(pair.fetch(fetch(operation), operand, compare), Ok(found), "operation {operation}");
        assert_eq!(pair.word(), left, "operation {operation}");
    }
    let neighbours =
        [pair.two.receiver.peek(&pair.two.area, 0, 8), pair.two.receiver.peek(&pair.two.area, 16, 8)];
    assert_eq!(neighbours.concat(), [0xee; 16]);
    // No notification is made, and no message has arrived.
    assert_eq!(pair.two.receiver.receive(0), None);
    assert_eq!(pair.two.receiver.counter(Statistic::MessagesReceived), 0);
    assert_eq!(pair.two.receiver.counter(Statistic::Fetches), 8);
    assert_eq!(pair.two.sender.counter(Statistic::Answers), 8);
}

#[test]
fn refused_fetch_changes_nothing_and_is_answered() {
    let odd = HamlynMetadataEntry { key: 9, low: 0, high: 12, ..zerocopy::FromZeros::new_zeroed() };
    let cases = [
        (HAMLYN_MODE_NORMAL, HamlynRequest { key: 1, ..fetch(1) }, Statistic::RefusedKey),
        (HAMLYN_MODE_NORMAL, HamlynRequest { slot: 2, ..fetch(1) }, Statistic::RefusedClosedSlot),
        (HAMLYN_MODE_NORMAL, HamlynRequest { slot: 99_999, ..fetch(1) }, Statistic::RefusedSlot),
        (HAMLYN_MODE_NORMAL, HamlynRequest { offset: 65536, ..fetch(1) }, Statistic::RefusedBounds),
        (
            HAMLYN_MODE_NORMAL,
            HamlynRequest { metadata_index: 4, ..fetch(1) },
            Statistic::RefusedMetadataIndex,
        ),
        (HAMLYN_MODE_PARANOID, fetch(1), Statistic::RefusedParanoidKey),
        (HAMLYN_MODE_PARANOID, HamlynRequest { key: 9, ..fetch(1) }, Statistic::RefusedParanoidBounds),
        (
            HAMLYN_MODE_PARANOID,
            HamlynRequest { metadata_index: HAMLYN_FAST_MODE, ..fetch(1) },
            Statistic::RefusedFastParanoid,
        ),
        (
            HAMLYN_MODE_PARANOID_ONE_SHOT,
            HamlynRequest { key: 9, offset: 0, ..fetch(1) },
            Statistic::RefusedOneShot,
        ),
    ];
    for (mode, message, reason) in cases {
        let mut pair = Pair::new(mode);
        pair.two.set_entry(0, HamlynMetadataEntry { one_shot: HAMLYN_ONE_SHOT_LOCKED, ..odd });
        let before = pair.two.receiver.memory_image();
        assert_eq!(pair.fetch(message, 1, 0), Err(Statistic::RefusedByDestination), "{message:?}");
        assert_eq!(pair.two.receiver.counter(reason), 1, "{message:?}");
        assert!(pair.two.receiver.memory_image() == before, "{message:?}");
    }
}

#[test]
fn last_word_of_area_can_be_fetched() {
    let mut pair = Pair::new(HAMLYN_MODE_NORMAL);
    // Sixteen bytes travel, but only eight are accessed.
    assert_eq!(pair.fetch(HamlynRequest { offset: 65528, ..fetch(1) }, 1, 0), Ok(0));
    assert_eq!(pair.fetch(HamlynRequest { offset: 65528, ..fetch(1) }, 1, 0), Ok(1));
}

#[test]
fn fetch_needs_permission_and_aligned_address() {
    let mut pair = Pair::new(HAMLYN_MODE_NORMAL);
    for (number, first, flags, reason) in [
        (1, 0, HAMLYN_SLOT_INTERRUPT, Statistic::RefusedFetch),
        (2, 4, HAMLYN_SLOT_FETCH, Statistic::RefusedFetchAddress),
    ] {
        let area = pair.two.receiver.area(AREA, first);
        let slot = slot(&area, &pair.two.metadata, HAMLYN_MODE_NORMAL, flags);
        pair.two.receiver.open_slot(number, slot);
        let message = HamlynRequest { slot: number, ..fetch(1) };
        assert_eq!(pair.fetch(message, 1, 0), Err(Statistic::RefusedByDestination));
        assert_eq!(pair.two.receiver.counter(reason), 1);
    }
}

#[test]
fn fetch_leaves_one_shot_entry_open() {
    let mut pair = Pair::new(HAMLYN_MODE_PARANOID_ONE_SHOT);
    let entry = HamlynMetadataEntry { key: 9, low: 8, high: 16, ..zerocopy::FromZeros::new_zeroed() };
    pair.two.set_entry(0, entry);
    assert_eq!(pair.fetch(HamlynRequest { key: 9, ..fetch(1) }, 1, 0), Ok(0));
    assert_eq!(pair.two.entry(0), entry);
}

#[test]
fn invalid_fetch_is_refused_by_its_sender() {
    for message in [
        fetch(0),
        fetch(7),
        HamlynRequest { length: 8, ..fetch(1) },
        HamlynRequest { length: 17, ..fetch(1) },
        HamlynRequest { offset: 4, ..fetch(1) },
        HamlynRequest { delta: 1, ..fetch(1) },
        HamlynRequest { metadata_length: 4, ..fetch(1) },
        HamlynRequest { flags: HAMLYN_REQUEST_FETCH | HAMLYN_REQUEST_SILENT, ..fetch(1) },
    ] {
        let mut pair = Pair::new(HAMLYN_MODE_NORMAL);
        assert_eq!(pair.fetch(message, 1, 0), Err(Statistic::RefusedOperation), "{message:?}");
        assert_eq!(pair.two.sender.counter(Statistic::PacketsSent), 0);
    }
}

#[test]
fn fetch_delays_only_its_own_terminus() {
    let mut pair = Pair::new(HAMLYN_MODE_NORMAL);
    let sender = &mut pair.two.sender;
    sender.post(1, fetch(HAMLYN_FETCH_ADD), HamlynFetch { operand: 1, compare: 0 }.as_bytes());
    sender.post(1, request(100, 4), b"next");
    assert_eq!(sender.transmit_all(), Progress::Idle);
    assert_eq!(sender.wire.sent.len(), 1);
    sender.post(0, request(200, 5), b"other");
    sender.transmit_all();
    assert_eq!(sender.wire.sent.len(), 2);
    pair.carry();
    assert_eq!(pair.two.receiver.peek(&pair.two.area, 100, 4), b"next");
    assert_eq!(pair.status().completed, 2);
}

#[test]
fn answer_is_accepted_once_from_asked_host() {
    let mut pair = Pair::new(HAMLYN_MODE_NORMAL);
    let Two { sender, receiver, .. } = &mut pair.two;
    sender.post(1, fetch(HAMLYN_FETCH_ADD), HamlynFetch { operand: 1, compare: 0 }.as_bytes());
    sender.transmit_all();
    let (_, question) = sender.wire.sent.pop().unwrap();
    receiver.deliver(0, question);
    receiver.transmit_all();
    let (to, answer) = receiver.wire.sent.pop().unwrap();
    assert_eq!(to, 0);
    // Another host that has guessed the number.
    sender.deliver(2, answer.clone());
    let mut other = answer.clone();
    other[24] ^= 1;
    sender.deliver(1, other);
    assert_eq!(sender.counter(Statistic::RefusedAnswer), 2);
    assert_eq!(sender.read::<HamlynTerminusStatus>(pair.status).completed, 0);
    sender.deliver(1, answer.clone());
    assert_eq!(sender.read::<HamlynTerminusStatus>(pair.status).completed, 1);
    sender.deliver(1, answer);
    assert_eq!(sender.counter(Statistic::RefusedAnswer), 3);
}

#[test]
fn answer_from_before_reset_is_refused() {
    let mut pair = Pair::new(HAMLYN_MODE_NORMAL);
    let sender = &mut pair.two.sender;
    let ask = |sender: &mut Host| {
        sender.post(1, fetch(HAMLYN_FETCH_ADD), HamlynFetch { operand: 1, compare: 0 }.as_bytes());
        sender.transmit_all();
        sender.wire.sent.pop().unwrap().1
    };
    let first = ask(sender);
    pair.two.receiver.deliver(0, first);
    sender.pass(Duration::from_secs(1));
    sender.with_card(|card, ports, _| card.reset(ports));
    sender.write_register(hamlyn_abi::family::command::ULN_REG_COMMAND_PAGE, 8, 4096);
    sender.write_register(ULN_REG_CONTROL, 4, 1);
    sender.open_terminus(1);
    ask(sender);
    pair.two.receiver.transmit_all();
    let (_, late) = pair.two.receiver.wire.sent.pop().unwrap();
    sender.deliver(1, late);
    assert_eq!(sender.counter(Statistic::RefusedAnswer), 1);
    assert_eq!(sender.counter(Statistic::Answers), 0);
}

#[test]
fn unanswered_fetch_times_out() {
    let mut pair = Pair::new(HAMLYN_MODE_NORMAL);
    let sender = &mut pair.two.sender;
    sender.post(1, fetch(HAMLYN_FETCH_ADD), HamlynFetch { operand: 1, compare: 0 }.as_bytes());
    sender.post(1, request(100, 4), b"next");
    sender.transmit_all();
    assert_eq!(sender.wire.sent.len(), 1);
    sender.pass(Duration::from_millis(9_999));
    assert_eq!(sender.read::<HamlynTerminusStatus>(pair.status).completed, 0);
    sender.pass(Duration::from_millis(1));
    let status: HamlynTerminusStatus = sender.read(pair.status);
    assert_eq!((status.completed, status.refused), (1, 1));
    assert_eq!(status.reasons[0], Statistic::RefusedUnanswered as u32);
    sender.transmit_all();
    assert_eq!(sender.wire.sent.len(), 2);
}

#[test]
fn closed_terminus_waits_for_no_answer() {
    let mut pair = Pair::new(HAMLYN_MODE_NORMAL);
    pair.two.sender.post(1, fetch(HAMLYN_FETCH_ADD), HamlynFetch { operand: 1, compare: 0 }.as_bytes());
    pair.two.sender.transmit_all();
    pair.two.sender.command(HAMLYN_COMMAND_CLOSE_TERMINUS, 1, 0_u64).unwrap();
    assert_eq!(pair.two.sender.counter(Statistic::Abandoned), 1);
    pair.two.sender.open_terminus(1);
    pair.carry();
    assert_eq!(pair.two.sender.counter(Statistic::RefusedAnswer), 1);
    // Only the handshake timer is left.
    pair.two.sender.write_register(ULN_REG_CONTROL, 4, 0);
    assert_eq!(pair.two.sender.card.alarm(), None);
}

#[test]
fn blocked_answers_are_kept_and_bounded() {
    let mut pair = Pair::new(HAMLYN_MODE_NORMAL);
    let Two { sender, receiver, .. } = &mut pair.two;
    sender.post(1, fetch(HAMLYN_FETCH_ADD), HamlynFetch { operand: 1, compare: 0 }.as_bytes());
    sender.transmit_all();
    let (_, question) = sender.wire.sent.pop().unwrap();
    receiver.wire.room = Some(0);
    for _ in 0..1030 {
        receiver.deliver(0, question.clone());
    }
    // A host that asks too much does not affect another host.
    receiver.deliver(5, question);
    assert_eq!(receiver.counter(Statistic::RefusedFetchOverrun), 6);
    assert_eq!(receiver.counter(Statistic::Fetches), 1025);
    assert_eq!(receiver.transmit_all(), Progress::LinkFull);
    assert!(!receiver.with_card(|card, ports, _| card.sleep(ports)), "it owes answers");
    receiver.wire.room = None;
    assert_eq!(receiver.transmit_all(), Progress::Idle);
    assert_eq!(receiver.wire.sent.len(), 1025);
    assert_eq!(receiver.wire.sent[1].0, 5, "each asker has its turn");
}

#[test]
fn answers_and_messages_take_turns() {
    let mut pair = Pair::new(HAMLYN_MODE_NORMAL);
    let Two { sender, receiver, .. } = &mut pair.two;
    sender.post(1, fetch(HAMLYN_FETCH_ADD), HamlynFetch { operand: 1, compare: 0 }.as_bytes());
    sender.transmit_all();
    let (_, question) = sender.wire.sent.pop().unwrap();
    for _ in 0..10 {
        receiver.deliver(0, question.clone());
    }
    receiver.open_terminus(0);
    for _ in 0..10 {
        receiver.post(0, HamlynRequest { destination: 0, ..request(0, 4) }, b"data");
    }
    receiver.transmit_all();
    let answers: Vec<bool> = receiver.wire.sent.iter().map(|(_, bytes)| bytes[32] == 8).collect();
    assert_eq!(answers.len(), 20);
    assert!(answers.chunks(2).all(|turn| turn == [true, false]), "{answers:?}");
}
