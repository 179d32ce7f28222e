//! The contract between driver and library: the ioctls of `/dev/hamlynN`.
//!
//! One open file is one protection domain: what it creates belongs to it alone and goes when it is closed or its
//! process dies. Every structure has reserved fields; they must be zero going in (`EINVAL` otherwise) and come out
//! zero. A request code that the driver does not know is answered `ENOTTY`; the library asks
//! [`HamlynQuery::capabilities`] before it uses anything newer than version 2.
//!
//! Errors all calls share: `EFAULT` (the structure cannot be read or written), `EINVAL` (a field that means nothing),
//! `ENODEV` (the card is gone or does not answer), `ENOSPC` (the card's table is full), `ENOENT` (not an object of
//! this file), `ENOMEM` (also: `RLIMIT_MEMLOCK` would be passed), `EOPNOTSUPP` (the memory cannot be shared with the
//! card: the machine would have to copy it).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Version of this contract: major in the upper half, minor in the lower.
pub const HAMLYN_UAPI_VERSION: u32 = 0x0002_0000;

/// Describes the card. Argument: [`HamlynQuery`].
pub const HAMLYN_IOC_QUERY: u32 = 0xc080_4801;
/// Creates a send terminus. Argument: [`HamlynTerminusCreate`].
pub const HAMLYN_IOC_TERMINUS_CREATE: u32 = 0xc040_4802;
/// Destroys a send terminus. Argument: [`HamlynObject`]. Its mappings stay, and read and write nothing that matters.
pub const HAMLYN_IOC_TERMINUS_DESTROY: u32 = 0xc010_4803;
/// Names a piece of the caller's memory as a send buffer. Argument: [`HamlynSendBuffer`].
pub const HAMLYN_IOC_SEND_BUFFER_SET: u32 = 0xc020_4804;
/// Takes a send buffer back. Argument: [`HamlynSendBuffer`] (`terminus` and `tag` are read, the rest is zero).
pub const HAMLYN_IOC_SEND_BUFFER_CLEAR: u32 = 0xc020_4805;
/// Creates a notification queue. Argument: [`HamlynQueueCreate`].
pub const HAMLYN_IOC_QUEUE_CREATE: u32 = 0xc020_4806;
/// Destroys a notification queue (`EBUSY` while a slot names it). Argument: [`HamlynObject`].
pub const HAMLYN_IOC_QUEUE_DESTROY: u32 = 0xc010_4807;
/// Sleeps until a notification is there. Argument: [`HamlynQueueWait`]. `ETIMEDOUT`, `EINTR`.
pub const HAMLYN_IOC_QUEUE_WAIT: u32 = 0xc020_4808;
/// Makes `poll(2)` of the file report readable once a notification is there. Argument: [`HamlynQueueWait`].
pub const HAMLYN_IOC_QUEUE_ARM: u32 = 0xc020_4809;
/// Creates a slot over pieces of the caller's memory. Argument: [`HamlynSlotCreate`].
pub const HAMLYN_IOC_SLOT_CREATE: u32 = 0xc060_480a;
/// Destroys a slot. When the call returns nothing more is deposited in its memory. Argument: [`HamlynObject`].
pub const HAMLYN_IOC_SLOT_DESTROY: u32 = 0xc010_480b;
/// Reads the card's counters. Argument: [`HamlynStatistics`].
pub const HAMLYN_IOC_STATISTICS: u32 = 0xc208_480c;
/// Runs the card's self-tests (`EPERM` without `CAP_SYS_ADMIN`). Argument: [`HamlynSelfTest`].
pub const HAMLYN_IOC_SELF_TEST: u32 = 0xc010_480d;

/// `HamlynQueueWait::timeout_ns`: no time-out.
pub const HAMLYN_WAIT_FOREVER: i64 = -1;

/// What the card is and how much of everything it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynQuery {
    /// Out: [`HAMLYN_UAPI_VERSION`] of the driver.
    pub uapi_version: u32,
    /// Out: `HAMLYN_ABI_VERSION` of the card.
    pub abi_version: u32,
    /// Out: which card (`HAMLYN_MODEL_*`).
    pub model: u32,
    /// Out: the card's host id, or `HAMLYN_NO_HOST` while its link is down.
    pub host: u32,
    /// Out: additions to version 2 that the driver and card have; none yet.
    pub capabilities: u64,
    /// Out: the most user data in a packet, in bytes.
    pub packet_size: u32,
    /// Out: the card's SRAM, in bytes.
    pub sram_size: u32,
    /// Out: send termini of the card.
    pub termini: u32,
    /// Out: slots of the card.
    pub slots: u32,
    /// Out: notification queues of the card.
    pub queues: u32,
    /// Out: interrupt vectors in use.
    pub vectors: u32,
    /// Zero.
    pub reserved: [u64; 10],
}

/// Names an object of the file: terminus, queue or slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynObject {
    /// In: its number.
    pub index: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved1: u64,
}

/// A new send terminus and where to map its parts with `mmap(2)` of the same file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynTerminusCreate {
    /// Out: its number.
    pub terminus: u32,
    /// In: its share of the link beside other busy termini, 1 to `HAMLYN_MAX_WEIGHT`, or 0 for 1. `EPERM` for more than 1
    /// without `CAP_SYS_NICE`.
    pub weight: u32,
    /// Out: offset of the window, `HAMLYN_WINDOW_SIZE` bytes, to be mapped readable and writable, shared.
    pub window_offset: u64,
    /// Out: offset of the doorbell page, `HAMLYN_DOORBELL_SIZE` bytes, to be mapped writable, shared.
    pub doorbell_offset: u64,
    /// Out: offset of the page that starts with the status words, 4,096 bytes, to be mapped read-only.
    pub status_offset: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// A send buffer of a terminus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynSendBuffer {
    /// In: the terminus.
    pub terminus: u32,
    /// In: the tag, 0 to 7. `EBUSY` if it is set already.
    pub tag: u32,
    /// In: start of the memory, in the caller's address space.
    pub address: u64,
    /// In: bytes, 1 to 1 GiB. The pages are pinned, and counted against `RLIMIT_MEMLOCK`.
    pub length: u64,
    /// Zero.
    pub reserved: u64,
}

/// A new notification queue, made of the driver's own memory (counted against `RLIMIT_MEMLOCK`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynQueueCreate {
    /// In: entries, 2 to 65,536.
    pub entries: u32,
    /// Out: its number.
    pub queue: u32,
    /// Out: offset to map it at, read-only.
    pub offset: u64,
    /// Out: bytes to map.
    pub size: u64,
    /// Zero.
    pub reserved: u64,
}

/// Which notification to wait for: the one at the caller's cursor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynQueueWait {
    /// In: the queue.
    pub queue: u32,
    /// In: the caller's cursor: an entry's index.
    pub cursor: u32,
    /// In: the caller's pass over the queue, from 0, modulo 2^30. The wait is over when that pass' entry is there, or was
    /// overwritten by a later pass'.
    pub pass: u32,
    /// Out, for arm: 1 if the wait is over already, 0 if the queue was armed.
    pub ready: u32,
    /// In, for wait: nanoseconds, 0 to look only, or [`HAMLYN_WAIT_FOREVER`]. For arm: zero.
    pub timeout_ns: i64,
    /// Zero.
    pub reserved: u64,
}

/// A new slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynSlotCreate {
    /// In: start of the message area in the caller's address space; any alignment.
    pub area_address: u64,
    /// In: its bytes, 1 to 1 GiB less the offset in its first page.
    pub area_length: u64,
    /// In: start of the metadata area, a multiple of 128; zero if there is none.
    pub metadata_address: u64,
    /// In: entries of the metadata area, of 128 bytes each; zero if there is none.
    pub metadata_entries: u32,
    /// In: `HAMLYN_MODE_*`.
    pub mode: u32,
    /// In: a queue of this file, or `HAMLYN_NO_QUEUE`.
    pub queue: u32,
    /// In: the caller's number for the slot, for its notifications.
    pub notification_index: u32,
    /// In: `HAMLYN_SLOT_*` bits.
    pub flags: u32,
    /// Out: the slot's number on this host.
    pub slot: u32,
    /// Out: its protection key, from the kernel's random source.
    pub key: u64,
    /// Zero.
    pub reserved: [u64; 5],
}

/// The card's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynStatistics {
    /// Out: how many of `values` the card has.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// Out: the counters, in the order of `hamlyn::statistics`; the rest is zero.
    pub values: [u64; 64],
}

/// Results of the self-tests: 0 for passed, else what failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynSelfTest {
    /// Out: register access.
    pub access: u32,
    /// Out: DMA: 1 the card refused, 2 the bytes are wrong (is guest memory shared with the card?).
    pub dma: u32,
    /// Out: interrupts: the first vector, plus 1, that did not arrive.
    pub interrupt: u32,
    /// Zero.
    pub reserved: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::size_of;

    /// `_IOWR('H', number, size)`, which a generated header could not carry.
    const fn iowr(number: u32, size: usize) -> u32 {
        0xc000_0000 | (size as u32) << 16 | (b'H' as u32) << 8 | number
    }

    #[test]
    fn codes_carry_the_size_of_their_argument() {
        for (code, size) in [
            (HAMLYN_IOC_QUERY, size_of::<HamlynQuery>()),
            (HAMLYN_IOC_TERMINUS_CREATE, size_of::<HamlynTerminusCreate>()),
            (HAMLYN_IOC_TERMINUS_DESTROY, size_of::<HamlynObject>()),
            (HAMLYN_IOC_SEND_BUFFER_SET, size_of::<HamlynSendBuffer>()),
            (HAMLYN_IOC_SEND_BUFFER_CLEAR, size_of::<HamlynSendBuffer>()),
            (HAMLYN_IOC_QUEUE_CREATE, size_of::<HamlynQueueCreate>()),
            (HAMLYN_IOC_QUEUE_DESTROY, size_of::<HamlynObject>()),
            (HAMLYN_IOC_QUEUE_WAIT, size_of::<HamlynQueueWait>()),
            (HAMLYN_IOC_QUEUE_ARM, size_of::<HamlynQueueWait>()),
            (HAMLYN_IOC_SLOT_CREATE, size_of::<HamlynSlotCreate>()),
            (HAMLYN_IOC_SLOT_DESTROY, size_of::<HamlynObject>()),
            (HAMLYN_IOC_STATISTICS, size_of::<HamlynStatistics>()),
            (HAMLYN_IOC_SELF_TEST, size_of::<HamlynSelfTest>()),
        ] {
            assert_eq!(code, iowr(code & 0xff, size), "ioctl {:#x}", code & 0xff);
        }
    }
}
