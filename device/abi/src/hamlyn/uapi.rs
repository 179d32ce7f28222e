//! Contract between driver and library for the Hamlyn card alone. Its calls have numbers of the
//! family's.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::identity::HAMLYN_MODEL;
use crate::uapi::call::iowr;
use crate::uapi::object::UlnObject;
use crate::uapi::query::CardQuery;

/// Creates a send terminus. Argument: [`HamlynTerminusCreate`].
pub const HAMLYN_IOC_TERMINUS_CREATE: u32 = iowr::<HamlynTerminusCreate>(2);
/// Destroys a send terminus. Argument: [`UlnObject`]. Its mappings stay, but no longer have any
/// effect.
pub const HAMLYN_IOC_TERMINUS_DESTROY: u32 = iowr::<UlnObject>(3);
/// Sets a piece of the caller's memory as a send buffer. Argument: [`HamlynSendBuffer`].
pub const HAMLYN_IOC_SEND_BUFFER_SET: u32 = iowr::<HamlynSendBuffer>(4);
/// Clears a send buffer. Argument: [`HamlynSendBuffer`]. The driver reads `terminus` and `tag`; the
/// rest is zero.
pub const HAMLYN_IOC_SEND_BUFFER_CLEAR: u32 = iowr::<HamlynSendBuffer>(5);
/// Creates a notification queue. Argument: [`HamlynQueueCreate`].
pub const HAMLYN_IOC_QUEUE_CREATE: u32 = iowr::<HamlynQueueCreate>(6);
/// Destroys a notification queue. Argument: [`UlnObject`]. Fails with `EBUSY` while a slot names
/// it.
pub const HAMLYN_IOC_QUEUE_DESTROY: u32 = iowr::<UlnObject>(7);
/// Sleeps until there is a notification. Argument: [`HamlynQueueWait`]. Fails with `ETIMEDOUT`, or
/// with `EINTR` if a signal handler has run. With a time-out, it also fails with `EINTR` if the
/// process was stopped or the machine suspended.
pub const HAMLYN_IOC_QUEUE_WAIT: u32 = iowr::<HamlynQueueWait>(8);
/// Makes `poll(2)` report the file as readable once there is a notification at the given position.
/// Argument: [`HamlynQueueWait`]. Each queue has one such position. Arming the queue again, from
/// any thread or process that shares the file, replaces it.
pub const HAMLYN_IOC_QUEUE_ARM: u32 = iowr::<HamlynQueueWait>(9);
/// Creates a slot over pieces of the caller's memory. Argument: [`HamlynSlotCreate`].
pub const HAMLYN_IOC_SLOT_CREATE: u32 = iowr::<HamlynSlotCreate>(10);
/// Destroys a slot. When the call returns, nothing more is deposited in its memory. Argument:
/// [`UlnObject`].
pub const HAMLYN_IOC_SLOT_DESTROY: u32 = iowr::<UlnObject>(11);
/// Sleeps until the card has completed requests of a terminus (the sequence number of section 2.3).
/// Argument: [`HamlynTerminusWait`]. Fails with `ETIMEDOUT` or `EINTR` like
/// [`HAMLYN_IOC_QUEUE_WAIT`].
pub const HAMLYN_IOC_TERMINUS_WAIT: u32 = iowr::<HamlynTerminusWait>(22);
/// Makes `poll(2)` report the file as readable once the card has completed requests of a terminus.
/// Argument: [`HamlynTerminusWait`]. Each terminus has one such sequence number; arming the
/// terminus again replaces it.
pub const HAMLYN_IOC_TERMINUS_ARM: u32 = iowr::<HamlynTerminusWait>(23);
/// Registers a piece of the caller's memory: it is pinned and counted once, for all slots and send
/// buffers that name the registration. Argument: [`HamlynRegistrationCreate`]. Fails with `ENOTTY`
/// without [`HAMLYN_CAPABILITY_REGISTRATIONS`].
pub const HAMLYN_IOC_REGISTRATION_CREATE: u32 = iowr::<HamlynRegistrationCreate>(30);
/// Destroys a registration. Argument: [`UlnObject`]. Fails with `EBUSY` while a slot or send buffer
/// uses it.
pub const HAMLYN_IOC_REGISTRATION_DESTROY: u32 = iowr::<UlnObject>(31);

/// `UlnQuery::capabilities`: sleeping until requests are completed.
pub const HAMLYN_CAPABILITY_COMPLETIONS: u64 = 4;
/// `UlnQuery::capabilities`: memory that slots and send buffers share.
pub const HAMLYN_CAPABILITY_REGISTRATIONS: u64 = 64;

/// What a Hamlyn card reports about its memory: the card's part of `UlnQuery`. All zero if the
/// card is older than version 2.6, or the driver predates this structure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynSramQuery {
    /// Out: bytes for termini, slots and queues, used or free.
    pub room: u32,
    /// Out: bytes of them that are free now.
    pub free: u32,
    /// Out: bytes of the longest free block.
    pub longest: u32,
    /// Zero.
    pub reserved: u32,
}

impl CardQuery for HamlynSramQuery {
    const MODEL: u32 = HAMLYN_MODEL;
}

/// Index into [`crate::uapi::UlnShareQuery`]: send termini.
pub const HAMLYN_SHARE_TERMINI: u32 = 0;
/// Index into [`crate::uapi::UlnShareQuery`]: slots.
pub const HAMLYN_SHARE_SLOTS: u32 = 1;
/// Index into [`crate::uapi::UlnShareQuery`]: notification queues.
pub const HAMLYN_SHARE_QUEUES: u32 = 2;

/// A new send terminus and where to map its parts with `mmap(2)` of the same file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynTerminusCreate {
    /// Out: its number.
    pub terminus: u32,
    /// In: its share of the link relative to other busy termini, 1 to `HAMLYN_MAX_WEIGHT`, or 0 for
    /// 1. More than 1 without `CAP_SYS_NICE` fails with `EPERM`.
    pub weight: u32,
    /// Out: offset of the window, `HAMLYN_WINDOW_SIZE` bytes, to be mapped readable and writable,
    /// shared.
    pub window_offset: u64,
    /// Out: offset of the doorbell page, `HAMLYN_DOORBELL_SIZE` bytes, to be mapped writable,
    /// shared.
    pub doorbell_offset: u64,
    /// Out: offset of the page that starts with the status words, 4,096 bytes, to be mapped
    /// read-only.
    pub status_offset: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Memory that slots and send buffers share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynRegistrationCreate {
    /// In: address of the memory in the caller's address space; any alignment.
    pub address: u64,
    /// In: bytes, 1 to 1 GiB minus the offset in the first page. The pages are pinned, and counted
    /// against `RLIMIT_MEMLOCK`.
    pub length: u64,
    /// Out: its number, which is not 0.
    pub registration: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved1: u64,
}

/// A send buffer of a terminus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynSendBuffer {
    /// In: the terminus.
    pub terminus: u32,
    /// In: the tag, 0 to 7. The call fails with `EBUSY` if it is already set.
    pub tag: u32,
    /// In: address of the memory in the caller's address space.
    pub address: u64,
    /// In: bytes, 1 to 1 GiB. The pages are pinned, and counted against `RLIMIT_MEMLOCK`.
    pub length: u64,
    /// In: a registration of this file that has all these bytes, as for a slot, or 0.
    pub registration: u32,
    /// Zero.
    pub reserved: u32,
}

/// A new notification queue, in the driver's own memory (counted against `RLIMIT_MEMLOCK`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynQueueCreate {
    /// In: entries, 2 to 65,536.
    pub entries: u32,
    /// Out: its number.
    pub queue: u32,
    /// Out: offset to map it, read-only.
    pub offset: u64,
    /// Out: bytes to map.
    pub size: u64,
    /// Zero.
    pub reserved: u64,
}

/// The notification to wait for: the one at the caller's cursor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynQueueWait {
    /// In: the queue.
    pub queue: u32,
    /// In: the caller's cursor: an entry's index.
    pub cursor: u32,
    /// In: the caller's pass over the queue, counted from 0, modulo 2^30. The wait ends when the
    /// entry of that pass is there, or was overwritten in a later pass.
    pub pass: u32,
    /// Out, for arm: 1 if the wait has ended already, 0 if the queue was armed.
    pub ready: u32,
    /// In, for wait: time-out in nanoseconds, 0 to return at once, or
    /// [`crate::uapi::ULN_WAIT_FOREVER`]. For arm: zero.
    pub timeout_ns: i64,
    /// Zero.
    pub reserved: u64,
}

/// The requests of a terminus to wait for: those before a sequence number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynTerminusWait {
    /// In: the terminus.
    pub terminus: u32,
    /// In: the wait ends when `completed` of the status words has reached this, modulo 2^32.
    pub completed: u32,
    /// Out, for arm: 1 if the wait has ended already, 0 if the terminus was armed.
    pub ready: u32,
    /// Zero.
    pub reserved0: u32,
    /// In, for wait: time-out in nanoseconds, 0 to return at once, or
    /// [`crate::uapi::ULN_WAIT_FOREVER`]. For arm: zero.
    pub timeout_ns: i64,
    /// Zero.
    pub reserved1: u64,
}

/// A new slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynSlotCreate {
    /// In: address of the message area in the caller's address space; any alignment.
    pub area_address: u64,
    /// In: its bytes, 1 to 1 GiB minus the offset in its first page.
    pub area_length: u64,
    /// In: address of the metadata area, a multiple of 128; zero if there is none.
    pub metadata_address: u64,
    /// In: number of entries of the metadata area, of 128 bytes each; zero if there is none.
    pub metadata_entries: u32,
    /// In: `HAMLYN_MODE_*`.
    pub mode: u32,
    /// In: a queue of this file, or `HAMLYN_NO_QUEUE`.
    pub queue: u32,
    /// In: the caller's number for the slot, copied into its notifications.
    pub notification_index: u32,
    /// In: `HAMLYN_SLOT_*` bits.
    pub flags: u32,
    /// Out: the slot's number on this host.
    pub slot: u32,
    /// Out: its protection key, from the kernel's random source.
    pub key: u64,
    /// In: a registration of this file that has all bytes of the message area, or 0: the driver
    /// pins and counts them for this slot alone. Fails with `ENOENT` if there is none of this
    /// number, with `EFAULT` if the area is not all in it.
    pub registration: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved: [u64; 4],
}
