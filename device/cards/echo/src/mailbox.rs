//! A mailbox sends messages from its outbox, in the window, and receives them in its inbox, in host
//! memory.

use hamlyn_abi::echo::command::{ECHO_INBOX_MAX_RECORDS, ECHO_INBOX_MIN_RECORDS, EchoOpenMailbox};
use hamlyn_abi::echo::inbox::{ECHO_RECORD_SIZE, EchoRecord};
use hamlyn_abi::echo::registers::ECHO_SYSTEM_MAILBOX;
use hamlyn_abi::echo::statistics::EchoStatistic;
use hamlyn_abi::echo::window::*;
use hamlyn_abi::family::command::ULN_STATUS_BAD_LENGTH;
use hamlyn_card::card::Progress;
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::chassis::sleeper::{Sleeper, Wake};
use hamlyn_card::ports::{DmaFault, Link, Mapped, Packet, Pieces, Ports, VolatileSlice};
use zerocopy::{FromZeros, IntoBytes};

use super::packet::{EchoPacket, LARGEST};
use super::{EchoCard, OUTBOXES};

/// An open mailbox.
#[derive(Debug)]
pub(super) struct Mailbox {
    inbox: Area,
    records: u32,
    /// Number of deposited messages, modulo 2^32.
    arrived: u32,
    /// Number of finished rings, modulo 2^32.
    sent: u32,
    /// The message that waits for the link. It is a copy, so that the owner cannot change it after
    /// the check.
    waiting: Option<Waiting>,
    sleeper: Sleeper,
}

#[derive(Debug)]
struct Waiting {
    destination: u16,
    packet: Vec<u8>,
}

impl Mailbox {
    pub(super) fn open(body: &EchoOpenMailbox, sleeper: Sleeper) -> Result<Self, Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        let records = body.records;
        let possible = (ECHO_INBOX_MIN_RECORDS..=ECHO_INBOX_MAX_RECORDS).contains(&records);
        if !possible || !records.is_power_of_two() {
            return Err(Refusal::new(ULN_STATUS_BAD_LENGTH, records, ECHO_INBOX_MAX_RECORDS));
        }
        let inbox = Area::table(&body.inbox, records, ECHO_RECORD_SIZE)?;
        Ok(Self { inbox, records, arrived: 0, sent: 0, waiting: None, sleeper })
    }

    pub(super) fn is_sending(&self) -> bool {
        self.waiting.is_some()
    }

    /// Copies the message out of the outbox of mailbox `from`. Each word is read once, then
    /// checked, then used.
    fn take(&mut self, from: u32, outbox: Outbox<'_>) -> Result<(), u32> {
        let destination = outbox.load(ECHO_OUTBOX_DESTINATION);
        let (to, length) = (outbox.load(ECHO_OUTBOX_MAILBOX), outbox.load(ECHO_OUTBOX_LENGTH));
        let destination = u16::try_from(destination).map_err(|_| ECHO_RESULT_BAD_HOST)?;
        if length > ECHO_MAX_MESSAGE {
            return Err(ECHO_RESULT_BAD_LENGTH);
        }
        let key = outbox.load_key(ECHO_OUTBOX_KEY);
        let header = EchoPacket { to: to.into(), from: from.into(), key: key.into() };
        let mut packet = header.as_bytes().to_vec();
        packet.resize(size_of_val(&header) + length as usize, 0);
        let data = &mut packet[size_of_val(&header)..];
        outbox.window.copy_out(outbox.start + u64::from(ECHO_OUTBOX_DATA), data);
        self.waiting = Some(Waiting { destination, packet });
        Ok(())
    }

    /// Reports a ring as finished, with its result.
    fn answer(&mut self, outbox: Outbox<'_>, result: u32) {
        self.sent = self.sent.wrapping_add(1);
        outbox.store(ECHO_OUTBOX_RESULT, result);
        outbox.store(ECHO_OUTBOX_SENT, self.sent);
    }

    /// Writes a message to the inbox, its number last.
    fn deposit(
        &mut self,
        ports: &Ports<'_>,
        record: &EchoRecord,
        data: &mut Pieces<'_>,
    ) -> Result<(), DmaFault> {
        let place = u64::from(self.arrived % self.records) * u64::from(ECHO_RECORD_SIZE);
        let address = self.inbox.locate(ports.dma, place)?;
        let mut head = [record.source, record.mailbox, record.length];
        ports.dma.write(address + 4, VolatileSlice::from(head.as_mut_bytes()))?;
        let length = data.len();
        self.inbox.write(ports.dma, place + 16, data, length)?;
        ports.dma.publish(address, record.number)?;
        self.arrived = record.number;
        Ok(())
    }
}

/// A mailbox's page of the window.
#[derive(Clone, Copy)]
struct Outbox<'a> {
    window: Mapped<'a>,
    start: u64,
}

impl<'a> Outbox<'a> {
    fn of(ports: &Ports<'a>, mailbox: u32) -> Self {
        Self { window: ports.window(OUTBOXES), start: u64::from(mailbox) * u64::from(ECHO_OUTBOX_SIZE) }
    }

    fn load(self, word: u32) -> u32 {
        self.window.load(self.start + u64::from(word))
    }

    fn load_key(self, word: u32) -> u64 {
        u64::from(self.load(word)) | u64::from(self.load(word + 4)) << 32
    }

    fn store(self, word: u32, value: u32) {
        self.window.store(self.start + u64::from(word), value);
    }
}

impl EchoCard {
    /// Handles a mailbox's doorbell: its outbox holds a message.
    pub(super) fn ring(&mut self, ports: &Ports<'_>, index: u32) {
        self.counters.add(EchoStatistic::Doorbells, 1);
        let Some(mailbox) = self.mailboxes.opened(index).ok().filter(|mailbox| !mailbox.is_sending()) else {
            self.counters.add(EchoStatistic::RefusedRings, 1);
            return;
        };
        let outbox = Outbox::of(ports, index);
        if let Err(result) = mailbox.take(index, outbox) {
            mailbox.answer(outbox, result);
            self.counters.add(EchoStatistic::RefusedMessages, 1);
        }
    }

    /// Sends the next waiting message. The mailboxes take turns.
    pub(super) fn send_next(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress {
        let mailboxes = self.mailboxes.len() as u32;
        let mut progress = Progress::Idle;
        for index in (self.turn..mailboxes).chain(0..self.turn) {
            let Some(mailbox) = &mut self.mailboxes[index as usize] else { continue };
            let Some(Waiting { destination, packet }) = &mut mailbox.waiting else { continue };
            // A message to a host that takes nothing waits, and the others proceed.
            if link.is_stopped(*destination)
                || !link.send(*destination, &[VolatileSlice::from(&mut packet[..])])
            {
                progress = Progress::LinkFull;
                continue;
            }
            mailbox.waiting = None;
            mailbox.answer(Outbox::of(ports, index), ECHO_RESULT_SENT);
            self.counters.add(EchoStatistic::Sent, 1);
            self.turn = (index + 1) % mailboxes;
            return Progress::Worked;
        }
        progress
    }

    /// Deposits a packet in the inbox that it names, and wakes the inbox's owner. Fails with the
    /// reason's counter.
    pub(super) fn deliver(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) -> Result<(), EchoStatistic> {
        let (mut bytes, mut header) = (packet.bytes, EchoPacket::new_zeroed());
        bytes.take_into(header.as_mut_bytes()).ok_or(EchoStatistic::Discarded)?;
        if packet.bytes.len() > LARGEST {
            return Err(EchoStatistic::Discarded);
        }
        let index = header.to.get();
        let mailbox = self.mailboxes.opened(index).map_err(|_| EchoStatistic::NoMailbox)?;
        let outbox = Outbox::of(ports, index);
        let lock = outbox.load_key(ECHO_OUTBOX_LOCK);
        let is_process = index == ECHO_SYSTEM_MAILBOX && header.from.get() != ECHO_SYSTEM_MAILBOX;
        if is_process || (lock != 0 && lock != header.key.get()) {
            return Err(EchoStatistic::Refused);
        }
        let taken = outbox.load(ECHO_OUTBOX_TAKEN);
        // The owner's value is not trusted. The inbox is the owner's memory, and the card never
        // writes beyond it.
        if mailbox.arrived.wrapping_sub(taken) >= mailbox.records {
            return Err(EchoStatistic::InboxFull);
        }
        let record = EchoRecord {
            number: mailbox.arrived.wrapping_add(1),
            source: packet.source.into(),
            mailbox: header.from.get(),
            length: bytes.len() as u32,
            ..EchoRecord::new_zeroed()
        };
        mailbox.deposit(ports, &record, &mut bytes).map_err(|_| EchoStatistic::Discarded)?;
        match mailbox.sleeper.wake(ports.window(OUTBOXES), ports.interrupt) {
            Wake::NotAsleep => {}
            Wake::Coalesced => self.counters.add(EchoStatistic::InterruptsCoalesced, 1),
            Wake::Interrupted => self.counters.add(EchoStatistic::Interrupts, 1),
        }
        Ok(())
    }
}
