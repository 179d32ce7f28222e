//! Access through the driver: `/dev/hamlynN`.

use std::io;
use std::time::Duration;

use hamlyn_abi::hamlyn::identity::{HAMLYN_ABI_VERSION, HAMLYN_MODEL};
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::hamlyn::sram::{HAMLYN_SRAM_QUEUE, HAMLYN_SRAM_SLOT, HAMLYN_SRAM_TERMINUS};
use hamlyn_abi::hamlyn::uapi::HamlynSramQuery;
use hamlyn_abi::hamlyn::window::{HAMLYN_DOORBELL_SIZE, HAMLYN_WINDOW_SIZE};
use hamlyn_abi::uapi::{
    HAMLYN_SHARE_QUEUES, HAMLYN_SHARE_SLOTS, HAMLYN_SHARE_TERMINI, HamlynQueueCreate, HamlynQueueWait,
    HamlynRegistrationCreate, HamlynSendBuffer, HamlynSlotCreate, HamlynTerminusCreate, HamlynTerminusWait,
    UlnObject, UlnQuery,
};
use hamlyn_sys::Access;
use hamlyn_sys::hamlyn::window::{QueueEntries, StatusWords, Window};
use rustix::io::Errno;

use crate::core::attach::{CardAttachment, QueueFile};
use crate::core::device::{Node, is, nanoseconds};
use crate::core::doorbell::MappedDoorbell;
use crate::core::memory::Memory;
use crate::core::model::{Model, Shared};
use crate::error::{Error, Result};
use crate::hamlyn::attach::{
    Attachment, NO_COMPLETIONS, NO_REGISTRATIONS, QueueParts, QueueWait, TerminusParts,
};

/// Bytes of the page that starts with a terminus' status words.
const STATUS_PAGE: usize = 4096;

/// The Hamlyn card model.
#[derive(Debug)]
pub enum Hamlyn {}

impl Model for Hamlyn {
    const NUMBER: u32 = HAMLYN_MODEL;
    const NAME: &'static str = "hamlyn";
    const VERSION: u32 = HAMLYN_ABI_VERSION;
    const SHARED: &'static [Shared] = &[TERMINI, SLOTS, QUEUES];
}

pub(crate) const TERMINI: Shared = Shared {
    object: "termini",
    remedy: "close some, or give the card more (hamlyn card --termini)",
    limit: |card| card.termini,
};
pub(crate) const SLOTS: Shared = Shared {
    object: "slots",
    remedy: "close some, or give the card more memory (hamlyn card --sram)",
    limit: |card| card.slots,
};
pub(crate) const QUEUES: Shared = Shared {
    object: "notification queues",
    remedy: "close some, or give the card more (hamlyn card --queues)",
    limit: |card| card.queues,
};

/// A Hamlyn card accessed through the driver.
pub type DeviceAttachment = Node<Hamlyn>;

/// Bytes of card memory that an object of a `HAMLYN_SHARE_*` kind takes.
fn bytes_of(kind: u32) -> u32 {
    match kind {
        HAMLYN_SHARE_TERMINI => HAMLYN_SRAM_TERMINUS,
        HAMLYN_SHARE_SLOTS => HAMLYN_SRAM_SLOT,
        _ => HAMLYN_SRAM_QUEUE,
    }
}

/// Returns the error for full card memory, if the card has no free piece for an object of this
/// kind.
pub(crate) fn memory_full(action: &str, kind: u32, card: &UlnQuery) -> Option<Error> {
    let HamlynSramQuery { room, free, longest, .. } = card.of_card()?;
    let needs = bytes_of(kind);
    let full = Error::MemoryFull { action: action.to_owned(), needs, free, longest, room };
    (room != 0 && longest < needs).then_some(full)
}

/// Names the exhausted resource: card memory, numbers of a kind, or the user's share of them.
fn create_error(node: &DeviceAttachment, action: String, kind: u32) -> impl FnOnce(io::Error) -> Error {
    move |error| {
        let card = if is(&error, Errno::NOSPC) { node.query().ok() } else { None };
        let full = card.and_then(|card| memory_full(&action, kind, &card));
        full.unwrap_or_else(|| node.create_error(action, kind)(error))
    }
}

/// An older driver does not know the call.
fn call_error(
    node: &DeviceAttachment,
    missing: &'static str,
    action: impl std::fmt::Display,
) -> impl FnOnce(io::Error) -> Error {
    move |error| match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOTTY) => Error::Unsupported(missing),
        _ => node.error(action)(error),
    }
}

fn map_terminus(node: &DeviceAttachment, created: &HamlynTerminusCreate) -> Result<TerminusParts> {
    let window = HAMLYN_WINDOW_SIZE as usize;
    let window = node.map("terminus window", created.window_offset, window, Access::ReadWrite)?;
    let status = node.map("terminus status", created.status_offset, STATUS_PAGE, Access::Read)?;
    let bell = HAMLYN_DOORBELL_SIZE as usize;
    let bell = node.map("terminus doorbell", created.doorbell_offset, bell, Access::Write)?;
    Ok(TerminusParts {
        terminus: created.terminus,
        window: Window::new(window).map_err(node.error("map the terminus window"))?,
        status: StatusWords::new(status).map_err(node.error("map the terminus status"))?,
        doorbell: Box::new(MappedDoorbell(bell)),
    })
}

fn map_queue(node: &DeviceAttachment, created: &HamlynQueueCreate) -> Result<QueueParts> {
    let size = usize::try_from(created.size).unwrap_or(usize::MAX);
    let mapping = node.map("notification queue", created.offset, size, Access::Read)?;
    let entries = QueueEntries::new(mapping, created.entries).map_err(node.error("map the queue"))?;
    Ok(QueueParts { queue: created.queue, entries, offset: Some(created.offset) })
}

impl Attachment for DeviceAttachment {
    fn create_terminus(&self, weight: u32) -> Result<TerminusParts> {
        let mut created = HamlynTerminusCreate { weight, ..HamlynTerminusCreate::default() };
        self.device().terminus_create(&mut created).map_err(create_error(
            self,
            "create a terminus".to_owned(),
            HAMLYN_SHARE_TERMINI,
        ))?;
        map_terminus(self, &created).inspect_err(|_| {
            let _ = self.destroy_terminus(created.terminus);
        })
    }

    fn destroy_terminus(&self, terminus: u32) -> Result<()> {
        let mut object = UlnObject { index: terminus, ..UlnObject::default() };
        self.device()
            .terminus_destroy(&mut object)
            .map_err(self.error(format!("destroy terminus {terminus}")))
    }

    fn wait_terminus(&self, terminus: u32, completed: u32, timeout: Option<Duration>) -> Result<()> {
        let timeout_ns = nanoseconds(timeout);
        let mut wait = HamlynTerminusWait { terminus, completed, timeout_ns, ..Default::default() };
        match self.device().terminus_wait(&mut wait) {
            Ok(()) => Ok(()),
            Err(error) if is(&error, Errno::TIMEDOUT) || is(&error, Errno::INTR) => Ok(()),
            Err(error) => {
                Err(call_error(self, NO_COMPLETIONS, format!("wait for terminus {terminus}"))(error))
            }
        }
    }

    fn arm_terminus(&self, terminus: u32, completed: u32) -> Result<bool> {
        let mut wait = HamlynTerminusWait { terminus, completed, ..Default::default() };
        let action = format!("arm terminus {terminus}");
        self.device().terminus_arm(&mut wait).map_err(call_error(self, NO_COMPLETIONS, action))?;
        Ok(wait.ready != 0)
    }

    fn terminus_file(&self, _terminus: u32) -> Result<QueueFile<'_>> {
        Ok(self.file())
    }

    fn register(&self, memory: &Memory) -> Result<u32> {
        let (address, length) = (memory.card_address(), memory.len() as u64);
        let mut created = HamlynRegistrationCreate { address, length, ..Default::default() };
        let action = format!("register memory ({length} bytes)");
        let other = call_error(self, NO_REGISTRATIONS, action.clone());
        let registered = self.device().registration_create(&mut created, memory.mapping());
        registered.map_err(self.memory_error(length, action, other))?;
        Ok(created.registration)
    }

    fn deregister(&self, registration: u32) -> Result<()> {
        let mut object = UlnObject { index: registration, ..UlnObject::default() };
        let action = format!("end registration {registration}");
        self.device().registration_destroy(&mut object).map_err(self.error(action))
    }

    fn set_send_buffer(&self, mut buffer: HamlynSendBuffer, memory: &Memory) -> Result<()> {
        let action = format!("set send buffer {} ({} bytes)", buffer.tag, buffer.length);
        let (bytes, other) = (buffer.length, self.error(action.clone()));
        let set = self.device().send_buffer_set(&mut buffer, memory.mapping());
        set.map_err(self.memory_error(bytes, action, other))
    }

    fn clear_send_buffer(&self, terminus: u32, tag: u32) -> Result<()> {
        let mut buffer = HamlynSendBuffer { terminus, tag, ..HamlynSendBuffer::default() };
        self.device().send_buffer_clear(&mut buffer).map_err(self.error(format!("clear send buffer {tag}")))
    }

    fn create_queue(&self, entries: u32) -> Result<QueueParts> {
        let mut created = HamlynQueueCreate { entries, ..HamlynQueueCreate::default() };
        let action = format!("create a queue of {entries} entries");
        let bytes = u64::from(entries) * u64::from(HAMLYN_NOTIFICATION_SIZE);
        let other = create_error(self, action.clone(), HAMLYN_SHARE_QUEUES);
        self.device().queue_create(&mut created).map_err(self.memory_error(bytes, action, other))?;
        map_queue(self, &created).inspect_err(|_| {
            let _ = self.destroy_queue(created.queue);
        })
    }

    fn destroy_queue(&self, queue: u32) -> Result<()> {
        let mut object = UlnObject { index: queue, ..UlnObject::default() };
        self.device().queue_destroy(&mut object).map_err(self.error(format!("destroy queue {queue}")))
    }

    fn wait_queue(&self, wait: QueueWait, timeout: Option<Duration>) -> Result<()> {
        let mut wait = position(wait);
        wait.timeout_ns = nanoseconds(timeout);
        match self.device().queue_wait(&mut wait) {
            Ok(()) => Ok(()),
            Err(error) if is(&error, Errno::TIMEDOUT) || is(&error, Errno::INTR) => Ok(()),
            Err(error) => Err(self.error(format!("wait for queue {}", wait.queue))(error)),
        }
    }

    fn arm_queue(&self, wait: QueueWait) -> Result<bool> {
        let mut wait = position(wait);
        let action = format!("arm queue {}", wait.queue);
        self.device().queue_arm(&mut wait).map_err(self.error(action))?;
        Ok(wait.ready != 0)
    }

    fn queue_file(&self, _queue: u32) -> Result<QueueFile<'_>> {
        Ok(self.file())
    }

    fn create_slot(
        &self,
        slot: &mut HamlynSlotCreate,
        area: &Memory,
        metadata: Option<&Memory>,
    ) -> Result<()> {
        let action = format!("create a slot of {} bytes", slot.area_length);
        let metadata_length = u64::from(slot.metadata_entries) * u64::from(HAMLYN_METADATA_SIZE);
        let (bytes, other) =
            (slot.area_length + metadata_length, create_error(self, action.clone(), HAMLYN_SHARE_SLOTS));
        self.device()
            .slot_create(slot, area.mapping(), metadata.map(|memory| &**memory.mapping()))
            .map_err(self.memory_error(bytes, action, other))
    }

    fn destroy_slot(&self, slot: u32) -> Result<()> {
        let mut object = UlnObject { index: slot, ..UlnObject::default() };
        self.device().slot_destroy(&mut object).map_err(self.error(format!("destroy slot {slot}")))
    }
}

fn position(wait: QueueWait) -> HamlynQueueWait {
    let QueueWait { queue, cursor, pass } = wait;
    HamlynQueueWait { queue, cursor, pass, ..HamlynQueueWait::default() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn full_memory_names_need_free_and_room() {
        let card = |room, free, longest| {
            let mut query = UlnQuery { model: HAMLYN_MODEL, ..UlnQuery::default() };
            query.set_card(&HamlynSramQuery { room, free, longest, reserved: 0 });
            query
        };
        let error = memory_full("create a slot", HAMLYN_SHARE_SLOTS, &card(4096, 192, 64)).unwrap();
        assert_eq!(
            error.to_string(),
            "cannot create a slot: card memory full: needs 128 bytes in one piece, 192 of 4096 are free (longest piece \
             64): close some, or give the card more memory (hamlyn card --sram)"
        );
        assert!(error.is_exhausted());
        // The numbers are used up, or the card is too old to have one memory.
        assert!(memory_full("create a slot", HAMLYN_SHARE_SLOTS, &card(4096, 128, 128)).is_none());
        assert!(memory_full("create a queue", HAMLYN_SHARE_QUEUES, &card(4096, 64, 64)).is_none());
        assert!(memory_full("create a terminus", HAMLYN_SHARE_TERMINI, &card(4096, 448, 448)).is_some());
        assert!(memory_full("create a slot", HAMLYN_SHARE_SLOTS, &card(0, 0, 0)).is_none());
    }

    #[test]
    fn calls_unknown_to_old_driver_are_unsupported() {
        // A file that supports no call returns ENOTTY, as a driver does for an unknown call.
        let old = DeviceAttachment::unchecked(Path::new("/dev/null")).unwrap();
        assert!(matches!(old.wait_terminus(0, 1, None), Err(Error::Unsupported(_))));
        assert!(matches!(old.arm_terminus(0, 1), Err(Error::Unsupported(_))));
        let memory = Memory::anonymous(1).unwrap();
        assert!(matches!(old.register(&memory), Err(Error::Unsupported(_))));
        assert!(matches!(old.ask(1, "name"), Err(Error::Unsupported(_))));
        // Calls that every driver has are never missing: this file is not a card's node.
        let none = DeviceAttachment::open(Path::new("/dev/null")).unwrap_err();
        assert!(matches!(none, Error::System { .. }), "{none}");
    }
}
