//! Well-known slots (section 6.3) of a card that is attached to by its socket: a terminus, a queue and slots that are the operating
//! system's part alone, as the driver has them.

use hamlyn_abi::family::area::HamlynArea;
use hamlyn_abi::family::link::HAMLYN_REG_HOST_ID;
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::{HAMLYN_METADATA_SIZE, HAMLYN_ONE_SHOT_OPEN, HamlynMetadataEntry};
use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_USABLE;
use hamlyn_abi::kernel::well_known::{HAMLYN_WELL_KNOWN_KEY, HAMLYN_WELL_KNOWN_SLOTS};
use hamlyn_abi::kernel::wire::HamlynWire;
use hamlyn_abi::uapi::{HAMLYN_MAX_NAME, HAMLYN_MAX_PRIVATE, HamlynQuery};
use hamlyn_system::slots::{self, ENTRIES, METADATA_LENGTH, METADATA_OFFSET};
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

use super::super::message::REGION_BAR0;
use super::super::sleeper::Sleeper;
use super::super::{PAGE, SocketAttachment, area};
use crate::attach::{QueueParts, QueueWait, TerminusParts};
use crate::cursor::{Cursor, Look};
use crate::error::{Error, Result};
use crate::memory::Memory;

/// Pages of a slot's page lists: a directory and a list.
const LIST_PAGES: usize = 2;
const HOSTS: usize = HAMLYN_WELL_KNOWN_SLOTS as usize;

/// Whether the card has room for these and for at least one of each kind for the program; and whether a message fits into one
/// packet, so that it cannot be lost in part.
pub(in super::super) fn has_room(card: &HamlynQuery) -> bool {
    card.termini > 1
        && card.queues > 1
        && card.slots > HAMLYN_WELL_KNOWN_SLOTS
        && card.packet_size >= HAMLYN_MAX_NAME + HAMLYN_MAX_PRIVATE
}

/// A message that is whole in an entry.
pub(super) struct Arrived {
    pub(super) host: u32,
    pub(super) entry: u32,
    pub(super) wire: HamlynWire,
    pub(super) place: Vec<u8>,
}

/// What the operating system's part has of the card.
#[derive(Debug)]
pub(super) struct WellKnown {
    /// This host's id, as long as the link stays.
    pub(super) host: u32,
    terminus: TerminusParts,
    /// Requests posted.
    tail: u32,
    queue: QueueParts,
    sleeper: Arc<Sleeper>,
    cursor: Cursor,
    /// A page for each slot, then each one's page lists.
    memory: Memory,
}

impl WellKnown {
    /// Opens them, before anything else is.
    pub(super) fn open(card: &SocketAttachment) -> Result<Self> {
        let terminus = card.open_terminus(1, HAMLYN_TERMINUS_PRIVILEGED)?;
        let queue = card.open_queue((2 * HAMLYN_WELL_KNOWN_SLOTS * ENTRIES).next_power_of_two())?;
        let (_, sleeper) = card.tables().sleeper(queue.queue)?;
        let memory = card.lender.lend(HOSTS * (1 + LIST_PAGES) * PAGE)?;
        let own = Self { host: 0, terminus, tail: 0, queue, sleeper, cursor: Cursor::default(), memory };
        for host in 0..HAMLYN_WELL_KNOWN_SLOTS {
            own.open_slot(card, host)?;
        }
        Ok(own)
    }

    /// The slot of the operating system of a host.
    fn open_slot(&self, card: &SocketAttachment, host: u32) -> Result<()> {
        let page = host as usize * PAGE;
        let lists = (HOSTS + host as usize * LIST_PAGES) * PAGE;
        let address = |offset| self.memory.card_address() + offset as u64;
        let (area, bytes) = area::page_lists(address(page), METADATA_OFFSET.into(), address(lists));
        self.memory.write(lists, &bytes)?;
        self.memory.write(page + METADATA_OFFSET as usize, &slots::metadata())?;
        let body = HamlynOpenSlot {
            area,
            // The same page, further on.
            metadata: HamlynArea { length: METADATA_LENGTH.into(), first: METADATA_OFFSET, ..area },
            key: HAMLYN_WELL_KNOWN_KEY,
            metadata_pointer: 0,
            metadata_entries: ENTRIES,
            mode: HAMLYN_MODE_PARANOID_ONE_SHOT,
            queue: self.queue.queue,
            notification_index: 0,
            flags: HAMLYN_SLOT_INTERRUPT | HAMLYN_SLOT_PRIVILEGED,
            source: host,
        };
        let action = "open a well-known slot";
        card.commands.run(action, HAMLYN_COMMAND_OPEN_SLOT, host, body.as_bytes())?;
        card.tables().slots.insert(host, Vec::new());
        Ok(())
    }

    /// Posts one packet to the operating system of a host. False if there is no room for it.
    pub(super) fn post(&mut self, to: u32, entry: u32, wire: &HamlynWire, data: &[u8]) -> Result<bool> {
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

    /// How many requests the card has not finished with.
    pub(super) fn unfinished(&self) -> u32 {
        self.tail.wrapping_sub(self.terminus.status.completed())
    }

    /// The next message that has arrived. Its entry stays as it is until it is opened again.
    pub(super) fn take(&mut self) -> Option<Arrived> {
        loop {
            let notification = match self.cursor.look(&self.queue.entries) {
                Look::Notification(notification) => notification,
                Look::Nothing => return None,
                // The queue has more entries than messages can be there; and what is lost is sent again.
                Look::Lost(_) => continue,
            };
            let (host, entry) = (notification.slot, notification.metadata / u64::from(HAMLYN_METADATA_SIZE));
            if host < HAMLYN_WELL_KNOWN_SLOTS && entry < ENTRIES.into() {
                return self.read(host, entry as u32).ok();
            }
        }
    }

    fn read(&self, host: u32, entry: u32) -> Result<Arrived> {
        let mut bytes = [0; size_of::<HamlynWire>()];
        self.memory.read(entry_offset(host, entry), &mut bytes)?;
        let wire = HamlynWire::read_from_bytes(&bytes).map_err(|_| Error::Invalid("a message has a size"))?;
        let mut place = vec![0; slots::place_length(entry) as usize];
        self.memory.read(host as usize * PAGE + slots::place_offset(entry) as usize, &mut place)?;
        Ok(Arrived { host, entry, wire, place })
    }

    /// An entry may take a message again.
    pub(super) fn reopen(&self, host: u32, entry: u32) {
        let (at, memory) = (entry_offset(host, entry), self.memory.mapping());
        memory.store_u32(at + offset_of!(HamlynMetadataEntry, accumulator), 0);
        memory.store_u32_release(at + offset_of!(HamlynMetadataEntry, one_shot), HAMLYN_ONE_SHOT_OPEN);
    }

    /// Has the card interrupt for the next message; true if there is one.
    pub(super) fn arm(&self) -> bool {
        let (cursor, pass) = self.cursor.place();
        let wait = QueueWait { queue: self.queue.queue, cursor, pass };
        // What cannot be armed is looked at with the clock.
        self.sleeper.arm(None, || wait.is_over(self.queue.entries.word(cursor))).unwrap_or(false)
    }

    /// What is readable once the card has interrupted.
    pub(super) fn file(&self) -> Arc<OwnedFd> {
        self.sleeper.file()
    }
}

/// Where in the memory a metadata entry lies.
fn entry_offset(host: u32, entry: u32) -> usize {
    host as usize * PAGE + (METADATA_OFFSET + entry * HAMLYN_METADATA_SIZE) as usize
}

/// This host's id.
pub(super) fn host_id(client: &super::super::client::Client) -> std::io::Result<u32> {
    client.read_u32(REGION_BAR0, HAMLYN_REG_HOST_ID)
}
