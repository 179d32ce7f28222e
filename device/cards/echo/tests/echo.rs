//! Tests of the card alone, on a host in memory.

use std::ops::{Deref, DerefMut};

use hamlyn_abi::echo::command::*;
use hamlyn_abi::echo::inbox::ECHO_RECORD_SIZE;
use hamlyn_abi::echo::registers::ECHO_SYSTEM_MAILBOX;
use hamlyn_abi::echo::window::*;
use hamlyn_abi::family::command::*;
use hamlyn_abi::family::control::{ULN_CONTROL_RESET, ULN_REG_CONTROL};
use hamlyn_abi::family::sleep::{ULN_ARMED_FIRED, ULN_ARMED_STRIDE, ULN_ARMED_YES};
use hamlyn_card::card::{Card, Progress};
use hamlyn_card::ports::{VolatileSlice, Window};
use hamlyn_card_echo::EchoCard;
use hamlyn_test_host::{Commands, list_pages};

const MAILBOXES: u32 = 4;
const RECORDS: u32 = 4;

struct Host(hamlyn_test_host::Host<EchoCard>);

impl Deref for Host {
    type Target = hamlyn_test_host::Host<EchoCard>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Host {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Host {
    fn new() -> Self {
        Self(hamlyn_test_host::Host::new(0, EchoCard::new(MAILBOXES, 0)).unwrap())
    }

    fn body(&self, records: u32) -> EchoOpenMailbox {
        let page = || self.pages(1);
        let length = u64::from(records * ECHO_RECORD_SIZE);
        EchoOpenMailbox {
            inbox: list_pages(length, 0, page, |_| page(), |at, bytes| self.put(at, bytes)),
            records,
            reserved: 0,
        }
    }

    /// Opens a mailbox. Returns the address of its inbox, which is one page.
    fn open(&mut self, index: u32) -> u64 {
        let body = self.body(RECORDS);
        self.run(ECHO_COMMAND_OPEN_MAILBOX, index, &body).unwrap();
        self.pages(0) - 4096
    }

    fn word(&self, mailbox: u32, word: u32) -> u32 {
        self.window.load((mailbox * ECHO_OUTBOX_SIZE + word).into())
    }

    fn set(&self, mailbox: u32, word: u32, value: u32) {
        self.window.store((mailbox * ECHO_OUTBOX_SIZE + word).into(), value);
    }

    /// Fills in an outbox and rings its doorbell.
    fn ring(&mut self, mailbox: u32, to: (u32, u32), length: u32, data: &[u8]) {
        self.set(mailbox, ECHO_OUTBOX_DESTINATION, to.0);
        self.set(mailbox, ECHO_OUTBOX_MAILBOX, to.1);
        self.set(mailbox, ECHO_OUTBOX_LENGTH, length);
        self.window.put((mailbox * ECHO_OUTBOX_SIZE + ECHO_OUTBOX_DATA).into(), data);
        self.with_card(|card, ports, _| {
            card.register_write(ports, 4, (mailbox * ECHO_DOORBELL_SIZE).into(), 4, 1)
        });
    }

    fn arrive(&mut self, source: u16, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        self.deliver(source, &[VolatileSlice::from(&mut bytes[..])]);
    }

    fn counter(&self, name: &str) -> u64 {
        self.counted(name).unwrap()
    }

    fn bytes(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.get(address, &mut bytes);
        bytes
    }
}

fn packet(to: u32, from: u32, data: &[u8]) -> Vec<u8> {
    packet_with(0, to, from, data)
}

fn packet_with(key: u64, to: u32, from: u32, data: &[u8]) -> Vec<u8> {
    [&to.to_le_bytes(), &from.to_le_bytes(), &key.to_le_bytes()[..], data].concat()
}

/// Stores a key to two words of an outbox.
fn set_key(host: &Host, mailbox: u32, word: u32, key: u64) {
    host.set(mailbox, word, key as u32);
    host.set(mailbox, word + 4, (key >> 32) as u32);
}

#[test]
fn mailbox_takes_only_messages_with_its_key() {
    let key = 0x0123_4567_89ab_cdef;
    let mut host = Host::new();
    let inbox = host.open(1);
    set_key(&host, 1, ECHO_OUTBOX_LOCK, key);
    for wrong in [0, key & 0xffff_ffff, key & !0xffff_ffff, key + 1] {
        host.arrive(9, &packet_with(wrong, 1, 5, b"x"));
    }
    assert_eq!((host.counter("refused"), host.bytes(inbox, 4096)), (4, vec![0; 4096]));
    host.arrive(9, &packet_with(key, 1, 5, b"x"));
    assert_eq!((host.counter("refused"), host.counter("messages_received")), (4, 1));
    // A message carries the key that its sender stored before it rang.
    set_key(&host, 1, ECHO_OUTBOX_KEY, key);
    host.ring(1, (7, 3), 1, b"y");
    set_key(&host, 1, ECHO_OUTBOX_KEY, 0);
    assert_eq!(host.transmit(), Progress::Worked);
    assert_eq!(host.wire.sent, [(7, packet_with(key, 3, 1, b"y"))]);
}

#[test]
fn only_operating_systems_reach_each_other() {
    let mut host = Host::new();
    host.open(ECHO_SYSTEM_MAILBOX);
    host.open(1);
    host.arrive(9, &packet(ECHO_SYSTEM_MAILBOX, 1, b"of a process"));
    host.arrive(9, &packet(ECHO_SYSTEM_MAILBOX, u32::MAX, b"of nothing"));
    assert_eq!((host.counter("refused"), host.counter("messages_received")), (2, 0));
    host.arrive(9, &packet(ECHO_SYSTEM_MAILBOX, ECHO_SYSTEM_MAILBOX, b"of another"));
    assert_eq!((host.counter("refused"), host.counter("messages_received")), (2, 1));
}

#[test]
fn message_is_copied_when_doorbell_rings() {
    let mut host = Host::new();
    host.open(2);
    host.ring(2, (7, 3), 5, b"hello");
    assert_eq!(host.word(2, ECHO_OUTBOX_SENT), 0, "it has not gone yet");
    // Later writes of the owner belong to another message.
    host.set(2, ECHO_OUTBOX_DESTINATION, 1);
    host.window.put((2 * ECHO_OUTBOX_SIZE + ECHO_OUTBOX_DATA).into(), b"HELLO");
    assert_eq!((host.transmit(), host.transmit()), (Progress::Worked, Progress::Idle));
    assert_eq!(host.wire.sent, [(7, packet(3, 2, b"hello"))]);
    assert_eq!((host.word(2, ECHO_OUTBOX_SENT), host.word(2, ECHO_OUTBOX_RESULT)), (1, ECHO_RESULT_SENT));
}

#[test]
fn invalid_outbox_is_answered_and_not_sent() {
    let mut host = Host::new();
    host.open(0);
    for (count, (to, length, result)) in (1..).zip([
        ((1, 0), ECHO_MAX_MESSAGE + 1, ECHO_RESULT_BAD_LENGTH),
        ((1 << 16, 0), 1, ECHO_RESULT_BAD_HOST),
    ]) {
        host.ring(0, to, length, b"");
        assert_eq!((host.word(0, ECHO_OUTBOX_SENT), host.word(0, ECHO_OUTBOX_RESULT)), (count, result));
        assert_eq!((host.transmit(), host.counter("refused_messages")), (Progress::Idle, count.into()));
    }
    host.ring(0, (1, 0), ECHO_MAX_MESSAGE, b"");
    assert_eq!(host.transmit(), Progress::Worked);
}

#[test]
fn refused_rings_are_counted() {
    let mut host = Host::new();
    host.open(0);
    host.ring(0, (1, 0), 1, b"a");
    host.ring(0, (1, 0), 1, b"b");
    host.ring(1, (1, 0), 1, b"c");
    host.ring(MAILBOXES - 1, (1, 0), 1, b"d");
    assert_eq!(host.counter("refused_rings"), 3);
    while host.transmit() == Progress::Worked {}
    assert_eq!(host.wire.sent, [(1, packet(0, 0, b"a"))]);
    assert_eq!(host.word(0, ECHO_OUTBOX_SENT), 1);
}

#[test]
fn stopped_destination_does_not_block_other_mailboxes() {
    let mut host = Host::new();
    for mailbox in 0..3 {
        host.open(mailbox);
        host.ring(mailbox, (mailbox, 0), 1, b"x");
    }
    host.wire.stopped = vec![0];
    assert_eq!([(); 3].map(|()| host.transmit()), [Progress::Worked, Progress::Worked, Progress::LinkFull]);
    host.wire.stopped.clear();
    assert_eq!((host.transmit(), host.transmit()), (Progress::Worked, Progress::Idle));
    let order: Vec<u16> = host.wire.sent.iter().map(|(host, _)| *host).collect();
    assert_eq!(order, [1, 2, 0]);
}

#[test]
fn busy_mailbox_does_not_starve_others() {
    let mut host = Host::new();
    for mailbox in 0..3 {
        host.open(mailbox);
        host.ring(mailbox, (mailbox, 0), 1, b"x");
    }
    for mailbox in 0..3 {
        assert_eq!(host.transmit(), Progress::Worked);
        host.ring(mailbox, (mailbox, 0), 1, b"y");
    }
    let order: Vec<u16> = host.wire.sent.iter().map(|(host, _)| *host).collect();
    assert_eq!(order, [0, 1, 2]);
}

#[test]
fn messages_are_deposited_until_inbox_is_full() {
    let mut host = Host::new();
    let inbox = host.open(1);
    for number in 0..6 {
        host.arrive(9, &packet(1, 5, &[number; 3]));
    }
    assert_eq!((host.counter("messages_received"), host.counter("inbox_full")), (4, 2));
    let record =
        |number: u32, byte| [&[number, 9, 5, 3].map(u32::to_le_bytes).concat()[..], &[byte; 3]].concat();
    assert_eq!(host.bytes(inbox, 19), record(1, 0));
    assert_eq!(host.bytes(inbox + 3 * u64::from(ECHO_RECORD_SIZE), 19), record(4, 3));
    // Only the first record is free again.
    host.set(1, ECHO_OUTBOX_TAKEN, 1);
    for number in 6..8 {
        host.arrive(9, &packet(1, 5, &[number; 3]));
    }
    assert_eq!((host.bytes(inbox, 19), host.counter("inbox_full")), (record(5, 6), 3));
    // An owner that claims to have taken more than arrived has no room.
    host.set(1, ECHO_OUTBOX_TAKEN, 77);
    host.arrive(9, &packet(1, 5, b"abc"));
    assert_eq!(host.counter("inbox_full"), 4);
}

#[test]
fn invalid_or_misaddressed_packets_change_nothing() {
    let mut host = Host::new();
    let inbox = host.open(1);
    let too_long = packet(1, 0, &[1; ECHO_MAX_MESSAGE as usize + 1]);
    for bytes in [&b""[..], &[1; 7], &too_long] {
        host.arrive(3, bytes);
    }
    assert_eq!(host.counter("discarded"), 3);
    for mailbox in [0, MAILBOXES, u32::MAX] {
        host.arrive(3, &packet(mailbox, 0, b"x"));
    }
    assert_eq!(host.counter("no_mailbox"), 3);
    let Ok(()) = host.store(ULN_REG_CONTROL, 4, 0);
    host.arrive(3, &packet(1, 0, b"x"));
    assert_eq!((host.counter("discarded"), host.counter("messages_received")), (4, 0));
    assert_eq!(host.bytes(inbox, 4096), [0; 4096]);
}

#[test]
fn sleeper_is_woken_once() {
    let mut host = Host::new();
    host.open(3);
    let armed = u64::from(MAILBOXES * ECHO_OUTBOX_SIZE + ECHO_CONTROL_ARMED + 3 * ULN_ARMED_STRIDE);
    host.arrive(1, &packet(3, 0, b"awake before"));
    assert!(host.interrupts.0.borrow().is_empty());
    host.window.store(armed, ULN_ARMED_YES);
    host.arrive(1, &packet(3, 0, b"wakes"));
    host.arrive(1, &packet(3, 0, b"is awake"));
    assert_eq!((host.window.load(armed), host.interrupts.0.borrow().clone()), (ULN_ARMED_FIRED, vec![1]));
    // The first interrupt has not been handled yet: its handler will find this message as well.
    host.window.store(armed, ULN_ARMED_YES);
    host.arrive(1, &packet(3, 0, b"wakes"));
    assert_eq!((host.interrupts.0.borrow().len(), host.counter("interrupts_coalesced")), (1, 1));
}

#[test]
fn refused_command_changes_nothing() {
    let mut host = Host::new();
    let good = host.body(RECORDS);
    let (open, close) = (ECHO_COMMAND_OPEN_MAILBOX, ECHO_COMMAND_CLOSE_MAILBOX);
    let body = |change: &dyn Fn(&mut EchoOpenMailbox)| {
        let mut body = good;
        change(&mut body);
        body
    };
    let not_aligned = body(&|body| body.inbox.first = 8);
    let cases = [
        (77, 0, good, ULN_STATUS_BAD_OPCODE, 77),
        (open, MAILBOXES, good, ULN_STATUS_BAD_INDEX, MAILBOXES.into()),
        (close, 0, good, ULN_STATUS_NOT_OPEN, 0),
        (open, 0, body(&|body| body.records = 2), ULN_STATUS_BAD_LENGTH, 2),
        (open, 0, body(&|body| body.records = 6), ULN_STATUS_BAD_LENGTH, 6),
        (open, 0, body(&|body| body.records = 8), ULN_STATUS_BAD_LENGTH, 4096),
        (open, 0, body(&|body| body.reserved = 9), ULN_STATUS_BAD_VALUE, 9),
        (open, 0, not_aligned, ULN_STATUS_BAD_ADDRESS, 8),
    ];
    let count = cases.len() as u64;
    for (opcode, index, body, status, value) in cases {
        let refusal = host.run(opcode, index, &body).unwrap_err();
        assert_eq!((refusal.status, refusal.value), (status, value), "{opcode} {index} {body:?}");
    }
    assert_eq!((host.counter("commands"), host.counter("commands_refused")), (0, count));
    host.run(open, 0, &good).unwrap();
    assert_eq!(host.run(open, 0, &good).unwrap_err().status, ULN_STATUS_IN_USE);
    host.run(close, 0, &good).unwrap();
}

#[test]
fn close_and_reset_leave_no_state() {
    let mut host = Host::new();
    let inbox = host.open(0);
    host.ring(0, (1, 0), 1, b"x");
    let body = host.body(RECORDS);
    host.run(ECHO_COMMAND_CLOSE_MAILBOX, 0, &body).unwrap();
    assert_eq!(host.transmit(), Progress::Idle);
    host.arrive(1, &packet(0, 0, b"x"));
    assert_eq!((host.bytes(inbox, 32), host.counter("no_mailbox")), (vec![0; 32], 1));
    host.open(0);
    host.ring(0, (1, 0), 1, b"x");
    let Ok(()) = host.store(ULN_REG_CONTROL, 4, ULN_CONTROL_RESET.into());
    assert!(!host.card.is_enabled() && host.card.counters().iter().all(|(_, count)| *count == 0));
    assert_eq!((host.transmit(), host.word(0, ECHO_OUTBOX_LENGTH)), (Progress::Idle, 0));
}

#[test]
fn first_mailbox_has_turn_after_reset() {
    let first = |host: &mut Host| {
        for mailbox in 0..2 {
            host.open(mailbox);
            host.ring(mailbox, (mailbox, 0), 1, b"x");
        }
        host.wire.sent.clear();
        assert_eq!(host.transmit(), Progress::Worked);
        host.wire.sent[0].0
    };
    let mut host = Host::new();
    assert_eq!(first(&mut host), 0);
    let Ok(()) = host.store(ULN_REG_CONTROL, 4, ULN_CONTROL_RESET.into());
    let Ok(()) = host.enable();
    assert_eq!(first(&mut host), 0);
}
