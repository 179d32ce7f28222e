//! Well-known slots (section 6.3) of a card that is attached to through its socket. As in the
//! driver, the terminus, queue and slots here belong only to the operating system's part.

use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::{HAMLYN_METADATA_SIZE, HAMLYN_ONE_SHOT_OPEN, HamlynMetadataEntry};
use hamlyn_abi::hamlyn::sram::{HAMLYN_SRAM_QUEUE, HAMLYN_SRAM_SLOT, HAMLYN_SRAM_TERMINUS};
use hamlyn_abi::hamlyn::uapi::HamlynSramQuery;
use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_USABLE;
use hamlyn_abi::kernel::well_known::{ULN_WELL_KNOWN_KEY, ULN_WELL_KNOWN_SLOTS};
use hamlyn_abi::kernel::wire::UlnWire;
use hamlyn_abi::uapi::{ULN_MAX_NAME, ULN_MAX_PRIVATE, UlnQuery};
use hamlyn_driver_host::slots::{self, ENTRIES, METADATA_LENGTH, METADATA_OFFSET};
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

use super::SocketAttachment;
use crate::core::memory::Memory;
use crate::core::socket::names::Transport;
use crate::core::socket::sleeper::Sleeper;
use crate::core::socket::{PAGE, area};
use crate::error::{Error, Result};
use crate::hamlyn::attach::{QueueParts, QueueWait, TerminusParts};
use crate::hamlyn::cursor::{Cursor, Look};

/// Number of pages for a slot's page lists: a directory and a list.
const LIST_PAGES: usize = 2;
const HOSTS: usize = ULN_WELL_KNOWN_SLOTS as usize;

/// Returns true if the card's memory has room for the operating system's part, and for one object
/// of each kind for the program.
fn has_memory(card: &UlnQuery) -> bool {
    let HamlynSramQuery { room, .. } = card.of_card().unwrap_or_default();
    // Cards older than version 2.6 have one table per kind.
    let least =
        (ULN_WELL_KNOWN_SLOTS + 1) * HAMLYN_SRAM_SLOT + 2 * (HAMLYN_SRAM_TERMINUS + HAMLYN_SRAM_QUEUE);
    room == 0 || room >= least
}

/// Returns true if the card has room for these and for at least one object of each kind for the
/// program. A message must also fit into one packet, so that it cannot be lost in part.
pub(super) fn has_room(card: &UlnQuery) -> bool {
    card.termini > 1
        && card.queues > 1
        && card.slots > ULN_WELL_KNOWN_SLOTS
        && has_memory(card)
        && card.packet_size >= ULN_MAX_NAME + ULN_MAX_PRIVATE
}

/// The operating system's part of the card.
#[derive(Debug)]
pub(super) struct WellKnown {
    /// This host's id, while the link is up.
    host: u32,
    terminus: TerminusParts,
    /// Number of requests posted.
    tail: u32,
    queue: QueueParts,
    sleeper: Arc<Sleeper>,
    cursor: Cursor,
    /// One page per slot, then the page lists of each slot.
    memory: Memory,
}

impl WellKnown {
    /// Opens them, before any other object.
    pub(super) fn open(card: &SocketAttachment) -> Result<Self> {
        let terminus = card.open_terminus(1, HAMLYN_TERMINUS_PRIVILEGED)?;
        let queue = card.open_queue((2 * ULN_WELL_KNOWN_SLOTS * ENTRIES).next_power_of_two())?;
        let (_, sleeper) = card.tables().sleeper(queue.queue)?;
        let memory = card.seat.lender.lend(HOSTS * (1 + LIST_PAGES) * PAGE)?;
        let own = Self { host: 0, terminus, tail: 0, queue, sleeper, cursor: Cursor::default(), memory };
        for host in 0..ULN_WELL_KNOWN_SLOTS {
            own.open_slot(card, host)?;
        }
        Ok(own)
    }

    /// Opens the slot for the operating system of a host.
    fn open_slot(&self, card: &SocketAttachment, host: u32) -> Result<()> {
        let page = host as usize * PAGE;
        let lists = (HOSTS + host as usize * LIST_PAGES) * PAGE;
        let address = |offset| self.memory.card_address() + offset as u64;
        let (area, bytes) = area::page_lists(address(page), METADATA_OFFSET.into(), address(lists));
        self.memory.write(lists, &bytes)?;
        self.memory.write(page + METADATA_OFFSET as usize, &slots::metadata())?;
        let body = HamlynOpenSlot {
            area,
            // The same page, at a higher offset.
            metadata: UlnArea { length: METADATA_LENGTH.into(), first: METADATA_OFFSET, ..area },
            key: ULN_WELL_KNOWN_KEY,
            metadata_pointer: 0,
            metadata_entries: ENTRIES,
            mode: HAMLYN_MODE_PARANOID_ONE_SHOT,
            queue: self.queue.queue,
            notification_index: 0,
            flags: HAMLYN_SLOT_INTERRUPT | HAMLYN_SLOT_PRIVILEGED,
            source: host,
        };
        let action = "open a well-known slot";
        card.seat.commands.run(action, HAMLYN_COMMAND_OPEN_SLOT, host, body.as_bytes())?;
        card.tables().slots.insert(host, Vec::new());
        Ok(())
    }
}

impl Transport for WellKnown {
    fn host_is(&mut self, host: u32) {
        self.host = host;
    }

    fn post(&mut self, to: u32, entry: u32, wire: &UlnWire, data: &[u8]) -> Result<bool> {
        if self.unfinished() >= HAMLYN_WORK_QUEUE_USABLE {
            return Ok(false);
        }
        self.terminus.window.fill_entry(self.tail, 0, &slots::request(self.host, to, entry, wire, data));
        self.tail = self.tail.wrapping_add(1);
        if self.terminus.window.publish_request(self.tail) {
            self.terminus.doorbell.ring()?;
        }
        Ok(true)
    }

    fn unfinished(&self) -> u32 {
        self.tail.wrapping_sub(self.terminus.status.completed())
    }

    fn take(&mut self) -> Option<(u32, u32)> {
        loop {
            let notification = match self.cursor.look(&self.queue.entries) {
                Look::Notification(notification) => notification,
                Look::Nothing => return None,
                // The queue has more entries than there can be messages. And a lost message is sent
                // again.
                Look::Lost(_) => continue,
            };
            let (host, entry) = (notification.slot, notification.metadata / u64::from(HAMLYN_METADATA_SIZE));
            if host < ULN_WELL_KNOWN_SLOTS && entry < ENTRIES.into() {
                return Some((host, entry as u32));
            }
        }
    }

    fn read(&self, host: u32, entry: u32, place: &mut [u8]) -> Result<UlnWire> {
        let mut bytes = [0; size_of::<UlnWire>()];
        self.memory.read(entry_offset(host, entry), &mut bytes)?;
        let wire = UlnWire::read_from_bytes(&bytes).map_err(|_| Error::Invalid("a message has a size"))?;
        let place = &mut place[..slots::place_length(entry) as usize];
        self.memory.read(host as usize * PAGE + slots::place_offset(entry) as usize, place)?;
        Ok(wire)
    }

    fn reopen(&self, host: u32, entry: u32) {
        let (at, memory) = (entry_offset(host, entry), self.memory.mapping());
        memory.store_u32(at + offset_of!(HamlynMetadataEntry, accumulator), 0);
        memory.store_u32_release(at + offset_of!(HamlynMetadataEntry, one_shot), HAMLYN_ONE_SHOT_OPEN);
    }

    fn arm(&self) -> bool {
        let (cursor, pass) = self.cursor.place();
        let wait = QueueWait { queue: self.queue.queue, cursor, pass };
        // If arming fails, the timer polls the queue.
        self.sleeper.arm(None, || wait.is_over(self.queue.entries.word(cursor))).unwrap_or(false)
    }

    fn file(&self) -> Arc<OwnedFd> {
        self.sleeper.file()
    }
}

/// Returns the offset of a metadata entry in the memory.
fn entry_offset(host: u32, entry: u32) -> usize {
    host as usize * PAGE + (METADATA_OFFSET + entry * HAMLYN_METADATA_SIZE) as usize
}
