//! Express memory (`docs/express.md`): pages that a process of this host and a process of another
//! host share. No other process can access them.
//!
//! The receiver makes an *area* for a host, and passes its number and key to a process there, in
//! any way. That process maps it, once: the mapping is a *view*. Both may load and store. The use
//! of the memory is up to them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call::{CardArgument, iowr};
use super::object::UlnObject;

/// Makes a zeroed area of express memory for a host. Argument: [`UlnExpressCreate`]. Fails with
/// `EHOSTUNREACH` if the two hosts share no express memory. Fails with `ENOSPC` if too few pages
/// are free. `EDQUOT`: the user's share of the pages is too small. `EOPNOTSUPP`: the driver lacks
/// [`super::query::ULN_CAPABILITY_EXPRESS`].
pub const ULN_IOC_EXPRESS_CREATE: u32 = iowr::<UlnExpressCreate>(25);
/// Maps an area that a process of another host has made for this host, as a view. Argument:
/// [`UlnExpressMap`]. Waits for that host's answer. Fails with `EHOSTUNREACH` if there is no
/// express memory with that host, or that host has other memory. `EACCES`: the area does not exist,
/// or has another key. `EBUSY`: it already has a view. `EHOSTDOWN`: the host does not respond.
/// `EINTR`: a signal arrived.
pub const ULN_IOC_EXPRESS_MAP: u32 = iowr::<UlnExpressMap>(26);
/// Gives an area or a view back. Its mappings stay, and show memory that no other process sees.
/// Argument: [`UlnObject`].
pub const ULN_IOC_EXPRESS_DESTROY: u32 = iowr::<UlnObject>(27);
/// Returns the state of the express memory with a host. Argument: [`UlnExpressQuery`].
pub const ULN_IOC_EXPRESS_QUERY: u32 = iowr::<UlnExpressQuery>(28);

/// A new area.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnExpressCreate {
    /// In: the host that the area is for.
    pub host: u32,
    /// Out: the area's number, for calls of this file and for the other host.
    pub number: u32,
    /// In: bytes: a multiple of 4,096, at least 4,096, and at most half a part.
    pub length: u64,
    /// Out: its key, from the kernel's random source.
    pub key: u64,
    /// Out: offset for mmap(2) of this file, readable and writable, shared.
    pub offset: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// A new view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnExpressMap {
    /// In: the host that has made the area.
    pub host: u32,
    /// In: the area's number on that host.
    pub area: u32,
    /// In: its key.
    pub key: u64,
    /// Out: the view's number, for calls of this file.
    pub number: u32,
    /// Zero.
    pub reserved0: u32,
    /// Out: bytes.
    pub length: u64,
    /// Out: offset for mmap(2) of this file, readable and writable, shared.
    pub offset: u64,
    /// Zero.
    pub reserved: [u64; 3],
}

/// State of the express memory with a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnExpressQuery {
    /// In: the host.
    pub host: u32,
    /// Zero.
    pub reserved0: u32,
    /// Out: bytes that the two hosts share, or 0 if they share none. This host assigns half of
    /// them.
    pub part: u64,
    /// Out: pages that this host assigns.
    pub pages: u32,
    /// Out: number of these pages that areas have.
    pub used: u32,
    /// Out: pages of former areas, until the other host confirms that no process there sees them.
    pub leaving: u32,
    /// Out: pages of the other host that views here have.
    pub viewed: u32,
    /// Out: pages that areas of the user that opened the file have.
    pub held: u32,
    /// Out: number of pages that this user may hold at present: a share of what other users leave.
    pub limit: u32,
    /// Zero.
    pub reserved: [u64; 3],
}

impl CardArgument for UlnExpressCreate {}
impl CardArgument for UlnExpressMap {}
impl CardArgument for UlnExpressQuery {}
