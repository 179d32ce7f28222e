//! Page lists: how a driver names a piece of host memory that need not be contiguous.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The largest area, in bytes: what a page of pointers to pages of addresses of pages reaches.
pub const HAMLYN_MAX_AREA: u64 = 1_073_741_824;

/// A piece of host memory that need not be contiguous.
///
/// `directory` is the address of a 4,096-byte page of 512 addresses of list pages, each of 512
/// addresses of 4,096-byte pages; byte `i` of the area is byte `first + i` of the pages laid end to
/// end. (The paper's machine had an I/O memory-management unit that did this, section 4.) The pages
/// of the directory and lists belong to the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynArea {
    /// Address of the directory page, 4,096-byte aligned.
    pub directory: u64,
    /// Bytes, 1 to [`HAMLYN_MAX_AREA`] less `first`.
    pub length: u64,
    /// Where in the first page the area starts, 0 to 4,095.
    pub first: u32,
    /// Zero.
    pub reserved: u32,
}
