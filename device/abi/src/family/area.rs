//! Page lists, by which a driver names a piece of host memory that need not be contiguous.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The largest area, in bytes: the reach of a page of pointers to pages of page addresses.
pub const ULN_MAX_AREA: u64 = 1_073_741_824;

/// A piece of host memory that need not be contiguous.
///
/// `directory` is the address of a 4,096-byte page with 512 addresses of list pages. Each list page
/// has 512 addresses of 4,096-byte pages. Byte `i` of the area is byte `first + i` of the pages
/// laid end to end. (On the paper's machine, an I/O memory-management unit did this, section 4.)
/// The pages of the directory and lists belong to the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnArea {
    /// Address of the directory page, 4,096-byte aligned.
    pub directory: u64,
    /// Bytes, 1 to [`ULN_MAX_AREA`] minus `first`.
    pub length: u64,
    /// Offset of the area's start in the first page, 0 to 4,095.
    pub first: u32,
    /// Zero.
    pub reserved: u32,
}
