//! BAR 2: loads and stores by which the host's processors control the card (section 4.2).
//!
//! With `n` pages in the page table, the command page of the host's page `p` is at byte `p * 4096`.
//! Its window page is at byte `(n + p) * 4096`. Each is at a fixed distance from the page itself.
//! So an operating system that gives page `p` to a process can give it these pages too, and revoke
//! them.
//!
//! # Command pages
//! Loads and stores are 4 bytes, at the offset of the byte that they apply to.
//!
//! A load shows whether the engine for deliberate update is free. It returns 0 if it is. Otherwise
//! it returns [`SHRIMP_BUSY`] with the words left of the current transfer, [`SHRIMP_BASE`] if that
//! transfer was started at this very place, and [`SHRIMP_WAITS`] if one that was started here
//! waits. The card reads a transfer in pieces and handles accesses between two of them, so the
//! words left fall in steps.
//!
//! A store of `n`, 1 to [`SHRIMP_MAX_WORDS`], starts a transfer of `n` words from that place on. It
//! must end in the page and in the same part. So a process repeats one locked instruction, which
//! compares with 0 and exchanges with `n`, until it finds 0 (section 4.3). A processor whose
//! compare fails writes back what it has read. That is 0 or has [`SHRIMP_BUSY`] set, and never
//! starts a transfer. If the bus does not keep the two halves of a locked instruction together, two
//! processors may both find the engine free. The second transfer then waits for the first; up to
//! [`SHRIMP_MAX_WAITING`] wait, one for each page. Transfers of the operating system's own pages
//! are not counted among these. One for each of their places may wait, and
//! [`SHRIMP_MAX_SYSTEM_WAITING`] in all.
//!
//! A store of [`SHRIMP_SET_MODE`] plus `SHRIMP_MODE_*` changes the update mode of the part, which
//! must be mapped out. [`SHRIMP_REPORT_NEXT`] requests a report of the next arrival for the page.
//! It cannot be cancelled, because other processes may rely on it.
//!
//! A refused access changes nothing, and is counted.
//!
//! # Window pages
//! Window pages are for hosts whose stores the card does not see. The card executes a store to a
//! window page, of 1, 2, 4 or 8 bytes, in the page itself. It then handles the store like one that
//! it has seen. Each byte must be mapped out. While the Outgoing FIFO is at its threshold, the card
//! accepts no access. A posted store then waits on its way, and its processor waits at its next
//! load. The card refuses a store that does not fit into the FIFO at all. A load returns the page's
//! content.

/// Maximum number of words in a transfer: a page.
pub const SHRIMP_MAX_WORDS: u32 = 1024;
/// In the result of a load: the engine has a transfer; the words left of it are in the lower half.
pub const SHRIMP_BUSY: u32 = 0x8000_0000;
/// In the result of a load: the transfer was started at this place.
pub const SHRIMP_BASE: u32 = 0x4000_0000;
/// In the result of a load: a transfer that was started at this place waits for others.
pub const SHRIMP_WAITS: u32 = 0x2000_0000;
/// In the result of a load: mask of the words left.
pub const SHRIMP_LEFT: u32 = 0x0000_ffff;
/// Maximum number of transfers that wait for the engine, without the operating system's own.
pub const SHRIMP_MAX_WAITING: u32 = 64;
/// Maximum number of the operating system's own transfers that wait for the engine.
pub const SHRIMP_MAX_SYSTEM_WAITING: u32 = 4096;

/// Stored with `SHRIMP_MODE_*` added: changes the update mode.
pub const SHRIMP_SET_MODE: u32 = 0x0100_0000;
/// Stored: requests a report of the next arrival for the page.
pub const SHRIMP_REPORT_NEXT: u32 = 0x0200_0000;
