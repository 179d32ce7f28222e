//! `/dev/hamlynN`, or another model's node: typed wrappers of the driver's ioctls
//! (`hamlyn_abi::uapi`), and mappings of its file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::uapi::*;
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::Updater;

use crate::mapping::{Access, Mapping};

/// An open `/dev/hamlynN`, or another model's node: one protection domain. Dropping it destroys the
/// objects that it created.
#[derive(Debug)]
pub struct Device {
    file: OwnedFd,
}

impl Device {
    /// Opens the device at `path`.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { file })
    }

    /// Wraps a device that is already open: inherited, or passed by another process. `class` is the
    /// name of the model's nodes.
    ///
    /// # Errors
    /// `EINVAL` for a file that is not a node of the model; those of `fstat(2)` and of the lookup
    /// in `/sys`.
    pub fn of_file(file: OwnedFd, class: &str) -> io::Result<Self> {
        let number = rustix::fs::fstat(&file)?.st_rdev;
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let found = std::fs::read_link(format!("/sys/dev/char/{major}:{minor}/subsystem"))?;
        if found.file_name() == Some(class.as_ref()) { Ok(Self { file }) } else { Err(invalid()) }
    }

    /// Maps `length` bytes at an offset from the driver.
    ///
    /// # Errors
    /// Those of `mmap(2)`; the driver returns `EINVAL` or `EACCES` for objects of another file.
    pub fn map(&self, offset: u64, length: usize, access: Access) -> io::Result<Mapping> {
        Mapping::of_file(&self.file, offset, length, access)
    }

    /// Maps several parts, each an offset and a length, contiguously.
    ///
    /// # Errors
    /// Those of [`Device::map`].
    pub fn map_parts(&self, parts: &[(u64, usize)], access: Access) -> io::Result<Mapping> {
        Mapping::of_file_parts(&self.file, parts, access)
    }

    /// Registers a piece of `memory` as a send buffer.
    ///
    /// # Errors
    /// The driver's; `EINVAL` also for an address outside `memory`.
    pub fn send_buffer_set(&self, argument: &mut HamlynSendBuffer, memory: &Mapping) -> io::Result<()> {
        inside(memory, argument.address, argument.length)?;
        self.call::<HAMLYN_IOC_SEND_BUFFER_SET, _>(argument)
    }

    /// Registers a piece of `memory`, for slots and send buffers to share.
    ///
    /// # Errors
    /// The driver's; `EINVAL` also for an address outside `memory`.
    pub fn registration_create(
        &self,
        argument: &mut HamlynRegistrationCreate,
        memory: &Mapping,
    ) -> io::Result<()> {
        inside(memory, argument.address, argument.length)?;
        self.call::<HAMLYN_IOC_REGISTRATION_CREATE, _>(argument)
    }

    /// Creates a slot over a piece of `area`, with a metadata area in `metadata` if the argument
    /// has one.
    ///
    /// # Errors
    /// The driver's; `EINVAL` also for an address outside the memory.
    pub fn slot_create(
        &self,
        argument: &mut HamlynSlotCreate,
        area: &Mapping,
        metadata: Option<&Mapping>,
    ) -> io::Result<()> {
        inside(area, argument.area_address, argument.area_length)?;
        match metadata {
            Some(memory) => {
                let length = u64::from(argument.metadata_entries) * u64::from(HAMLYN_METADATA_SIZE);
                inside(memory, argument.metadata_address, length)?;
            }
            None if argument.metadata_entries != 0 => return Err(invalid()),
            None => {}
        }
        self.call::<HAMLYN_IOC_SLOT_CREATE, _>(argument)
    }

    /// Makes a call that is specific to a later model. A wrong code, or a code with another
    /// argument, does not compile.
    ///
    /// # Errors
    /// The driver's; `EINVAL` also if the argument refers to an address outside `memory`.
    pub fn card_call<const CODE: u32, T: CardArgument>(
        &self,
        argument: &mut T,
        memory: &[&Mapping],
    ) -> io::Result<()> {
        const {
            assert!(CODE >> 16 == 0xc000 | size_of::<T>() as u32, "the call has another argument");
            assert!(CODE >> 8 & 0xff == b'H' as u32, "not a call of the driver's");
            assert!(CODE & 0xff >= ULN_FIRST_CARD_CALL, "not a later model's call");
        }
        let mut named = Ok(());
        argument.names(&mut |address, length| {
            if !memory.iter().any(|mapping| mapping.contains(address, length)) {
                named = Err(invalid());
            }
        });
        named?;
        self.call::<CODE, T>(argument)
    }

    /// Reads the user's share with a structure of `SIZE` bytes, like a program that is older or
    /// newer than the driver.
    ///
    /// # Errors
    /// The driver's: `E2BIG` if bytes that the driver does not know are not zero.
    pub fn share_sized<const CODE: u32, const SIZE: usize>(&self, share: &mut [u8; SIZE]) -> io::Result<()> {
        const {
            assert!(CODE & 0xffff == ULN_IOC_SHARE & 0xffff, "not the call for the share");
            assert!(CODE >> 16 == 0xc000 | SIZE as u32, "the call has another size");
        }
        self.call::<CODE, _>(share)
    }

    fn call<const CODE: u32, T>(&self, argument: &mut T) -> io::Result<()> {
        // SAFETY: private, and every use pairs a code with the structure whose size the code
        // carries (a test of hamlyn-abi, or the compiler). The driver reads and writes only that
        // structure. Memory that it refers to was checked to belong to a `Mapping`, which is
        // accessed by atomics only, and is pinned by the kernel.
        let call = unsafe { Updater::<'_, CODE, T>::new(argument) };
        // SAFETY: as above.
        unsafe { rustix::ioctl::ioctl(&self.file, call)? };
        Ok(())
    }
}

/// Fails with `EINVAL` for memory outside a `Mapping`. The card may write to memory that a
/// structure refers to, so there must be no references into it.
fn inside(memory: &Mapping, address: u64, length: u64) -> io::Result<()> {
    if memory.contains(address, length) { Ok(()) } else { Err(invalid()) }
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($argument:ty) = $code:ident;)*) => {
        impl Device {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// The driver's: see `hamlyn_abi::uapi`.
                pub fn $name(&self, argument: &mut $argument) -> io::Result<()> {
                    self.call::<{ $code }, $argument>(argument)
                }
            )*
        }
    };
}

calls! {
    /// Describes the card.
    query(UlnQuery) = ULN_IOC_QUERY;
    /// Creates a send terminus.
    terminus_create(HamlynTerminusCreate) = HAMLYN_IOC_TERMINUS_CREATE;
    /// Destroys a send terminus.
    terminus_destroy(UlnObject) = HAMLYN_IOC_TERMINUS_DESTROY;
    /// Releases a send buffer.
    send_buffer_clear(HamlynSendBuffer) = HAMLYN_IOC_SEND_BUFFER_CLEAR;
    /// Creates a notification queue.
    queue_create(HamlynQueueCreate) = HAMLYN_IOC_QUEUE_CREATE;
    /// Destroys a notification queue.
    queue_destroy(UlnObject) = HAMLYN_IOC_QUEUE_DESTROY;
    /// Sleeps until a notification has arrived.
    queue_wait(HamlynQueueWait) = HAMLYN_IOC_QUEUE_WAIT;
    /// Makes `poll(2)` report the next notification.
    queue_arm(HamlynQueueWait) = HAMLYN_IOC_QUEUE_ARM;
    /// Sleeps until requests of a terminus are completed.
    terminus_wait(HamlynTerminusWait) = HAMLYN_IOC_TERMINUS_WAIT;
    /// Makes `poll(2)` report that requests of a terminus are completed.
    terminus_arm(HamlynTerminusWait) = HAMLYN_IOC_TERMINUS_ARM;
    /// Reads the card's counters.
    statistics(UlnStatistics) = ULN_IOC_STATISTICS;
    /// Runs the card's self-tests.
    self_test(UlnSelfTest) = ULN_IOC_SELF_TEST;
    /// Reads how much of the card its user holds, and may hold.
    share(UlnShareQuery) = ULN_IOC_SHARE;
    /// Destroys a slot.
    slot_destroy(UlnObject) = HAMLYN_IOC_SLOT_DESTROY;
    /// Destroys a registration.
    registration_destroy(UlnObject) = HAMLYN_IOC_REGISTRATION_DESTROY;
    /// Creates an area of express memory.
    express_create(UlnExpressCreate) = ULN_IOC_EXPRESS_CREATE;
    /// Maps another host's area.
    express_map(UlnExpressMap) = ULN_IOC_EXPRESS_MAP;
    /// Releases an area or a view.
    express_destroy(UlnObject) = ULN_IOC_EXPRESS_DESTROY;
    /// Reads the state of the express memory shared with a host.
    express_query(UlnExpressQuery) = ULN_IOC_EXPRESS_QUERY;
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
