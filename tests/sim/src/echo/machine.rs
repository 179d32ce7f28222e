//! A host's machine: its card's station, and the mailboxes that the driver has opened.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hamlyn_abi::echo::command::{ECHO_COMMAND_CLOSE_MAILBOX, ECHO_COMMAND_OPEN_MAILBOX, EchoOpenMailbox};
use hamlyn_abi::echo::inbox::ECHO_RECORD_SIZE;
use hamlyn_abi::echo::registers::ECHO_VECTOR;
use hamlyn_abi::echo::window::*;
use hamlyn_abi::family::control::*;
use hamlyn_abi::family::sleep::*;
use hamlyn_card::ports::Window;
use hamlyn_card_echo::EchoCard;
use hamlyn_test_host::Commands;
use zerocopy::{FromZeros, Immutable, IntoBytes};

use crate::engine::area::{Area, Frames};
use crate::engine::driver::Driver;
use crate::engine::memory::Right;
use crate::engine::rng::Rng;
use crate::engine::station::Station;
use crate::engine::violation::{Violation, ensure};
use crate::engine::window::Pages;

/// Mailboxes of a card.
pub(super) const MAILBOXES: u32 = 3;
/// Pages of a host's memory: each mailbox's inbox and lists, the command page, and a few spare
/// ones.
const FRAMES: u64 = 24;
/// BAR 2.
const OUTBOXES: u8 = 2;
/// Heartbeats per period of the handshake timer.
const BEATS: u64 = 4;

/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    station: Station,
    command_page: u64,
    /// Period in milliseconds; 0: the card has no handshake timer.
    handshake_ms: u32,
    tables: Mutex<Tables>,
}

/// Objects that the driver has opened.
#[derive(Debug)]
pub(super) struct Tables {
    frames: Frames,
    inboxes: Vec<Option<Inbox>>,
    next_beat: u64,
}

/// The inbox of an open mailbox.
#[derive(Debug, Clone)]
pub(super) struct Inbox {
    pub(super) area: Area,
    pub(super) records: u32,
}

impl Deref for Machine {
    type Target = Station;

    fn deref(&self) -> &Station {
        &self.station
    }
}

impl Machine {
    /// Creates a machine that is powered on.
    pub(super) fn new(id: u16, handshake_ms: u32, rng: &mut Rng) -> Result<Self, Violation> {
        let card = move || Ok(EchoCard::new(MAILBOXES, handshake_ms));
        let station = Station::new(id, card, FRAMES, Vec::new())?;
        let mut frames = Frames::new(Rng::new(rng.next()), FRAMES);
        let command_page = frames.take(&station.memory);
        Driver::permit_page(&station, command_page);
        let inboxes = (0..MAILBOXES).map(|_| None).collect();
        let tables = Mutex::new(Tables { frames, inboxes, next_beat: 0 });
        let machine = Self { station, command_page, handshake_ms, tables };
        Driver::new(&machine.station, command_page).enable()?;
        Ok(machine)
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the inbox of a mailbox, if it is open.
    pub(super) fn inbox(&self, mailbox: u32) -> Option<Inbox> {
        self.tables().inboxes.get(mailbox as usize).cloned().flatten()
    }

    fn command(&self, opcode: u32, index: u32, body: &(impl IntoBytes + Immutable)) -> Result<(), Violation> {
        Driver::new(&self.station, self.command_page).run(opcode, index, body)
    }

    /// Opens a mailbox with an empty outbox and inbox.
    pub(super) fn open(&self, mailbox: u32, records: u32) -> Result<(), Violation> {
        let length = u64::from(records * ECHO_RECORD_SIZE);
        let area = Area::new(&self.memory, &mut self.tables().frames, 0, length);
        area.permit_lists(&self.memory, true);
        area.permit(&self.memory, Right::Write, 0, length, true);
        self.window().poke(outbox(mailbox), &[0; ECHO_OUTBOX_SIZE as usize]);
        let body = EchoOpenMailbox { inbox: area.abi(), records, ..EchoOpenMailbox::new_zeroed() };
        self.command(ECHO_COMMAND_OPEN_MAILBOX, mailbox, &body)?;
        self.tables().inboxes[mailbox as usize] = Some(Inbox { area, records });
        Ok(())
    }

    /// Closes a mailbox. Any later access of the card to its memory is detected.
    pub(super) fn close(&self, mailbox: u32) -> Result<(), Violation> {
        self.command(ECHO_COMMAND_CLOSE_MAILBOX, mailbox, &[0_u8; 0])?;
        let mut tables = self.tables();
        if let Some(Inbox { area, .. }) = tables.inboxes[mailbox as usize].take() {
            area.permit(&self.memory, Right::Write, 0, area.length, false);
            area.permit_lists(&self.memory, false);
            area.give_lists_back(&mut tables.frames);
            area.give_pages_back(&self.memory, &mut tables.frames);
        }
        Ok(())
    }

    pub(super) fn window(&self) -> &Pages {
        self.windows.of(OUTBOXES)
    }

    /// Loads a word of an outbox.
    pub(super) fn word(&self, mailbox: u32, word: u32) -> u32 {
        self.window().load(outbox(mailbox) + u64::from(word))
    }

    /// Stores to a word of an outbox as its owner.
    pub(super) fn set_word(&self, mailbox: u32, word: u32, value: u32) {
        self.window().store(outbox(mailbox) + u64::from(word), value);
    }

    /// Stores a key to two words of an outbox as its owner.
    pub(super) fn set_key(&self, mailbox: u32, word: u32, key: u64) {
        self.set_word(mailbox, word, key as u32);
        self.set_word(mailbox, word + 4, (key >> 32) as u32);
    }

    /// Rings for a mailbox.
    pub(super) fn ring(&self, mailbox: u32) -> Result<(), Violation> {
        self.store(4, u64::from(mailbox) * u64::from(ECHO_DOORBELL_SIZE), 4, 1)
    }

    fn armed(mailbox: u32) -> u64 {
        outbox(MAILBOXES) + u64::from(ECHO_CONTROL_ARMED + mailbox * ULN_ARMED_STRIDE)
    }

    /// Arms or disarms a mailbox as the driver: `sleeps` is whether its owner sleeps.
    pub(super) fn arm(&self, mailbox: u32, sleeps: bool) {
        self.window().store(Self::armed(mailbox), if sleeps { ULN_ARMED_YES } else { ULN_ARMED_NO });
    }

    /// Handles the mailboxes' interrupt as the driver, if it was raised. Returns the mailboxes that
    /// it is for.
    pub(super) fn interrupts(&self) -> Vec<u32> {
        if !self.vectors.take().contains(&(ECHO_VECTOR as u16)) {
            return Vec::new();
        }
        let pending = ECHO_CONTROL_PENDING + ECHO_VECTOR * ULN_PENDING_STRIDE;
        self.window().store(outbox(MAILBOXES) + u64::from(pending), 0);
        let fired = |mailbox: &u32| self.window().load(Self::armed(*mailbox)) == ULN_ARMED_FIRED;
        (0..MAILBOXES).filter(fired).collect()
    }

    /// Does a heartbeat as the driver of a running host, several times in a period. It restarts the
    /// timer, and enables the card again if that was too late.
    pub(super) fn beat(&self) -> Result<(), Violation> {
        let now = self.clock.milliseconds();
        if self.handshake_ms == 0 || now < self.tables().next_beat {
            return Ok(());
        }
        self.tables().next_beat = now + u64::from(self.handshake_ms) / BEATS;
        self.store(0, ULN_REG_HANDSHAKE.into(), 4, 1)?;
        self.store(0, ULN_REG_CONTROL.into(), 4, ULN_CONTROL_ENABLE.into())
    }

    /// Gives the card its tick if it is due.
    pub(super) fn tick(&self) -> Result<bool, Violation> {
        if self.alarm().is_none_or(|alarm| alarm > self.clock.milliseconds().into()) {
            return Ok(false);
        }
        self.with_card(|card, ports| card.tick(ports))?;
        Ok(true)
    }

    /// Returns whether the card accepts packets.
    pub(super) fn is_enabled(&self) -> Result<bool, Violation> {
        let enabled = self.with_card(|card, _| card.is_enabled())?;
        ensure(enabled || self.handshake_ms != 0, || format!("host {}: the card takes no part", self.id))?;
        Ok(enabled)
    }
}

fn outbox(mailbox: u32) -> u64 {
    u64::from(mailbox) * u64::from(ECHO_OUTBOX_SIZE)
}
