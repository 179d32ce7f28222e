//! The owner of a mailbox: it rings, takes messages, and sleeps.

use std::collections::VecDeque;

use hamlyn_abi::echo::inbox::ECHO_RECORD_SIZE;
use hamlyn_abi::echo::registers::ECHO_SYSTEM_MAILBOX;
use hamlyn_abi::echo::statistics::EchoStatistic;
use hamlyn_abi::echo::window::*;

use crate::engine::memory::Write;
use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};

use super::machine::{Inbox, Machine};
use super::post::{HEADER, Letter, from, key, packet};

/// A message in an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Deposited {
    source: u32,
    mailbox: u32,
    data: Vec<u8>,
}

/// A message to send.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) destination: u32,
    pub(super) to: u32,
    pub(super) key: u64,
    pub(super) data: Vec<u8>,
}

/// An owner.
#[derive(Debug, Default)]
pub(super) struct Owner {
    mailbox: u32,
    /// The key of messages to the mailbox; 0: none.
    lock: u64,
    /// Number of rings, modulo 2^32.
    rung: u32,
    /// Numbers of messages deposited and taken, modulo 2^32.
    arrived: u32,
    taken: u32,
    /// Messages in the inbox.
    inbox: VecDeque<Deposited>,
    plans: VecDeque<Plan>,
    /// The message that the card has yet to send.
    rung_for: Option<Letter>,
    asleep: bool,
}

impl Owner {
    /// Creates the owner of a mailbox, which gets it without any state of an owner that has died.
    pub(super) fn new(machine: &Machine, mailbox: u32, records: u32, lock: u64) -> Result<Self, Violation> {
        if machine.inbox(mailbox).is_some() {
            machine.close(mailbox)?;
        }
        machine.arm(mailbox, false);
        machine.open(mailbox, records)?;
        machine.set_key(mailbox, ECHO_OUTBOX_LOCK, lock);
        Ok(Self { mailbox, lock, ..Self::default() })
    }

    pub(super) fn mailbox(&self) -> u32 {
        self.mailbox
    }

    /// Returns whether the mailbox accepts this packet, apart from its room.
    pub(super) fn admits(&self, packet: &[u8]) -> bool {
        let is_process = self.mailbox == ECHO_SYSTEM_MAILBOX && from(packet) != ECHO_SYSTEM_MAILBOX;
        !is_process && (self.lock == 0 || self.lock == key(packet))
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.asleep
    }

    pub(super) fn plan(&mut self, plan: Plan) {
        self.plans.push_back(plan);
    }

    /// Fills in the next message and rings, if the card has completed the last one. Returns whether
    /// it rang.
    pub(super) fn ring(&mut self, machine: &Machine, rng: &mut Rng) -> Result<bool, Violation> {
        let (host, number) = (machine.id, self.mailbox);
        if self.rung_for.is_some() {
            return Ok(false);
        }
        let Some(Plan { destination, to, key, data }) = self.plans.pop_front() else { return Ok(false) };
        let length = data.len() as u32;
        for (word, value) in
            [(ECHO_OUTBOX_DESTINATION, destination), (ECHO_OUTBOX_MAILBOX, to), (ECHO_OUTBOX_LENGTH, length)]
        {
            machine.set_word(number, word, value);
        }
        machine.set_key(number, ECHO_OUTBOX_KEY, key);
        let start = u64::from(number * ECHO_OUTBOX_SIZE + ECHO_OUTBOX_DATA);
        let room = data.len().min((ECHO_OUTBOX_SIZE - ECHO_OUTBOX_DATA) as usize);
        machine.window().poke(start, &data[..room]);
        machine.ring(number)?;
        let result = match u16::try_from(destination) {
            Err(_) => Err(ECHO_RESULT_BAD_HOST),
            Ok(_) if length > ECHO_MAX_MESSAGE => Err(ECHO_RESULT_BAD_LENGTH),
            Ok(destination) => Ok(destination),
        };
        let before = self.rung;
        self.rung = self.rung.wrapping_add(1);
        let (expected, sent) = match result {
            Err(result) => (self.rung, Some(result)),
            Ok(destination) => {
                let packet = packet(to, number, key, &data);
                self.rung_for = Some(Letter { source: host, destination, packet, excused: false });
                (before, None)
            }
        };
        let said = (machine.word(number, ECHO_OUTBOX_SENT), machine.word(number, ECHO_OUTBOX_RESULT));
        ensure(said.0 == expected && sent.is_none_or(|result| result == said.1), || {
            format!(
                "host {host}: mailbox {number} says {said:?} after ring {before} for {length} bytes to {destination}"
            )
        })?;
        // Later writes of the owner to the outbox must have no effect.
        if rng.percent(30) {
            let scribble = rng.bytes(16);
            machine.window().poke(u64::from(number * ECHO_OUTBOX_SIZE), &scribble[..12]);
            machine.window().poke(start, &scribble);
            machine.set_key(number, ECHO_OUTBOX_KEY, rng.next());
        }
        Ok(true)
    }

    /// Rings again while the card still has the last message. The card must count this ring and
    /// ignore it.
    pub(super) fn ring_again(&self, machine: &Machine) -> Result<(), Violation> {
        if self.rung_for.is_none() {
            return Ok(());
        }
        let refused = || machine.counters()[usize::from(EchoStatistic::RefusedRings)];
        let before = refused();
        machine.ring(self.mailbox)?;
        ensure(refused() == before + 1, || format!("host {}: a ring too many is not counted", machine.id))
    }

    /// Checks a packet that has left the card: it must be the one that was rung for.
    pub(super) fn note_sent(
        &mut self,
        machine: &Machine,
        destination: u16,
        packet: &[u8],
    ) -> Result<Letter, Violation> {
        let (host, number) = (machine.id, self.mailbox);
        let letter = self.rung_for.take();
        let letter = letter.filter(|letter| letter.destination == destination && letter.packet == packet);
        let said = (machine.word(number, ECHO_OUTBOX_SENT), machine.word(number, ECHO_OUTBOX_RESULT));
        ensure(said == (self.rung, ECHO_RESULT_SENT), || {
            format!("host {host}: mailbox {number} says {said:?} of what was sent")
        })?;
        letter.ok_or_else(|| {
            Violation::new(format!("host {host}: mailbox {number} sent what was not rung for"))
        })
    }

    /// Takes the next message. Returns whether there was one.
    pub(super) fn take_next(&mut self, machine: &Machine) -> Result<bool, Violation> {
        let host = machine.id;
        let Some(inbox) = machine.inbox(self.mailbox) else { return Ok(false) };
        let place = u64::from((self.taken % inbox.records) * ECHO_RECORD_SIZE);
        let word = |at| machine.memory.peek_u32(inbox.area.address(place + at));
        let next = self.taken.wrapping_add(1);
        let Some(expected) = self.inbox.pop_front() else {
            return ensure(word(0) != next, || format!("host {host}: message {next} that never came"))
                .map(|()| false);
        };
        let data = inbox.area.peek(&machine.memory, place + 16, word(12).into());
        let found = Deposited { source: word(4), mailbox: word(8), data };
        ensure(word(0) == next && found == expected, || {
            format!("host {host}: message {next} has changed since it came")
        })?;
        self.taken = next;
        machine.set_word(self.mailbox, ECHO_OUTBOX_TAKEN, next);
        Ok(true)
    }

    /// Sleeps until there is a message, unless there is one now.
    pub(super) fn sleep(&mut self, machine: &Machine) {
        machine.arm(self.mailbox, true);
        self.asleep = self.inbox.is_empty();
        if !self.asleep {
            machine.arm(self.mailbox, false);
        }
    }

    /// Wakes up, for the driver.
    pub(super) fn wake(&mut self, machine: &Machine) {
        machine.arm(self.mailbox, false);
        self.asleep = false;
    }

    /// Returns whether another message fits into the inbox.
    pub(super) fn has_room(&self, machine: &Machine, inbox: Option<&Inbox>) -> bool {
        let waiting = self.arrived.wrapping_sub(machine.word(self.mailbox, ECHO_OUTBOX_TAKEN));
        inbox.is_some_and(|inbox| waiting < inbox.records)
    }

    /// Checks that the next record holds the message, that nothing else was written, and that its
    /// number came last.
    pub(super) fn check_deposit(
        &mut self,
        machine: &Machine,
        source: u16,
        packet: &[u8],
        writes: &[Write],
    ) -> Result<(), Violation> {
        let (host, mailbox) = (machine.id, self.mailbox);
        let Some(Inbox { area, records }) = machine.inbox(mailbox) else { return Ok(()) };
        let place = u64::from((self.arrived % records) * ECHO_RECORD_SIZE);
        self.arrived = self.arrived.wrapping_add(1);
        let (from, data) = (&packet[4..8], &packet[HEADER..]);
        let head = [self.arrived.to_le_bytes(), u32::from(source).to_le_bytes()].concat();
        let record = [&head, from, &(data.len() as u32).to_le_bytes(), data].concat();
        ensure(area.peek(&machine.memory, place, record.len() as u64) == record, || {
            format!("host {host}: record {} of mailbox {mailbox} is not what was sent", self.arrived)
        })?;
        let written: usize = writes.iter().map(|write| write.bytes.len()).sum();
        let last = writes.last().map(|write| (write.address, write.bytes.len()));
        ensure(written == record.len() && last == Some((area.address(place), 4)), || {
            format!(
                "host {host}: {written} bytes were written for a record of {}, its number not last",
                record.len()
            )
        })?;
        self.inbox.push_back(Deposited {
            source: source.into(),
            mailbox: u32::from_le_bytes([from[0], from[1], from[2], from[3]]),
            data: data.to_vec(),
        });
        Ok(())
    }

    /// Checks that nothing waits.
    pub(super) fn check_at_rest(&self, host: u16) -> Result<(), Violation> {
        let Self { mailbox, plans, rung_for, inbox, .. } = self;
        let waits = rung_for.is_some() || !plans.is_empty();
        ensure(!waits, || format!("host {host}: mailbox {mailbox} never sent"))?;
        ensure(inbox.is_empty(), || {
            format!("host {host}: the owner of mailbox {mailbox} sleeps beside a message")
        })
    }
}
