//! Through the driver: `/dev/hamlynN`.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hamlyn_abi::family::area::HAMLYN_MAX_AREA;
use hamlyn_abi::hamlyn::identity::HAMLYN_MODEL_HAMLYN;
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::hamlyn::window::{HAMLYN_DOORBELL_SIZE, HAMLYN_WINDOW_SIZE};
use hamlyn_abi::uapi::{
    HAMLYN_MAX_CONNECTIONS, HAMLYN_SHARE_CONNECTIONS, HAMLYN_SHARE_QUEUES, HAMLYN_SHARE_SLOTS,
    HAMLYN_SHARE_TERMINI, HAMLYN_UAPI_VERSION, HAMLYN_WAIT_FOREVER, HamlynObject, HamlynQuery,
    HamlynQueueCreate, HamlynQueueWait, HamlynSelfTest, HamlynSendBuffer, HamlynShareQuery, HamlynSlotCreate,
    HamlynStatistics, HamlynTerminusCreate, HamlynTerminusWait,
};
use hamlyn_sys::window::{QueueEntries, StatusWords, Window};
use hamlyn_sys::{Access, Device, Mapping};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use zerocopy::FromZeros;

use super::{
    Attachment, ConnectionParts, Doorbell, ListenerParts, QueueFile, QueueParts, QueueWait, TerminusParts,
    connection,
};
use crate::error::{Error, GivenBack, Result, at_most};
use crate::memory::Memory;

/// Bytes of the page that starts with a terminus' status words.
const STATUS_PAGE: usize = 4096;
/// What users share, by `HAMLYN_SHARE_*`.
const SHARED: [&str; 4] = ["termini", "slots", "notification queues", super::CONNECTIONS];

/// A card reached through the driver.
#[derive(Debug)]
pub struct DeviceAttachment {
    device: Device,
    path: PathBuf,
}

impl DeviceAttachment {
    /// Opens the device at `path`.
    ///
    /// # Errors
    /// [`Error::System`] if it cannot be opened, [`Error::Incompatible`] if its driver or card is of another version.
    pub fn open(path: &Path) -> Result<Self> {
        let device = Device::open(path).map_err(Error::system(format!("open {}", path.display())))?;
        let attachment = Self { device, path: path.to_path_buf() };
        let query = attachment.query()?;
        super::check_version("driver version", query.uapi_version, HAMLYN_UAPI_VERSION)?;
        super::check_model(query.model, HAMLYN_MODEL_HAMLYN)?;
        Ok(attachment)
    }

    /// Names what failed, on this device.
    fn error(&self, action: impl std::fmt::Display) -> impl FnOnce(io::Error) -> Error {
        Error::system(format!("{action} of {}", self.path.display()))
    }

    /// Names what there is none left of, on the card or for its user (`HAMLYN_SHARE_*`), or what else failed.
    fn create_error(&self, action: impl std::fmt::Display, kind: u32) -> impl FnOnce(io::Error) -> Error {
        move |error| match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::DQUOT) => self.quota(kind, error, &action),
            Some(Errno::NOSPC) => self.none_left(kind, error, &action),
            _ => self.error(action)(error),
        }
    }

    /// Says so if it was about these bytes, which count against what the process may lock.
    fn memory_error(
        &self,
        bytes: u64,
        action: String,
        other: impl FnOnce(io::Error) -> Error,
    ) -> impl FnOnce(io::Error) -> Error {
        let action = format!("{action} of {}", self.path.display());
        move |error| match getrlimit(Resource::Memlock).current {
            Some(limit) if is(&error, Errno::NOMEM) => Error::Locked { action, bytes, limit },
            _ => other(error),
        }
    }

    /// A driver of before does not know the call.
    fn completion_error(&self, action: impl std::fmt::Display) -> impl FnOnce(io::Error) -> Error {
        move |error| match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOTTY) => Error::Unsupported(super::NO_COMPLETIONS),
            _ => self.error(action)(error),
        }
    }

    fn quota(&self, kind: u32, error: io::Error, action: &dyn std::fmt::Display) -> Error {
        let mut share = HamlynShareQuery::default();
        if self.device.share(&mut share).is_err() {
            return self.error(action)(error);
        }
        let kind = kind as usize;
        let object = SHARED[kind];
        // Somebody else may have let go of something meanwhile.
        let (held, limit) = (share.held[kind], share.limit[kind].min(share.held[kind]));
        Error::Quota { object, user: share.user, held, limit }
    }

    fn none_left(&self, kind: u32, error: io::Error, action: &dyn std::fmt::Display) -> Error {
        let limit = self.query().ok().and_then(|card| match kind {
            HAMLYN_SHARE_TERMINI => Some(card.termini),
            HAMLYN_SHARE_SLOTS => Some(card.slots),
            HAMLYN_SHARE_QUEUES => Some(card.queues),
            HAMLYN_SHARE_CONNECTIONS => Some(HAMLYN_MAX_CONNECTIONS),
            _ => None,
        });
        match limit {
            Some(limit) => super::none_left(SHARED[kind as usize], limit),
            None => self.error(action)(error),
        }
    }

    fn map(&self, what: &str, offset: u64, length: usize, access: Access) -> Result<Arc<Mapping>> {
        let mapping =
            self.device.map(offset, length, access).map_err(self.error(format!("map the {what}")))?;
        Ok(Arc::new(mapping))
    }

    fn map_terminus(&self, created: &HamlynTerminusCreate) -> Result<TerminusParts> {
        let window = HAMLYN_WINDOW_SIZE as usize;
        let window = self.map("terminus window", created.window_offset, window, Access::ReadWrite)?;
        let status = self.map("terminus status", created.status_offset, STATUS_PAGE, Access::Read)?;
        let bell = HAMLYN_DOORBELL_SIZE as usize;
        let bell = self.map("terminus doorbell", created.doorbell_offset, bell, Access::Write)?;
        Ok(TerminusParts {
            terminus: created.terminus,
            window: Window::new(window).map_err(self.error("map the terminus window"))?,
            status: StatusWords::new(status).map_err(self.error("map the terminus status"))?,
            doorbell: Box::new(MappedDoorbell(bell)),
        })
    }

    fn map_queue(&self, created: &HamlynQueueCreate) -> Result<QueueParts> {
        let size = usize::try_from(created.size).unwrap_or(usize::MAX);
        let mapping = self.map("notification queue", created.offset, size, Access::Read)?;
        let entries = QueueEntries::new(mapping, created.entries).map_err(self.error("map the queue"))?;
        Ok(QueueParts { queue: created.queue, entries })
    }
}

impl Attachment for DeviceAttachment {
    fn query(&self) -> Result<HamlynQuery> {
        let mut query = HamlynQuery::default();
        self.device.query(&mut query).map_err(self.error("ask for a description"))?;
        Ok(query)
    }

    fn allocate(&self, length: usize) -> Result<Memory> {
        at_most("memory length", length as u64, HAMLYN_MAX_AREA)?;
        Memory::anonymous(length).map_err(Error::system(format!("map {length} bytes")))
    }

    /// The driver pins any bytes of the process.
    fn lend(&self, mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
        let length = mapping.length();
        Ok(Memory::local(mapping, length))
    }

    fn create_terminus(&self, weight: u32) -> Result<TerminusParts> {
        let mut created = HamlynTerminusCreate { weight, ..HamlynTerminusCreate::default() };
        self.device
            .terminus_create(&mut created)
            .map_err(self.create_error("create a terminus", HAMLYN_SHARE_TERMINI))?;
        self.map_terminus(&created).inspect_err(|_| {
            let _ = self.destroy_terminus(created.terminus);
        })
    }

    fn destroy_terminus(&self, terminus: u32) -> Result<()> {
        let mut object = HamlynObject { index: terminus, ..HamlynObject::default() };
        self.device.terminus_destroy(&mut object).map_err(self.error(format!("destroy terminus {terminus}")))
    }

    fn wait_terminus(&self, terminus: u32, completed: u32, timeout: Option<Duration>) -> Result<()> {
        let timeout_ns = nanoseconds(timeout);
        let mut wait = HamlynTerminusWait { terminus, completed, timeout_ns, ..Default::default() };
        match self.device.terminus_wait(&mut wait) {
            Ok(()) => Ok(()),
            Err(error) if is(&error, Errno::TIMEDOUT) || is(&error, Errno::INTR) => Ok(()),
            Err(error) => Err(self.completion_error(format!("wait for terminus {terminus}"))(error)),
        }
    }

    fn arm_terminus(&self, terminus: u32, completed: u32) -> Result<bool> {
        let mut wait = HamlynTerminusWait { terminus, completed, ..Default::default() };
        let action = format!("arm terminus {terminus}");
        self.device.terminus_arm(&mut wait).map_err(self.completion_error(action))?;
        Ok(wait.ready != 0)
    }

    fn terminus_file(&self, _terminus: u32) -> Result<QueueFile<'_>> {
        Ok(QueueFile::Borrowed(self.device.as_fd()))
    }

    fn set_send_buffer(&self, mut buffer: HamlynSendBuffer, memory: &Memory) -> Result<()> {
        let action = format!("set send buffer {} ({} bytes)", buffer.tag, buffer.length);
        let (bytes, other) = (buffer.length, self.error(action.clone()));
        let set = self.device.send_buffer_set(&mut buffer, memory.mapping());
        set.map_err(self.memory_error(bytes, action, other))
    }

    fn clear_send_buffer(&self, terminus: u32, tag: u32) -> Result<()> {
        let mut buffer = HamlynSendBuffer { terminus, tag, ..HamlynSendBuffer::default() };
        self.device.send_buffer_clear(&mut buffer).map_err(self.error(format!("clear send buffer {tag}")))
    }

    fn create_queue(&self, entries: u32) -> Result<QueueParts> {
        let mut created = HamlynQueueCreate { entries, ..HamlynQueueCreate::default() };
        let action = format!("create a queue of {entries} entries");
        let bytes = u64::from(entries) * u64::from(HAMLYN_NOTIFICATION_SIZE);
        let other = self.create_error(action.clone(), HAMLYN_SHARE_QUEUES);
        self.device.queue_create(&mut created).map_err(self.memory_error(bytes, action, other))?;
        self.map_queue(&created).inspect_err(|_| {
            let _ = self.destroy_queue(created.queue);
        })
    }

    fn destroy_queue(&self, queue: u32) -> Result<()> {
        let mut object = HamlynObject { index: queue, ..HamlynObject::default() };
        self.device.queue_destroy(&mut object).map_err(self.error(format!("destroy queue {queue}")))
    }

    fn wait_queue(&self, wait: QueueWait, timeout: Option<Duration>) -> Result<()> {
        let mut wait = position(wait);
        wait.timeout_ns = nanoseconds(timeout);
        match self.device.queue_wait(&mut wait) {
            Ok(()) => Ok(()),
            Err(error) if is(&error, Errno::TIMEDOUT) || is(&error, Errno::INTR) => Ok(()),
            Err(error) => Err(self.error(format!("wait for queue {}", wait.queue))(error)),
        }
    }

    fn arm_queue(&self, wait: QueueWait) -> Result<bool> {
        let mut wait = position(wait);
        let action = format!("arm queue {}", wait.queue);
        self.device.queue_arm(&mut wait).map_err(self.error(action))?;
        Ok(wait.ready != 0)
    }

    fn queue_file(&self, _queue: u32) -> Result<QueueFile<'_>> {
        Ok(QueueFile::Borrowed(self.device.as_fd()))
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
            (slot.area_length + metadata_length, self.create_error(action.clone(), HAMLYN_SHARE_SLOTS));
        self.device
            .slot_create(slot, area.mapping(), metadata.map(|memory| &**memory.mapping()))
            .map_err(self.memory_error(bytes, action, other))
    }

    fn destroy_slot(&self, slot: u32) -> Result<()> {
        let mut object = HamlynObject { index: slot, ..HamlynObject::default() };
        self.device.slot_destroy(&mut object).map_err(self.error(format!("destroy slot {slot}")))
    }

    fn statistics(&self) -> Result<HamlynStatistics> {
        let mut statistics = HamlynStatistics::new_zeroed();
        self.device.statistics(&mut statistics).map_err(self.error("read the counters"))?;
        Ok(statistics)
    }

    fn self_test(&self) -> Result<HamlynSelfTest> {
        let mut results = HamlynSelfTest::default();
        self.device.self_test(&mut results).map_err(self.error("run the self-tests"))?;
        Ok(results)
    }

    fn listen(&self, name: &str, backlog: u32) -> Result<Box<dyn ListenerParts>> {
        let mut argument = connection::listen(name, backlog);
        let action = format!("take the name {name:?}");
        let file = self.device.listen(&mut argument);
        Ok(Box::new(file.map_err(self.create_error(action, HAMLYN_SHARE_CONNECTIONS))?))
    }

    fn connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Box<dyn ConnectionParts>> {
        let mut argument = connection::connect(host, name, private);
        let action = format!("connect to {name:?} on host {host}");
        let file = self.device.connect(&mut argument);
        Ok(Box::new(file.map_err(self.create_error(action, HAMLYN_SHARE_CONNECTIONS))?))
    }

    fn ask(&self, host: u32, name: &str) -> Result<Box<dyn ConnectionParts>> {
        let mut argument = connection::connect(host, name, b"");
        let action = format!("ask for {name:?} on host {host}");
        match self.device.ask(&mut argument) {
            Ok(file) => Ok(Box::new(file)),
            // A driver of before does not know the call.
            Err(error) if is(&error, Errno::NOTTY) => Err(Error::Unsupported(super::NO_QUESTIONS)),
            Err(error) => Err(self.create_error(action, HAMLYN_SHARE_CONNECTIONS)(error)),
        }
    }
}

/// A time-out as the driver takes it.
fn nanoseconds(timeout: Option<Duration>) -> i64 {
    timeout.map_or(HAMLYN_WAIT_FOREVER, |limit| i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX))
}

fn position(wait: QueueWait) -> HamlynQueueWait {
    let QueueWait { queue, cursor, pass } = wait;
    HamlynQueueWait { queue, cursor, pass, ..HamlynQueueWait::default() }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// A doorbell page of BAR 4.
#[derive(Debug)]
struct MappedDoorbell(Arc<Mapping>);

impl Doorbell for MappedDoorbell {
    fn ring(&self) -> Result<()> {
        self.0.store_u32(0, 1);
        Ok(())
    }
}
