//! A host: its memory, the real card, and what its driver has opened.

use std::rc::Rc;

use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::hamlyn::registers::*;
use hamlyn_abi::hamlyn::window::*;
use hamlyn_models::card::{BarKind, Card};
use hamlyn_models::hamlyn::{HamlynCard, HamlynOptions};
use hamlyn_models::ports::{Ports, Window};
use zerocopy::{Immutable, IntoBytes};

use crate::area::{Area, Frames};
use crate::clock::SimClock;
use crate::memory::{Memory, PAGE, Right};
use crate::process::Process;
use crate::rng::Rng;
use crate::uplink::Uplink;
use crate::violation::{Violation, ensure};
use crate::window::{Pages, Vectors};

/// A slot as the driver opened it. The judge goes by this, not by what the card has made of it.
#[derive(Debug, Clone)]
pub(crate) struct OpenSlot {
    pub(crate) area: Rc<Area>,
    pub(crate) metadata: Option<Rc<Area>>,
    pub(crate) entries: u32,
    pub(crate) pointer: u64,
    pub(crate) key: u64,
    pub(crate) mode: u32,
    pub(crate) queue: u32,
    pub(crate) notification_index: u32,
    pub(crate) interrupt: bool,
    /// Its owner has given the key to everybody, and scribbles on its metadata.
    pub(crate) prey: bool,
}

/// A notification queue as the driver opened it, and where the card must be in it.
#[derive(Debug, Clone)]
pub(crate) struct OpenQueue {
    pub(crate) area: Rc<Area>,
    pub(crate) entries: u32,
    pub(crate) cursor: u32,
    pub(crate) wrap: u32,
    pub(crate) vector: u32,
}

impl OpenQueue {
    /// Where the card writes next.
    pub(crate) fn next_entry(&self) -> u64 {
        self.area.address(u64::from(self.cursor) * u64::from(HAMLYN_NOTIFICATION_SIZE))
    }

    /// The card has written an entry.
    pub(crate) fn advance(&mut self) {
        self.cursor += 1;
        if self.cursor == self.entries {
            self.cursor = 0;
            self.wrap ^= 1;
        }
    }
}

/// A host and its card.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) id: u16,
    pub(crate) options: HamlynOptions,
    pub(crate) card: HamlynCard,
    pub(crate) memory: Memory,
    pub(crate) window: Pages,
    pub(crate) vectors: Vectors,
    pub(crate) clock: SimClock,
    pub(crate) uplink: Uplink,
    pub(crate) frames: Frames,
    pub(crate) slots: Vec<Option<OpenSlot>>,
    pub(crate) queues: Vec<Option<OpenQueue>>,
    pub(crate) termini: Vec<bool>,
    pub(crate) processes: Vec<Process>,
    pub(crate) enabled: bool,
    /// The card's process waits for its bell or for a doorbell.
    pub(crate) asleep: bool,
    /// The host has stopped: nothing of it runs.
    pub(crate) stopped: bool,
    /// Its card's counters do not tell the whole story.
    pub(crate) was_reset: bool,
    command_page: u64,
}

impl Host {
    pub(crate) fn new(id: u16, options: HamlynOptions, rng: &mut Rng) -> Result<Self, Violation> {
        let card = HamlynCard::new(options).map_err(Violation::new)?;
        let used = card.identity().bars.iter().find_map(|bar| match bar.kind {
            BarKind::Window { used } => Some(used),
            BarKind::Registers => None,
        });
        let slots = options.slots().map_err(Violation::new)?;
        let (memory, mut frames) = (Memory::new(), Frames::new());
        let command_page = frames.take(rng);
        for right in [Right::Read, Right::Write] {
            memory.permit(right, command_page, PAGE, true);
        }
        let mut host = Self {
            id,
            options,
            card,
            memory,
            window: Pages::new(used.unwrap_or(0) as usize),
            vectors: Vectors::default(),
            clock: SimClock::default(),
            uplink: Uplink::new(id),
            frames,
            slots: vec![None; slots as usize],
            queues: vec![None; options.queues as usize],
            termini: vec![false; options.termini as usize],
            processes: Vec::new(),
            enabled: false,
            asleep: false,
            stopped: false,
            was_reset: false,
            command_page,
        };
        host.enable()?;
        Ok(host)
    }

    /// Calls the card, and finds out whether it did what it must not.
    pub(crate) fn with_card<T>(
        &mut self,
        verb: impl FnOnce(&mut HamlynCard, &Ports<'_>, &mut Uplink) -> T,
    ) -> Result<T, Violation> {
        let ports =
            Ports { dma: &self.memory, window: &self.window, interrupt: &self.vectors, clock: &self.clock };
        let result = verb(&mut self.card, &ports, &mut self.uplink);
        self.uplink.check()?;
        match self.memory.take_complaint() {
            Some(complaint) => Err(Violation::new(format!("host {}: {complaint}", self.id))),
            None => Ok(result),
        }
    }

    /// A trapped store: a message to the card's process, which wakes it.
    pub(crate) fn store(&mut self, bar: u8, offset: u64, width: u8, value: u64) -> Result<(), Violation> {
        self.asleep = false;
        self.with_card(|card, ports, _| card.register_write(ports, bar, offset, width, value))
    }

    /// What the driver does with a card at power-on.
    pub(crate) fn enable(&mut self) -> Result<(), Violation> {
        self.store(0, HAMLYN_REG_COMMAND_PAGE.into(), 8, self.command_page)?;
        self.store(0, HAMLYN_REG_CONTROL.into(), 4, HAMLYN_CONTROL_ENABLE.into())?;
        self.enabled = true;
        Ok(())
    }

    /// Resets the card. Everything in it is closed; the processes find out from the driver.
    pub(crate) fn reset(&mut self) -> Result<(), Violation> {
        self.store(0, HAMLYN_REG_CONTROL.into(), 4, HAMLYN_CONTROL_RESET.into())?;
        self.enabled = false;
        self.was_reset = true;
        Ok(())
    }

    pub(crate) fn set_link_state(&mut self, up: bool) -> Result<(), Violation> {
        self.asleep = false;
        let id = up.then_some(self.id);
        self.with_card(|card, ports, _| card.link_changed(ports, id))
    }

    /// Runs a command that must succeed.
    fn command(
        &mut self,
        opcode: u32,
        index: u32,
        body: &(impl IntoBytes + Immutable),
    ) -> Result<(), Violation> {
        let head = HamlynCommand { opcode, index, ..Default::default() };
        self.memory.poke(self.command_page, head.as_bytes());
        self.memory.poke(self.command_page + u64::from(HAMLYN_COMMAND_BODY), body.as_bytes());
        self.store(0, HAMLYN_REG_COMMAND_GO.into(), 4, 1)?;
        let status = self.memory.peek_u32(self.command_page + 8);
        ensure(status == HAMLYN_STATUS_OK, || {
            format!("host {}: command {opcode} on {index} was refused with status {status}", self.id)
        })
    }

    pub(crate) fn open_terminus(&mut self, index: u32, status: u64) -> Result<(), Violation> {
        self.memory.permit(Right::Write, status, size_of::<HamlynTerminusStatus>() as u64, true);
        self.termini[index as usize] = true;
        self.command(
            HAMLYN_COMMAND_OPEN_TERMINUS,
            index,
            &HamlynOpenTerminus { status, weight: 1, reserved: 0 },
        )
    }

    /// `tell`: the card knows of the terminus, else a reset has closed it already. So in all that closes.
    pub(crate) fn close_terminus(&mut self, index: u32, status: u64, tell: bool) -> Result<(), Violation> {
        if tell {
            self.command(HAMLYN_COMMAND_CLOSE_TERMINUS, index, &[0_u8; 0])?;
        }
        self.termini[index as usize] = false;
        self.memory.permit(Right::Write, status, size_of::<HamlynTerminusStatus>() as u64, false);
        Ok(())
    }

    pub(crate) fn set_send_buffer(&mut self, terminus: u32, tag: u32, area: &Area) -> Result<(), Violation> {
        area.permit_lists(&self.memory, true);
        area.permit(&self.memory, Right::Read, 0, area.length, true);
        let body = HamlynSetSendBuffer { tag, reserved: 0, area: area.abi() };
        self.command(HAMLYN_COMMAND_SET_SEND_BUFFER, terminus, &body)
    }

    /// The terminus is closed: the card reads its send buffers no more.
    pub(crate) fn forget_send_buffer(&self, area: &Area) {
        area.permit(&self.memory, Right::Read, 0, area.length, false);
        area.permit_lists(&self.memory, false);
    }

    pub(crate) fn open_queue(&mut self, index: u32, queue: OpenQueue) -> Result<(), Violation> {
        queue.area.permit_lists(&self.memory, true);
        queue.area.permit(&self.memory, Right::Write, 0, queue.area.length, true);
        let body = HamlynOpenQueue { area: queue.area.abi(), entries: queue.entries, vector: queue.vector };
        self.queues[index as usize] = Some(queue);
        self.command(HAMLYN_COMMAND_OPEN_QUEUE, index, &body)
    }

    pub(crate) fn close_queue(&mut self, index: u32, tell: bool) -> Result<(), Violation> {
        if tell {
            self.command(HAMLYN_COMMAND_CLOSE_QUEUE, index, &[0_u8; 0])?;
        }
        if let Some(queue) = self.queues[index as usize].take() {
            queue.area.permit(&self.memory, Right::Write, 0, queue.area.length, false);
            queue.area.permit_lists(&self.memory, false);
        }
        Ok(())
    }

    pub(crate) fn open_slot(&mut self, index: u32, slot: OpenSlot) -> Result<(), Violation> {
        slot.permit(&self.memory, true);
        let body = HamlynOpenSlot {
            area: slot.area.abi(),
            metadata: slot.metadata.as_ref().map(|area| area.abi()).unwrap_or_default(),
            key: slot.key,
            metadata_pointer: slot.pointer,
            metadata_entries: slot.entries,
            mode: slot.mode,
            queue: slot.queue,
            notification_index: slot.notification_index,
            flags: if slot.interrupt { HAMLYN_SLOT_INTERRUPT } else { 0 },
            reserved: 0,
        };
        self.slots[index as usize] = Some(slot);
        self.command(HAMLYN_COMMAND_OPEN_SLOT, index, &body)
    }

    pub(crate) fn close_slot(&mut self, index: u32, tell: bool) -> Result<(), Violation> {
        if tell {
            self.command(HAMLYN_COMMAND_CLOSE_SLOT, index, &[0_u8; 0])?;
        }
        if let Some(slot) = self.slots[index as usize].take() {
            slot.permit(&self.memory, false);
        }
        Ok(())
    }

    pub(crate) fn ring(&mut self, terminus: u32) -> Result<(), Violation> {
        self.store(4, u64::from(terminus) * u64::from(HAMLYN_DOORBELL_SIZE), 4, 1)
    }

    /// The card's counters, by number.
    pub(crate) fn counters(&self) -> Vec<u64> {
        self.card.counters().into_iter().map(|(_, count)| count).collect()
    }

    fn queue_control(&self) -> u64 {
        u64::from(self.options.termini) * u64::from(HAMLYN_WINDOW_SIZE)
    }

    fn armed_word(&self, queue: u32) -> u64 {
        self.queue_control()
            + u64::from(HAMLYN_QUEUE_CONTROL_ARMED)
            + u64::from(queue) * u64::from(HAMLYN_ARMED_STRIDE)
    }

    fn pending_word(&self, vector: u32) -> u64 {
        self.queue_control()
            + u64::from(HAMLYN_QUEUE_CONTROL_PENDING)
            + u64::from(vector) * u64::from(HAMLYN_PENDING_STRIDE)
    }

    pub(crate) fn armed(&self, queue: u32) -> u32 {
        self.window.load(self.armed_word(queue))
    }

    pub(crate) fn set_armed(&self, queue: u32, value: u32) {
        self.window.store(self.armed_word(queue), value);
    }

    pub(crate) fn pending(&self, vector: u32) -> u32 {
        self.window.load(self.pending_word(vector))
    }

    /// The driver's interrupt handler: says that it has seen the interrupts, then wakes whose queues fired. Returns
    /// whether there was an interrupt.
    pub(crate) fn handle_interrupts(&mut self) -> bool {
        let vectors = self.vectors.take();
        for vector in &vectors {
            if u32::from(*vector) == HAMLYN_VECTOR_LINK {
                continue;
            }
            self.window.store(self.pending_word((*vector).into()), 0);
            for process in 0..self.processes.len() {
                let queue = self.processes[process].queue;
                let on_vector =
                    self.queues[queue as usize].as_ref().map(|queue| queue.vector) == Some((*vector).into());
                if on_vector && self.armed(queue) == HAMLYN_ARMED_FIRED {
                    self.set_armed(queue, HAMLYN_ARMED_NO);
                    self.processes[process].asleep = false;
                }
            }
        }
        !vectors.is_empty()
    }
}

impl OpenSlot {
    /// What the card may write because the slot is open: the message area, and of each metadata entry the user's
    /// metadata, the accumulator and the lock.
    fn permit(&self, memory: &Memory, allowed: bool) {
        self.area.permit_lists(memory, allowed);
        self.area.permit(memory, Right::Write, 0, self.area.length, allowed);
        let Some(metadata) = &self.metadata else { return };
        metadata.permit_lists(memory, allowed);
        metadata.permit(memory, Right::Read, 0, metadata.length, allowed);
        for entry in 0..self.entries {
            let at = u64::from(entry) * u64::from(HAMLYN_METADATA_SIZE);
            metadata.permit(memory, Right::Write, at, ENTRY_ACCUMULATOR + 4, allowed);
            metadata.permit(memory, Right::Write, at + ENTRY_ONE_SHOT, 4, allowed);
        }
    }

    /// The address of a metadata entry.
    pub(crate) fn entry_address(&self, entry: u32) -> Option<u64> {
        let metadata = self.metadata.as_ref().filter(|_| entry < self.entries)?;
        Some(metadata.address(u64::from(entry) * u64::from(HAMLYN_METADATA_SIZE)))
    }
}

/// Table 2, as the datasheet has it.
pub(crate) const ENTRY_ACCUMULATOR: u64 = 0x3c;
pub(crate) const ENTRY_KEY: u64 = 0x40;
pub(crate) const ENTRY_LOW: u64 = 0x48;
pub(crate) const ENTRY_HIGH: u64 = 0x50;
pub(crate) const ENTRY_ONE_SHOT: u64 = 0x60;
