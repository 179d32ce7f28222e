//! Arguments that calls of all cards share: an object of the file, and a time-out.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call::{CardArgument, iowr};

/// Opens a file of its own for one object, for `poll(2)` and the like. Returns the file's
/// descriptor. Argument: [`UlnObjectFile`].
///
/// The file is readable while the object has the awaited event; it reports `EPOLLHUP` once the
/// object is closed. From this call on, the card's file does not report the object. The new file
/// keeps the object's memory, but does not keep the object open. `ENOENT`: the
/// file has no object there; `EOPNOTSUPP`: objects of this kind cannot be polled; `EINVAL`: nothing
/// to wait for. Drivers without [`super::query::ULN_CAPABILITY_OBJECT_FILES`] lack this call.
pub const ULN_IOC_OBJECT_FILE: u32 = iowr::<UlnObjectFile>(29);

/// `timeout_ns` of the calls that wait: no time-out.
pub const ULN_WAIT_FOREVER: i64 = -1;

/// Names an object of the file: for a Hamlyn card a terminus, queue or slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnObject {
    /// In: its number.
    pub index: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved1: u64,
}

impl CardArgument for UlnObject {}

/// An object, and what its own file reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnObjectFile {
    /// In: the object's offset for `mmap(2)`, as its driver returned it.
    pub offset: u64,
    /// In: what to wait for. A CLAN endpoint: bits of its bitmap. Others: zero.
    pub what: u64,
}
