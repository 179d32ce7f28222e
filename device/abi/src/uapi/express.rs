//! Express memory (`docs/express.md`): pages that a process of this host and one of another share,
//! and nobody else.
//!
//! Who is to receive makes an *area* for a host, and passes its number and key to a process there,
//! by whatever way. That one maps it, once: the mapping is a *view*. Both may load and store; what
//! they say to each other there is theirs to arrange.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call::{CardArgument, iowr};
use super::object::HamlynObject;

/// Makes an area of express memory for a host: zeros. Argument: [`HamlynExpressCreate`].
/// `EHOSTUNREACH`: there is no express memory with that host; `ENOSPC`: too few pages are free,
/// `EDQUOT`: the user's share of them is; `EOPNOTSUPP` without
/// [`super::query::HAMLYN_CAPABILITY_EXPRESS`].
pub const HAMLYN_IOC_EXPRESS_CREATE: u32 = iowr::<HamlynExpressCreate>(25);
/// Maps an area that a process of another host has made for this one: a view of it. Argument:
/// [`HamlynExpressMap`]. Waits for that host's answer. `EHOSTUNREACH`: there is no express memory
/// with that host, or it is other memory there; `EACCES`: there is no such area, or not with that
/// key; `EBUSY`: it has a view already; `EHOSTDOWN`: the host gives no sign of life; `EINTR`.
pub const HAMLYN_IOC_EXPRESS_MAP: u32 = iowr::<HamlynExpressMap>(26);
/// Gives an area or a view back. Its mappings stay, and show memory that nobody else sees.
/// Argument: [`HamlynObject`].
pub const HAMLYN_IOC_EXPRESS_DESTROY: u32 = iowr::<HamlynObject>(27);
/// What there is of express memory with a host. Argument: [`HamlynExpressQuery`].
pub const HAMLYN_IOC_EXPRESS_QUERY: u32 = iowr::<HamlynExpressQuery>(28);

/// A new area.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynExpressCreate {
    /// In: the host that it is for.
    pub host: u32,
    /// Out: its number, for calls of this file and for the other host.
    pub number: u32,
    /// In: bytes, a multiple of 4,096, at least that, and at most half a part.
    pub length: u64,
    /// Out: its key, from the kernel's random source.
    pub key: u64,
    /// Out: offset of mmap(2) of this file, to be mapped readable and writable, shared.
    pub offset: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// A new view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynExpressMap {
    /// In: the host that has made the area.
    pub host: u32,
    /// In: the area's number there.
    pub area: u32,
    /// In: its key.
    pub key: u64,
    /// Out: the view's number, for calls of this file.
    pub number: u32,
    /// Zero.
    pub reserved0: u32,
    /// Out: bytes.
    pub length: u64,
    /// Out: offset of mmap(2) of this file, to be mapped readable and writable, shared.
    pub offset: u64,
    /// Zero.
    pub reserved: [u64; 3],
}

/// What there is of express memory with a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynExpressQuery {
    /// In: the host.
    pub host: u32,
    /// Zero.
    pub reserved0: u32,
    /// Out: bytes of the part with that host, of which half are this host's to give; 0: there is
    /// none.
    pub part: u64,
    /// Out: pages that are this host's to give.
    pub pages: u32,
    /// Out: of these, pages that areas have.
    pub used: u32,
    /// Out: pages that areas had, until the other host confirms that nobody there sees them any
    /// more.
    pub leaving: u32,
    /// Out: pages of the other host's that views here have.
    pub viewed: u32,
    /// Out: pages that areas of the user who opened the file have.
    pub held: u32,
    /// Out: how many he may hold as things stand: a share of what the others leave.
    pub limit: u32,
    /// Zero.
    pub reserved: [u64; 3],
}

impl CardArgument for HamlynExpressCreate {}
impl CardArgument for HamlynExpressMap {}
impl CardArgument for HamlynExpressQuery {}
