//! The lower layer's receiving half: notification queues and slots.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use hamlyn::{Arrival, MetadataEntry, Mode, Notification, NotificationQueue, Slot};
use libc::ENOENT;

use crate::area::hamlyn_area;
use crate::call::{Failure, at_once, call, free, given, store, timeout, unused};
use crate::card::hamlyn_card;
use crate::memory::bytes_mut;
use crate::ticket::hamlyn_ticket;

/// Where a card tells of messages (section 2.6 of the paper), for slots of the program's own. Any
/// number of threads may use it.
pub struct hamlyn_queue(NotificationQueue);

/// An area opened to who holds a ticket. Any number of threads may use it.
pub struct hamlyn_slot(Slot);

/// A message that is whole.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_notification {
    /// Where its metadata entry lies, for hamlyn_slot_entry; 0 for a fast-mode message.
    pub metadata: u64,
    /// The slot that it arrived in.
    pub slot: u32,
    /// The number that the slot was given.
    pub index: u32,
    /// Whether it came by fast mode: 1 or 0.
    pub is_fast: u32,
    /// The word that a fast-mode message brought.
    pub word: u32,
    /// For what may come: zeros.
    pub reserved: [u32; 4],
}

/// How a slot is to be; zeros are the whole area, no metadata entries, the normal mode.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_slot_options {
    /// The first byte of the area that it covers.
    pub start: usize,
    /// How many: 0 for all that follow.
    pub length: usize,
    /// Metadata entries; with none only fast-mode messages come in.
    pub metadata_entries: u32,
    /// HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID or HAMLYN_MODE_ONE_SHOT.
    pub mode: u32,
    /// A number that its notifications carry.
    pub index: u32,
    /// HAMLYN_SLOT_QUIET and HAMLYN_SLOT_FETCHABLE.
    pub flags: u32,
    /// Must be 0.
    pub reserved: [u32; 4],
}

/// Messages are checked against the slot's own key and bounds.
pub const HAMLYN_MODE_NORMAL: u32 = 0;
/// And against the metadata entry's.
pub const HAMLYN_MODE_PARANOID: u32 = 1;
/// And an entry takes one message until hamlyn_slot_reopen.
pub const HAMLYN_MODE_ONE_SHOT: u32 = 2;
/// A sleeping receiver is woken by messages alone that ask for it.
pub const HAMLYN_SLOT_QUIET: u32 = 1;
/// Who may write may also fetch-and-op words, and so read them.
pub const HAMLYN_SLOT_FETCHABLE: u32 = 2;
/// In place of a metadata entry: fast mode.
pub const HAMLYN_FAST: u32 = 0xffff_ffff;
/// Bytes of metadata that a message brings at most.
pub const HAMLYN_METADATA_SIZE: usize = 60;

/// Creates a notification queue of 2 to 65536 entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_queue_create(
    card: Option<&hamlyn_card>,
    entries: u32,
    queue: Option<&mut MaybeUninit<Box<hamlyn_queue>>>,
) -> c_int {
    call(|| {
        let to = given(queue, "queue")?;
        store(to, Box::new(hamlyn_queue(given(card, "card")?.0.create_queue(entries)?)))
    })
}

/// Lets a queue go; it stays for the slots that name it. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_queue_destroy(queue: Option<Box<hamlyn_queue>>) {
    free(queue);
}

/// Takes the next notification. -EOVERFLOW, once, if some were overwritten before they were taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_queue_receive(
    queue: Option<&hamlyn_queue>,
    notification: Option<&mut MaybeUninit<hamlyn_notification>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (queue, to) = (&given(queue, "queue")?.0, given(notification, "notification")?);
        let found = at_once(timeout_ms, queue.recv_block(timeout(timeout_ms)))?;
        let (metadata, is_fast, word) = match found.arrival {
            Arrival::Metadata(pointer) => (pointer, 0, 0),
            Arrival::Fast(word) => (0, 1, word),
        };
        let (slot, index) = (found.slot, found.notification_index);
        store(to, hamlyn_notification { metadata, slot, index, is_fast, word, reserved: [0; 4] })
    })
}

/// A file descriptor for poll(2) and the like, which stays the library's. Call hamlyn_queue_arm
/// before each wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_queue_fd(queue: Option<&hamlyn_queue>) -> c_int {
    call(|| Ok(given(queue, "queue")?.0.file()?.as_fd().as_raw_fd()))
}

/// Makes hamlyn_queue_fd readable once the next notification is there. Returns 1 if it is there
/// already, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_queue_arm(queue: Option<&hamlyn_queue>) -> c_int {
    call(|| Ok(given(queue, "queue")?.0.arm()?.into()))
}

/// Opens an area, or a part of it, and notifies of messages by the queue; without a queue (NULL)
/// data arrives without a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_slot_create(
    card: Option<&hamlyn_card>,
    area: Option<&hamlyn_area>,
    queue: Option<&hamlyn_queue>,
    options: Option<&hamlyn_slot_options>,
    slot: Option<&mut MaybeUninit<Box<hamlyn_slot>>>,
) -> c_int {
    call(|| {
        let to = given(slot, "slot")?;
        let (card, area) = (&given(card, "card")?.0, &given(area, "area")?.0);
        let mut builder = card.slot(area);
        if let Some(queue) = queue {
            builder = builder.queue(&queue.0);
        }
        if let Some(options) = options {
            unused(&options.reserved)?;
            let left = area.len().saturating_sub(options.start);
            let length = if options.length == 0 { left } else { options.length };
            builder = builder
                .range(options.start..options.start.saturating_add(length))
                .metadata_entries(options.metadata_entries)
                .mode(mode(options.mode)?)
                .notification_index(options.index)
                .interrupt(options.flags & HAMLYN_SLOT_QUIET == 0);
            if options.flags & !(HAMLYN_SLOT_QUIET | HAMLYN_SLOT_FETCHABLE) != 0 {
                return Err(Failure::argument(format!("slot flags {:#x} are unknown", options.flags)));
            }
            if options.flags & HAMLYN_SLOT_FETCHABLE != 0 {
                builder = builder.allow_fetch();
            }
        }
        store(to, Box::new(hamlyn_slot(builder.create()?)))
    })
}

fn mode(number: u32) -> Result<Mode, Failure> {
    match number {
        HAMLYN_MODE_NORMAL => Ok(Mode::Normal),
        HAMLYN_MODE_PARANOID => Ok(Mode::Paranoid),
        HAMLYN_MODE_ONE_SHOT => Ok(Mode::ParanoidOneShot),
        _ => Err(Failure::argument(format!("slot mode {number} is out of range (limit 2)"))),
    }
}

/// Closes a slot: when this has returned nothing more arrives. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_slot_destroy(slot: Option<Box<hamlyn_slot>>) {
    free(slot);
}

/// The ticket for a metadata entry, or with HAMLYN_FAST for fast mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_slot_ticket(
    slot: Option<&hamlyn_slot>,
    entry: u32,
    ticket: Option<&mut MaybeUninit<hamlyn_ticket>>,
) -> c_int {
    call(|| {
        let (slot, to) = (&given(slot, "slot")?.0, given(ticket, "ticket")?);
        let ticket = if entry == HAMLYN_FAST { slot.fast_ticket()? } else { slot.ticket(entry)? };
        store(to, hamlyn_ticket::new(&ticket))
    })
}

/// Which metadata entry of the slot a notification is about: -ENOENT if it is of another slot, or
/// of a fast-mode message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_slot_entry(
    slot: Option<&hamlyn_slot>,
    notification: Option<&hamlyn_notification>,
) -> c_int {
    call(|| {
        let (slot, said) = (&given(slot, "slot")?.0, given(notification, "notification")?);
        let arrival =
            if said.is_fast != 0 { Arrival::Fast(said.word) } else { Arrival::Metadata(said.metadata) };
        let notification = Notification { slot: said.slot, notification_index: said.index, arrival };
        let entry = slot.entry_of(&notification).and_then(|entry| c_int::try_from(entry).ok());
        entry.ok_or_else(|| Failure::new(ENOENT, "the notification is about no metadata entry of the slot"))
    })
}

/// Copies the metadata that a message brought, HAMLYN_METADATA_SIZE bytes: as many as its sender
/// gave, then what was there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_slot_metadata(
    slot: Option<&hamlyn_slot>,
    entry: u32,
    to: *mut c_void,
) -> c_int {
    with_entry(slot, entry, |entry| {
        bytes_mut(to, HAMLYN_METADATA_SIZE, "to")?.copy_from_slice(&entry.user());
        Ok(0)
    })
}

/// For the paranoid modes: gives an entry a random key of its own and `length` bytes from `start`
/// in the slot. Tickets that were handed out for it are void; hamlyn_slot_ticket gives another. The
/// entry counts packets from 0. If the card cannot be reached the entry stays closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_slot_protect(
    slot: Option<&hamlyn_slot>,
    entry: u32,
    start: u64,
    length: u64,
) -> c_int {
    with_entry(slot, entry, |entry| {
        entry.protect(hamlyn::random_key()?, start..start.saturating_add(length))?;
        Ok(0)
    })
}

/// For the paranoid modes: takes an entry from all who have a ticket for it, until
/// hamlyn_slot_protect. A packet that the card is checking at this moment may still be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_slot_shut(slot: Option<&hamlyn_slot>, entry: u32) -> c_int {
    with_entry(slot, entry, |entry| {
        entry.close();
        Ok(0)
    })
}

/// In one-shot mode: lets an entry take its next message, with metadata of zeros and a packet count
/// of 0. Nothing happens if it is not locked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_slot_reopen(slot: Option<&hamlyn_slot>, entry: u32) -> c_int {
    with_entry(slot, entry, |entry| {
        entry.reopen();
        Ok(0)
    })
}

/// In one-shot mode: returns 1 if an entry has had its message, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_slot_is_locked(slot: Option<&hamlyn_slot>, entry: u32) -> c_int {
    with_entry(slot, entry, |entry| Ok(entry.is_locked().into()))
}

/// Returns 1 if packets of a message, or of a group of them, have arrived and not all of them, else
/// 0. One that stays so is lost: hamlyn_slot_forget or hamlyn_slot_protect resets the entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_slot_is_partial(slot: Option<&hamlyn_slot>, entry: u32) -> c_int {
    with_entry(slot, entry, |entry| Ok(entry.is_partial().into()))
}

/// Gives up a message, or a group of them, that will never be whole: the entry counts packets from
/// 0. Its tickets stay valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_slot_forget(slot: Option<&hamlyn_slot>, entry: u32) -> c_int {
    with_entry(slot, entry, |entry| {
        entry.forget()?;
        Ok(0)
    })
}

fn with_entry(
    slot: Option<&hamlyn_slot>,
    entry: u32,
    act: impl FnOnce(&MetadataEntry) -> Result<c_int, Failure>,
) -> c_int {
    call(|| act(&given(slot, "slot")?.0.metadata(entry)?))
}
