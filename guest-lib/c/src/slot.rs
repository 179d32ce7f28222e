//! The receiving half of the lower layer: notification queues and slots.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};

use hamlyn::{Arrival, Mode, Notification, NotificationQueue, Slot};
use libc::ENOENT;

use crate::area::hamlyn_area;
use crate::call::{Failure, unused, waits};
use crate::card::hamlyn_card;
use crate::exported::{Out, exported};
use crate::memory::{bytes_mut, items_mut};
use crate::ticket::hamlyn_ticket;

/// A queue in which a card reports messages (section 2.6 of the paper), for the program's own
/// slots. Any number of threads may use it.
pub struct hamlyn_queue(NotificationQueue);

/// An area that is open to ticket holders. Any number of threads may use it.
pub struct hamlyn_slot(Slot);

/// A complete message.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_notification {
    /// Address of the metadata entry, for hamlyn_slot_entry; 0 for a fast-mode message.
    pub metadata: u64,
    /// The slot that the message arrived in.
    pub slot: u32,
    /// The number that the slot's owner gave to the slot.
    pub index: u32,
    /// 1 if the message came in fast mode, else 0.
    pub is_fast: u32,
    /// The word of a fast-mode message.
    pub word: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 4],
}

impl From<&Notification> for hamlyn_notification {
    fn from(found: &Notification) -> Self {
        let (metadata, is_fast, word) = match found.arrival {
            Arrival::Metadata(pointer) => (pointer, 0, 0),
            Arrival::Fast(word) => (0, 1, word),
        };
        let (slot, index) = (found.slot, found.notification_index);
        Self { metadata, slot, index, is_fast, word, reserved: [0; 4] }
    }
}

fn nothing() -> Failure {
    Failure::nothing_yet("notification")
}

/// Options for a slot. Zeros mean the whole area, no metadata entries and normal mode.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_slot_options {
    /// Offset of the first byte of the area that the slot covers.
    pub start: usize,
    /// Number of bytes; 0 for all that follow.
    pub length: usize,
    /// Number of metadata entries. Without any, the slot accepts only fast-mode messages.
    pub metadata_entries: u32,
    /// HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID or HAMLYN_MODE_ONE_SHOT.
    pub mode: u32,
    /// A number that the slot's notifications carry.
    pub index: u32,
    /// HAMLYN_SLOT_QUIET and HAMLYN_SLOT_FETCHABLE.
    pub flags: u32,
    /// Must be 0.
    pub reserved: [u32; 4],
}

/// Messages are checked against the slot's own key and bounds.
pub const HAMLYN_MODE_NORMAL: u32 = 0;
/// Also checked against the metadata entry's key and bounds.
pub const HAMLYN_MODE_PARANOID: u32 = 1;
/// As HAMLYN_MODE_PARANOID. In addition, an entry accepts only one message until
/// hamlyn_slot_reopen.
pub const HAMLYN_MODE_ONE_SHOT: u32 = 2;
/// Only messages that request it wake a sleeping receiver.
pub const HAMLYN_SLOT_QUIET: u32 = 1;
/// Senders that may write may also fetch-and-op words, and so read them.
pub const HAMLYN_SLOT_FETCHABLE: u32 = 2;
/// Selects fast mode instead of a metadata entry.
pub const HAMLYN_FAST: u32 = 0xffff_ffff;
/// Maximum metadata of a message, in bytes.
pub const HAMLYN_METADATA_SIZE: usize = 60;

exported! {
/// Creates a notification queue of 2 to 65536 entries.
fn hamlyn_queue_create(card: &hamlyn_card, entries: u32, queue: Out<Box<hamlyn_queue>>) {
    queue.store(hamlyn_queue(card.0.create_queue(entries)?))
}

/// Releases a queue. It stays alive for the slots that use it. NULL is a no-op.
fn hamlyn_queue_destroy(queue: Box<hamlyn_queue>);

/// Takes the next notification. Fails with -EOVERFLOW, once, if notifications were overwritten
/// before they were taken.
fn hamlyn_queue_receive(queue: &hamlyn_queue, notification: Out<hamlyn_notification>, timeout_ms: c_int) {
    let found = match waits(timeout_ms) {
        None => queue.0.try_recv()?.ok_or_else(nothing)?,
        Some(None) => queue.0.recv()?,
        Some(Some(limit)) => queue.0.recv_timeout(limit)?,
    };
    notification.store(&found)
}

/// Takes the notifications that are there, with one look, and stores them: at most `count`. Waits
/// until there is one. Returns their number. Otherwise like hamlyn_queue_receive.
fn hamlyn_queue_receive_many(
    queue: &hamlyn_queue,
    notifications: *mut hamlyn_notification,
    count: usize,
    timeout_ms: c_int,
) {
    let to = items_mut(notifications, count, "notifications")?;
    let mut found = Vec::new();
    match waits(timeout_ms) {
        None if queue.0.try_recv_many(&mut found, count)? == 0 && count > 0 => return Err(nothing()),
        None => 0,
        Some(None) => queue.0.recv_many(&mut found, count)?,
        Some(Some(limit)) => queue.0.recv_many_timeout(&mut found, count, limit)?,
    };
    for (to, found) in to.iter_mut().zip(&found) {
        to.write(found.into());
    }
    found.len()
}

/// Returns a file descriptor for poll(2) and similar calls, owned by the library. Call
/// hamlyn_queue_arm before each wait.
fn hamlyn_queue_fd(queue: &hamlyn_queue) {
    queue.0.file()?.as_fd().as_raw_fd()
}

/// Makes hamlyn_queue_fd readable once the next notification has arrived. Returns 1 if it has
/// already, else 0.
fn hamlyn_queue_arm(queue: &hamlyn_queue) {
    queue.0.arm()?
}

/// Opens an area, or a part of it. The queue gets a notification for each message. Without a queue
/// (NULL), data arrives without notification.
fn hamlyn_slot_create(
    card: &hamlyn_card,
    area: &hamlyn_area,
    queue: Option<&hamlyn_queue>,
    options: Option<&hamlyn_slot_options>,
    slot: Out<Box<hamlyn_slot>>,
) {
    let mut builder = card.0.slot(&area.0);
    if let Some(queue) = queue {
        builder = builder.queue(&queue.0);
    }
    if let Some(options) = options {
        unused(&options.reserved)?;
        let left = area.0.len().saturating_sub(options.start);
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
    slot.store(hamlyn_slot(builder.create()?))
}
}

fn mode(number: u32) -> Result<Mode, Failure> {
    match number {
        HAMLYN_MODE_NORMAL => Ok(Mode::Normal),
        HAMLYN_MODE_PARANOID => Ok(Mode::Paranoid),
        HAMLYN_MODE_ONE_SHOT => Ok(Mode::ParanoidOneShot),
        _ => Err(Failure::argument(format!("slot mode {number} is out of range (limit 2)"))),
    }
}

exported! {
/// Closes a slot: nothing arrives after this has returned. NULL is a no-op.
fn hamlyn_slot_destroy(slot: Box<hamlyn_slot>);

/// Stores the ticket for a metadata entry, or for fast mode with HAMLYN_FAST.
fn hamlyn_slot_ticket(slot: &hamlyn_slot, entry: u32, ticket: Out<hamlyn_ticket>) {
    ticket.store(hamlyn_ticket::new(&if entry == HAMLYN_FAST {
        slot.0.fast_ticket()?
    } else {
        slot.0.ticket(entry)?
    }))
}

/// Returns the metadata entry of the slot that a notification refers to. Fails with -ENOENT if it
/// belongs to another slot or to a fast-mode message.
fn hamlyn_slot_entry(slot: &hamlyn_slot, notification: &hamlyn_notification) {
    let arrival = if notification.is_fast != 0 {
        Arrival::Fast(notification.word)
    } else {
        Arrival::Metadata(notification.metadata)
    };
    let notification =
        Notification { slot: notification.slot, notification_index: notification.index, arrival };
    let entry = slot.0.entry_of(&notification).and_then(|entry| c_int::try_from(entry).ok());
    entry.ok_or_else(|| Failure::new(ENOENT, "the notification is about no metadata entry of the slot"))?
}

/// Copies HAMLYN_METADATA_SIZE bytes of a message's metadata: the bytes that the sender gave, then
/// the entry's previous contents.
fn hamlyn_slot_metadata(slot: &hamlyn_slot, entry: u32, to: *mut c_void) {
    let entry = slot.0.metadata(entry)?;
    bytes_mut(to, HAMLYN_METADATA_SIZE, "to")?.copy_from_slice(&entry.user());
}

/// For the paranoid modes: gives an entry its own random key and `length` bytes from `start` in the
/// slot. This invalidates the entry's existing tickets; hamlyn_slot_ticket gives a new one. The
/// entry's packet count starts at 0. If the card cannot be reached, the entry stays closed.
fn hamlyn_slot_protect(slot: &hamlyn_slot, entry: u32, start: u64, length: u64) {
    slot.0.metadata(entry)?.protect(hamlyn::random_key()?, start..start.saturating_add(length))?
}

/// For the paranoid modes: revokes all tickets for an entry, until hamlyn_slot_protect. A packet
/// that the card is checking at this moment may still be written.
fn hamlyn_slot_shut(slot: &hamlyn_slot, entry: u32) {
    slot.0.metadata(entry)?.close();
}

/// In one-shot mode: lets an entry accept its next message, with zeroed metadata and a packet count
/// of 0. A no-op if the entry is not locked.
fn hamlyn_slot_reopen(slot: &hamlyn_slot, entry: u32) {
    slot.0.metadata(entry)?.reopen();
}

/// In one-shot mode: returns 1 if an entry has had its message, else 0.
fn hamlyn_slot_is_locked(slot: &hamlyn_slot, entry: u32) {
    slot.0.metadata(entry)?.is_locked()
}

/// Returns 1 if some but not all packets of a message, or of a group of messages, have arrived,
/// else 0. If this persists, the message is lost: hamlyn_slot_forget or hamlyn_slot_protect resets
/// the entry.
fn hamlyn_slot_is_partial(slot: &hamlyn_slot, entry: u32) {
    slot.0.metadata(entry)?.is_partial()
}

/// Discards an incomplete message, or group of messages: the entry's packet count restarts at 0.
/// Its tickets stay valid.
fn hamlyn_slot_forget(slot: &hamlyn_slot, entry: u32) {
    slot.0.metadata(entry)?.forget()?
}
}
