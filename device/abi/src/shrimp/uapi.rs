//! What driver and library agree on about SHRIMP cards: calls on an open `/dev/shrimpN`, beside
//! those that any card has.
//!
//! A process *exports* a buffer of its memory, and a process of another host *maps* a buffer of its
//! own to it: from then on what is stored in the one arrives in the other (section 2 of the paper).
//! Both operating systems look: the exporter's whether the other host and the key are those that
//! the exporter has allowed, the mapper's whether the memory is the caller's.
//!
//! A byte arrives at the same offset of a page that it was stored at, so both buffers must begin at
//! the same offset of a page. A page has two parts at most, each way (section 3.2): a buffer that
//! begins in the middle of a page must reach its end, and two buffers in one page must touch.
//!
//! Errors beside those of all calls: `ENOSPC` (the driver has no more exports or mappings), `EBUSY`
//! (a part of a page is exported, or mapped out, already; or is neither at the beginning nor at the
//! end of its page and would need a third part), `EOPNOTSUPP` (the card sees other addresses than
//! the processor, as behind an IOMMU), `ENXIO` (the card has no entry for a page).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::shrimp::identity::SHRIMP_MODEL;
use crate::uapi::{CardArgument, CardQuery, HamlynObject, card_call};

/// Exports a buffer. Argument: [`ShrimpExport`].
pub const SHRIMP_IOC_EXPORT: u32 = card_call::<ShrimpExport>(SHRIMP_MODEL, 0);
/// Takes an export back. Argument: [`HamlynObject`]. When it returns nothing more arrives; the
/// memory is unpinned when each host that had mapped it has said that its mappings are gone, or is
/// lost. A host that does not say so in time is taken for lost.
pub const SHRIMP_IOC_UNEXPORT: u32 = card_call::<HamlynObject>(SHRIMP_MODEL, 1);
/// Maps a buffer to an export of another host, or of the same. Argument: [`ShrimpMap`]. It waits
/// for the other operating system: `EINTR` if a signal came, `ETIMEDOUT` if it does not answer in
/// time, `EHOSTUNREACH` if there is no such host or it is lost, `EACCES` if there is no such export
/// there, or not for this host, or under another key; `ERANGE` if the export is shorter; `EDOM` if
/// it begins at another offset of a page.
pub const SHRIMP_IOC_MAP: u32 = card_call::<ShrimpMap>(SHRIMP_MODEL, 2);
/// Ends a mapping. Argument: [`HamlynObject`]. When it returns nothing more is sent.
pub const SHRIMP_IOC_UNMAP: u32 = card_call::<HamlynObject>(SHRIMP_MODEL, 3);
/// Sleeps until an arrival for a page of an export is reported. Argument: [`ShrimpWait`]. The
/// process asks the card for the report itself, by the page's command page
/// ([`ShrimpExport::commands_offset`]). `ETIMEDOUT`; `EINTR` if a signal's handler has run;
/// `ENOENT` if the export has ended.
pub const SHRIMP_IOC_WAIT: u32 = card_call::<ShrimpWait>(SHRIMP_MODEL, 4);
/// Says whether a mapping still leads somewhere. Argument: [`ShrimpState`].
pub const SHRIMP_IOC_STATE: u32 = card_call::<ShrimpState>(SHRIMP_MODEL, 5);

/// Index into `HamlynShareQuery`: exports.
pub const SHRIMP_SHARE_EXPORTS: u32 = 0;
/// Index into `HamlynShareQuery`: mappings.
pub const SHRIMP_SHARE_MAPPINGS: u32 = 1;
/// The most exports of a host, and the most mappings.
pub const SHRIMP_MAX_OBJECTS: u32 = 4096;
/// The most bytes of a buffer that is exported, or mapped.
pub const SHRIMP_MAX_BUFFER: u64 = 4_194_304;

/// What a SHRIMP card says of itself: the card's part of `HamlynQuery`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpQuery {
    /// Out: entries of the page table.
    pub pages: u32,
    /// Out: columns of the mesh.
    pub columns: u32,
    /// Out: bytes of each FIFO.
    pub fifo: u32,
    /// Out: 1 if the card sees this machine's stores now; 0 if it must be told by window pages.
    pub snoops: u32,
}

impl CardQuery for ShrimpQuery {
    const MODEL: u32 = SHRIMP_MODEL;
}

/// A buffer that others may map.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpExport {
    /// In: where it is in the caller's memory. Its pages count against `RLIMIT_MEMLOCK`, whether
    /// they are all pinned or not.
    pub address: u64,
    /// In: its bytes, 1 to [`SHRIMP_MAX_BUFFER`].
    pub length: u64,
    /// In: the hosts that may map it: bit `n` is host `n`.
    pub nodes: u64,
    /// Out: who maps it must say so.
    pub key: u64,
    /// Out: its number.
    pub export: u32,
    /// In: `SHRIMP_POLICY_*`, what becomes of its pages.
    pub policy: u32,
    /// Out: where to map its command pages with `mmap(2)` of the same file, writable, shared: a
    /// page for each page that the buffer touches, in order. By these the process asks to be told
    /// of the next arrival (section 4.2). A page that is not in memory is brought back when its
    /// command page is touched.
    pub commands_offset: u64,
}

/// Of an export: its pages stay in memory (the first policy of section 4.4).
pub const SHRIMP_POLICY_PINNED: u32 = 0;
/// Of an export: the operating system may use a page for something else once no mapping stores to
/// it any more, and brings it back when one is about to (the second policy of section 4.4), unless
/// the process has unmapped its address: then the mapping ends. The memory is anonymous, or of
/// tmpfs, a memfd or hugetlbfs; `EINVAL` if not, as another file system could be waited for without
/// end.
pub const SHRIMP_POLICY_PAGED: u32 = 1;

/// In [`ShrimpMap::mode`], with a mode: whatever the process stores goes by the mapping's command
/// pages, its window pages, or its memory as it is mapped [`SHRIMP_MEMORY_OFFSET`] behind the
/// command pages. These are taken away while the other host is about to use a page for something
/// else, and who touches them waits. A mapping without this keeps the pages of the other host where
/// they are.
pub const SHRIMP_MAP_WITHDRAWABLE: u32 = 0x100;
/// From [`ShrimpMap::commands_offset`] to where to map the mapping's memory, in the same way as its
/// command pages.
pub const SHRIMP_MEMORY_OFFSET: u64 = 10_485_760;

/// A buffer of the caller's that is mapped to an export, or to a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpMap {
    /// In: where it is in the caller's memory. Its pages are pinned, and count against
    /// `RLIMIT_MEMLOCK`.
    pub address: u64,
    /// In: its bytes, 1 to [`SHRIMP_MAX_BUFFER`].
    pub length: u64,
    /// In: the export's key.
    pub key: u64,
    /// In: byte of the export that its first byte is mapped to.
    pub offset: u64,
    /// In: the export's host.
    pub node: u32,
    /// In: the export's number there.
    pub export: u32,
    /// In: `SHRIMP_MODE_*`, not 0, which the process may change by command pages; and
    /// [`SHRIMP_MAP_WITHDRAWABLE`], or not.
    pub mode: u32,
    /// Out: its number.
    pub mapping: u32,
    /// Out: where to map its command pages with `mmap(2)` of the same file, writable, shared: a
    /// page for each page that the buffer touches, in order.
    pub commands_offset: u64,
    /// Out: the same of its window pages.
    pub window_offset: u64,
}

/// Which reports to wait for.
///
/// No report is missed in this order: take `arrivals` of the last call; store `SHRIMP_REPORT_NEXT`
/// to the command page; load from there, so that the card has it; look at the memory; call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpWait {
    /// In: nanoseconds, 0 to look only, or -1 for ever.
    pub timeout_ns: i64,
    /// In: the export.
    pub export: u32,
    /// In: what the last call returned here, at first 0; the call returns when the number is
    /// another. Out: the number of reports for the export's pages, modulo 2^32. A mapping that
    /// begins or comes back counts as well: before, its pages reported nothing.
    pub arrivals: u32,
}

/// How a mapping stands.
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

/// Of a mapping: what is stored arrives.
pub const SHRIMP_STATE_MAPPED: u32 = 1;
/// Of a mapping: the export was taken back. What is stored goes nowhere.
pub const SHRIMP_STATE_TAKEN_BACK: u32 = 2;
/// Of a mapping: the other host is lost, or has begun anew. What is stored goes nowhere.
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
