//! Slots: message areas that other hosts may write into (sections 2.2 and 2.7).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use hamlyn_abi::family::link::ULN_NO_HOST;
use hamlyn_abi::hamlyn::command::{
    HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID, HAMLYN_MODE_PARANOID_ONE_SHOT, HAMLYN_NO_QUEUE,
    HAMLYN_SLOT_FETCH, HAMLYN_SLOT_INTERRUPT,
};
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::uapi::HamlynSlotCreate;

use crate::core::memory::Memory;
use crate::error::{Error, Result, inside};
use crate::hamlyn::attach::Attachment;
use crate::hamlyn::message_area::MessageArea;
use crate::hamlyn::metadata::{MetadataArea, MetadataEntry};
use crate::hamlyn::notification::{Arrival, Notification, NotificationQueue};
use crate::hamlyn::ticket::{Ticket, TicketFlags};

/// What the card checks an arriving packet against.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// The slot's own key and bounds.
    #[default]
    Normal,
    /// Also the metadata entry's key and bounds (section 2.7).
    Paranoid,
    /// As in paranoid mode. In addition, an entry accepts only one message until
    /// [`MetadataEntry::reopen`] (section 2.7).
    ParanoidOneShot,
}

/// Builder for a slot.
#[derive(Debug)]
pub struct SlotBuilder<'a> {
    attachment: &'a Arc<dyn Attachment>,
    area: &'a MessageArea,
    range: Range<usize>,
    metadata_entries: u32,
    mode: Mode,
    queue: Option<&'a NotificationQueue>,
    notification_index: u32,
    interrupt: bool,
    fetch: bool,
}

impl<'a> SlotBuilder<'a> {
    pub(crate) fn new(attachment: &'a Arc<dyn Attachment>, area: &'a MessageArea) -> Self {
        Self {
            attachment,
            area,
            range: 0..area.len(),
            metadata_entries: 0,
            mode: Mode::Normal,
            queue: None,
            notification_index: 0,
            interrupt: true,
            fetch: false,
        }
    }

    /// Covers this range of the area instead of all of it. Senders' offsets count from the start of
    /// the range.
    #[must_use]
    pub fn range(self, range: Range<usize>) -> Self {
        Self { range, ..self }
    }

    /// Gives the slot a metadata area with this number of entries (section 2.4). Without one, the
    /// slot accepts only fast-mode messages.
    #[must_use]
    pub fn metadata_entries(self, entries: u32) -> Self {
        Self { metadata_entries: entries, ..self }
    }

    /// Sets the protection mode. In the paranoid modes every entry starts with the slot's key and
    /// covers all bytes of the slot; [`MetadataEntry::protect`] changes that.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Sets the queue that gets a notification for each message. Several slots may share one queue.
    /// Without a queue, data arrives without notification.
    #[must_use]
    pub fn queue(self, queue: &'a NotificationQueue) -> Self {
        Self { queue: Some(queue), ..self }
    }

    /// Sets the number that the slot's notifications carry.
    #[must_use]
    pub fn notification_index(self, index: u32) -> Self {
        Self { notification_index: index, ..self }
    }

    /// Sets whether every message wakes a sleeping receiver (the default), or only a message that
    /// requests it.
    #[must_use]
    pub fn interrupt(self, always: bool) -> Self {
        Self { interrupt: always, ..self }
    }

    /// Lets senders with the key also [`crate::Terminus::fetch`] words of the area, and so read
    /// them. Words are aligned to 8 bytes of memory: if you use [`SlotBuilder::range`], start the
    /// range at a multiple of 8.
    #[must_use]
    pub fn allow_fetch(self) -> Self {
        Self { fetch: true, ..self }
    }

    /// Creates the slot.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if the range is outside the area, [`Error::Exhausted`] if the card has no
    /// slot left, [`Error::System`] if the driver or card refuses.
    pub fn create(self) -> Result<Slot> {
        let length = self.range.end.saturating_sub(self.range.start);
        inside("message area", self.range.start as u64, length as u64, self.area.len() as u64)?;
        let attachment = self.attachment;
        let metadata = self.allocate_metadata()?;
        let mut created = self.description(length, metadata.as_deref().map(MetadataArea::memory));
        attachment.create_slot(
            &mut created,
            self.area.memory(),
            metadata.as_deref().map(MetadataArea::memory),
        )?;
        let slot = Slot {
            attachment: attachment.clone(),
            created,
            mode: self.mode,
            area: self.area.clone(),
            start: self.range.start,
            metadata,
            _queue: self.queue.cloned(),
        };
        slot.open_entries()?;
        Ok(slot)
    }

    /// Allocates the metadata area. In the paranoid modes all entries start closed. The slot opens
    /// before its key is known, and an entry of zeros would accept a sender that guesses key 0.
    fn allocate_metadata(&self) -> Result<Option<Arc<MetadataArea>>> {
        if self.metadata_entries == 0 {
            return Ok(None);
        }
        let bytes = self.metadata_entries as usize * HAMLYN_METADATA_SIZE as usize;
        let attachment = self.attachment;
        let area = MetadataArea::new(attachment.allocate(bytes)?, attachment);
        if self.mode != Mode::Normal {
            for index in 0..self.metadata_entries {
                MetadataEntry::new(area.clone(), index)?.close();
            }
        }
        Ok(Some(area))
    }

    fn description(&self, length: usize, metadata: Option<&Memory>) -> HamlynSlotCreate {
        let interrupt = if self.interrupt { HAMLYN_SLOT_INTERRUPT } else { 0 };
        let fetch = if self.fetch { HAMLYN_SLOT_FETCH } else { 0 };
        HamlynSlotCreate {
            area_address: self.area.memory().card_address() + self.range.start as u64,
            area_length: length as u64,
            registration: self.area.registration_at(self.attachment),
            metadata_address: metadata.map_or(0, Memory::card_address),
            metadata_entries: self.metadata_entries,
            mode: match self.mode {
                Mode::Normal => HAMLYN_MODE_NORMAL,
                Mode::Paranoid => HAMLYN_MODE_PARANOID,
                Mode::ParanoidOneShot => HAMLYN_MODE_PARANOID_ONE_SHOT,
            },
            queue: self.queue.map_or(HAMLYN_NO_QUEUE, NotificationQueue::number),
            notification_index: self.notification_index,
            flags: interrupt | fetch,
            ..HamlynSlotCreate::default()
        }
    }
}

/// A message area that is open to holders of the slot's key. Dropping the slot closes it: nothing
/// arrives after the drop has returned.
pub struct Slot {
    attachment: Arc<dyn Attachment>,
    created: HamlynSlotCreate,
    mode: Mode,
    area: MessageArea,
    start: usize,
    metadata: Option<Arc<MetadataArea>>,
    /// Keeps the queue alive for as long as a slot uses it.
    _queue: Option<NotificationQueue>,
}

impl Slot {
    /// Returns the slot's number on this host.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.created.slot
    }

    /// Returns the number of bytes that the slot covers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.created.area_length as usize
    }

    /// Always returns false: a slot covers at least one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of metadata entries.
    #[must_use]
    pub fn metadata_entries(&self) -> u32 {
        self.created.metadata_entries
    }

    /// Returns a ticket for one metadata entry. It covers all bytes of the slot. In the paranoid
    /// modes it covers the bytes that the entry opens, and carries the entry's own key (section
    /// 2.7). So a server can give each client a ticket for its own entry.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the slot does not have this entry, [`Error::LinkDown`].
    pub fn ticket(&self, metadata_index: u32) -> Result<Ticket> {
        let entry = self.metadata(metadata_index)?;
        let ticket = self.make_ticket(metadata_index, self.created.key)?;
        if self.mode == Mode::Normal {
            return Ok(ticket);
        }
        let (opens, length) = (entry.opens(), self.created.area_length);
        let (start, end) = (opens.start.min(length), opens.end.min(length));
        let part = ticket.part(start as u32, end.saturating_sub(start) as u32)?;
        Ok(Ticket { key: entry.key(), ..part })
    }

    /// Returns a fast-mode ticket for all bytes of the slot (section 2.7).
    ///
    /// # Errors
    /// [`Error::Invalid`] in the paranoid modes, [`Error::LinkDown`].
    pub fn fast_ticket(&self) -> Result<Ticket> {
        if self.mode != Mode::Normal {
            return Err(Error::Invalid("a slot in a paranoid mode takes no fast-mode messages"));
        }
        self.make_ticket(Ticket::FAST, self.created.key)
    }

    /// Returns one of the slot's metadata entries.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the slot does not have this entry.
    pub fn metadata(&self, index: u32) -> Result<MetadataEntry> {
        match &self.metadata {
            Some(area) => MetadataEntry::new(area.clone(), index),
            None => Err(Error::Invalid("the slot has no metadata entries")),
        }
    }

    /// Returns the index of the metadata entry that a notification refers to. Returns `None` if the
    /// notification is of another slot or of a fast-mode message.
    #[must_use]
    pub fn entry_of(&self, notification: &Notification) -> Option<u32> {
        entry_of(&self.created, notification)
    }

    /// Returns what is needed to follow a notification to its metadata entry.
    pub(crate) fn entries(&self) -> Option<Entries> {
        Some(Entries { slot: self.created, area: self.metadata.clone()? })
    }

    /// Copies received bytes out, starting `offset` bytes after the slot's start. See
    /// [`MessageArea::read`].
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("slot", offset as u64, to.len() as u64, self.len() as u64)?;
        self.area.read(self.start + offset, to)
    }

    /// Returns the message area.
    #[must_use]
    pub fn area(&self) -> &MessageArea {
        &self.area
    }

    fn make_ticket(&self, metadata_index: u32, key: u64) -> Result<Ticket> {
        let host = self.attachment.query()?.host;
        if host == ULN_NO_HOST {
            return Err(Error::LinkDown);
        }
        Ok(Ticket {
            destination: host,
            slot: self.number(),
            metadata_index,
            key,
            base: 0,
            length: self.created.area_length as u32,
            flags: TicketFlags::default(),
        })
    }

    fn open_entries(&self) -> Result<()> {
        if self.mode != Mode::Normal {
            for index in 0..self.metadata_entries() {
                self.metadata(index)?.open(self.created.key, 0..self.created.area_length);
            }
        }
        Ok(())
    }
}

/// A slot's metadata area, used to follow notifications to their entries.
pub(crate) struct Entries {
    slot: HamlynSlotCreate,
    area: Arc<MetadataArea>,
}

impl Entries {
    /// Returns the entry that a notification refers to. Returns `None` if the notification is of
    /// another slot, or the entry does not exist.
    pub(crate) fn find(&self, notification: &Notification) -> Option<(u32, MetadataEntry)> {
        let index = entry_of(&self.slot, notification)?;
        Some((index, MetadataEntry::new(self.area.clone(), index).ok()?))
    }

    /// Returns all entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = MetadataEntry> + '_ {
        (0..self.slot.metadata_entries).filter_map(|index| MetadataEntry::new(self.area.clone(), index).ok())
    }
}

/// Shows everything except the key, which is a secret.
impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").field("slot", &self.slot.slot).finish_non_exhaustive()
    }
}

fn entry_of(slot: &HamlynSlotCreate, notification: &Notification) -> Option<u32> {
    let Arrival::Metadata(pointer) = notification.arrival else { return None };
    let offset = pointer.checked_sub(slot.metadata_address)?;
    let index = u32::try_from(offset / u64::from(HAMLYN_METADATA_SIZE)).ok()?;
    (notification.slot == slot.slot && index < slot.metadata_entries).then_some(index)
}

/// Shows everything except the key, which is a secret.
impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("number", &self.number())
            .field("length", &self.len())
            .field("mode", &self.mode)
            .field("metadata_entries", &self.metadata_entries())
            .finish_non_exhaustive()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Fails if the card is gone; then there is no slot to close.
        let closed = self.attachment.destroy_slot(self.created.slot);
        if closed.is_err() && self.area.memory().mapping().is_lent() {
            // But the card may also still be there. Leak the area, so that the application does not
            // get back memory that the card may still write to.
            std::mem::forget(self.area.clone());
        }
    }
}
