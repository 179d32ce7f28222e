//! Contract between driver and library for SHRIMP cards: calls on an open `/dev/shrimpN`, besides
//! those of all cards.
//!
//! A process *exports* a buffer of its memory. A process of another host *maps* a buffer of its own
//! to it. From then on, a store to the mapped buffer arrives in the exported one (section 2 of the
//! paper). The exporter's operating system checks that the exporter has allowed the other host and
//! the key. The mapper's operating system checks that the memory is the caller's.
//!
//! A byte arrives at the page offset at which it was stored, so both buffers must begin at the same
//! page offset. In each direction, a page has at most two parts (section 3.2). So a buffer that
//! begins in the middle of a page must reach its end, and two buffers in one page must touch.
//!
//! Errors besides those of all calls:
//! - `ENOSPC`: the driver has no more exports or mappings.
//! - `EBUSY`: a part of a page is already exported or mapped out. Or it is neither at the beginning
//!   nor at the end of its page and would need a third part.
//! - `EOPNOTSUPP`: the card sees other addresses than the processor, for example behind an IOMMU.
//! - `ENXIO`: the card has no entry for a page.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::shrimp::identity::SHRIMP_MODEL;
use crate::uapi::{CardArgument, CardQuery, UlnObject, card_call};

/// Exports a buffer. Argument: [`ShrimpExport`].
pub const SHRIMP_IOC_EXPORT: u32 = card_call::<ShrimpExport>(SHRIMP_MODEL, 0);
/// Revokes an export. Argument: [`UlnObject`]. When it returns, nothing more arrives. The memory
/// is unpinned when each host that had mapped it has confirmed that its mappings have gone, or is
/// lost. A host that does not confirm in time is considered lost.
pub const SHRIMP_IOC_UNEXPORT: u32 = card_call::<UlnObject>(SHRIMP_MODEL, 1);
/// Maps a buffer to an export of another host, or of the same host. Argument: [`ShrimpMap`]. Waits
/// for the other operating system.
///
/// Fails with `EINTR` if a signal arrived, and with `ETIMEDOUT` if the other operating system does
/// not answer in time. `EHOSTUNREACH`: the host does not exist or is lost. `EACCES`: the export
/// does not exist, is not for this host, or has another key. `ERANGE`: the export is shorter.
/// `EDOM`: it begins at another page offset.
pub const SHRIMP_IOC_MAP: u32 = card_call::<ShrimpMap>(SHRIMP_MODEL, 2);
/// Ends a mapping. Argument: [`UlnObject`]. When it returns, nothing more is sent.
pub const SHRIMP_IOC_UNMAP: u32 = card_call::<UlnObject>(SHRIMP_MODEL, 3);
/// Sleeps until an arrival for a page of an export is reported. Argument: [`ShrimpWait`]. The
/// process itself requests the report from the card, by the page's command page
/// ([`ShrimpExport::commands_offset`]). Fails with `ETIMEDOUT`, with `EINTR` if a signal handler
/// has run, or with `ENOENT` if the export has ended.
pub const SHRIMP_IOC_WAIT: u32 = card_call::<ShrimpWait>(SHRIMP_MODEL, 4);
/// Returns whether a mapping is still connected. Argument: [`ShrimpState`].
pub const SHRIMP_IOC_STATE: u32 = card_call::<ShrimpState>(SHRIMP_MODEL, 5);

/// Index into `UlnShareQuery`: exports.
pub const SHRIMP_SHARE_EXPORTS: u32 = 0;
/// Index into `UlnShareQuery`: mappings.
pub const SHRIMP_SHARE_MAPPINGS: u32 = 1;
/// Maximum number of exports of a host, and of mappings.
pub const SHRIMP_MAX_OBJECTS: u32 = 4096;
/// Maximum bytes of a buffer that is exported or mapped.
pub const SHRIMP_MAX_BUFFER: u64 = 4_194_304;

/// What a SHRIMP card reports about itself: the card's part of `UlnQuery`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpQuery {
    /// Out: entries of the page table.
    pub pages: u32,
    /// Out: columns of the mesh.
    pub columns: u32,
    /// Out: bytes of each FIFO.
    pub fifo: u32,
    /// Out: 1 if the card currently sees this machine's stores; 0 if they must be made through
    /// window pages.
    pub snoops: u32,
}

impl CardQuery for ShrimpQuery {
    const MODEL: u32 = SHRIMP_MODEL;
}

/// A buffer that other hosts may map.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpExport {
    /// In: its address in the caller's memory. Its pages count against `RLIMIT_MEMLOCK`, whether or
    /// not all of them are pinned.
    pub address: u64,
    /// In: bytes, 1 to [`SHRIMP_MAX_BUFFER`].
    pub length: u64,
    /// In: the hosts that may map it: bit `n` is host `n`.
    pub nodes: u64,
    /// Out: the key that a process must give to map it.
    pub key: u64,
    /// Out: its number.
    pub export: u32,
    /// In: `SHRIMP_POLICY_*`, how its pages are managed.
    pub policy: u32,
    /// Out: offset for `mmap(2)` of the same file, writable, shared, to map its command pages.
    /// There is one for each page that the buffer touches, in order. Through them the process
    /// requests a report of the next arrival (section 4.2). Access to a command page brings its
    /// page back if that is not in memory.
    pub commands_offset: u64,
}

/// Policy of an export: its pages stay in memory (the first policy of section 4.4).
pub const SHRIMP_POLICY_PINNED: u32 = 0;
/// Policy of an export: its pages can be replaced (the second policy of section 4.4). The operating
/// system may use a page for something else once no mapping stores to it. It brings the page back
/// when a mapping is about to store to it. If the process has unmapped its address, the mapping
/// ends instead. The memory must be anonymous, or of tmpfs, a memfd or hugetlbfs; otherwise the
/// call fails with `EINVAL`. A wait for another file system might never end.
pub const SHRIMP_POLICY_PAGED: u32 = 1;

/// In [`ShrimpMap::mode`], added to a mode: the driver can withdraw the pages through which the
/// process stores. These are the mapping's command pages, its window pages, and its memory as
/// mapped [`SHRIMP_MEMORY_OFFSET`] behind the command pages. They are withdrawn while the other
/// host is about to use a page for something else; an access to them waits. A mapping without this
/// flag keeps the other host's pages in place.
pub const SHRIMP_MAP_WITHDRAWABLE: u32 = 0x100;
/// Distance from [`ShrimpMap::commands_offset`] to the offset for mapping the mapping's memory, in
/// the same way as its command pages.
pub const SHRIMP_MEMORY_OFFSET: u64 = 10_485_760;

/// A buffer of the caller's that is mapped to an export, or to a part of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpMap {
    /// In: its address in the caller's memory. Its pages are pinned, and count against
    /// `RLIMIT_MEMLOCK`.
    pub address: u64,
    /// In: bytes, 1 to [`SHRIMP_MAX_BUFFER`].
    pub length: u64,
    /// In: the export's key.
    pub key: u64,
    /// In: offset in the export that its first byte is mapped to.
    pub offset: u64,
    /// In: the export's host.
    pub node: u32,
    /// In: the export's number on that host.
    pub export: u32,
    /// In: `SHRIMP_MODE_*`, not 0, which the process may change through command pages.
    /// [`SHRIMP_MAP_WITHDRAWABLE`] may be added.
    pub mode: u32,
    /// Out: its number.
    pub mapping: u32,
    /// Out: offset for `mmap(2)` of the same file, writable, shared, to map its command pages.
    /// There is one for each page that the buffer touches, in order.
    pub commands_offset: u64,
    /// Out: the same for its window pages.
    pub window_offset: u64,
}

/// Argument of [`SHRIMP_IOC_WAIT`].
///
/// No report is missed in this order: take `arrivals` of the last call; store `SHRIMP_REPORT_NEXT`
/// to the command page; load from it, so that the store has reached the card; look at the memory;
/// call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpWait {
    /// In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out. After 0, the
    /// export's own file ([`crate::uapi::ULN_IOC_OBJECT_FILE`]) is readable once the number
    /// differs.
    pub timeout_ns: i64,
    /// In: the export.
    pub export: u32,
    /// In: the number that the last call returned here, initially 0. The call returns when the
    /// number differs. Out: the number of reports for the export's pages, modulo 2^32. A mapping
    /// that begins or comes back counts as well, because its pages reported nothing before.
    pub arrivals: u32,
}

/// State of a mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpState {
    /// In: the mapping.
    pub mapping: u32,
    /// Out: `SHRIMP_STATE_*`.
    pub state: u32,
    /// Zero.
    pub reserved: u64,
}

/// State of a mapping: stores arrive.
pub const SHRIMP_STATE_MAPPED: u32 = 1;
/// State of a mapping: the export was revoked. Stores are discarded.
pub const SHRIMP_STATE_TAKEN_BACK: u32 = 2;
/// State of a mapping: the other host is lost, or has restarted. Stores are discarded.
pub const SHRIMP_STATE_LOST: u32 = 3;

impl CardArgument for ShrimpExport {
    fn names(&self, piece: &mut dyn FnMut(u64, u64)) {
        piece(self.address, self.length);
    }
}

impl CardArgument for ShrimpMap {
    fn names(&self, piece: &mut dyn FnMut(u64, u64)) {
        piece(self.address, self.length);
    }
}

impl CardArgument for ShrimpWait {}
impl CardArgument for ShrimpState {}
