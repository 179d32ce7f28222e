//! BAR 2: what the host's processors say to the card by loads and stores (section 4.2).
//!
//! With `n` pages in the page table, the command page of the host's page `p` is at byte `p * 4096`,
//! and its window page at byte `(n + p) * 4096`: each at a fixed distance from the page itself, so
//! that an operating system that lets a process have page `p` can let it have these, and take them
//! back.
//!
//! # Command pages
//! Loads and stores of 4 bytes, at the offset of the byte that they are about.
//!
//! A load says whether the engine for deliberate update is free: 0, or else [`SHRIMP_BUSY`] with
//! the words that are left of the transfer that it has, and [`SHRIMP_BASE`] if that was started at
//! this very place. The card reads a transfer in pieces and takes accesses between two of them, so
//! the words that are left fall in steps.
//!
//! A store of `n`, 1 to [`SHRIMP_MAX_WORDS`], starts a transfer of `n` words from there on. It must
//! end in the page and in the part of it. So a process compares with 0 and exchanges with `n` in
//! one locked instruction until it finds 0 (section 4.3). A processor whose compare fails writes
//! back what it has read: that has [`SHRIMP_BUSY`] or is 0, and never starts anything. Two
//! processors whose bus does not keep the two halves of a locked instruction together may both be
//! told that the engine is free: then the second transfer waits for the first, up to
//! [`SHRIMP_MAX_WAITING`], one for each page. Those of the operating system's own pages are not
//! counted, and one for each place of them may wait.
//!
//! A store of [`SHRIMP_SET_MODE`] plus `SHRIMP_MODE_*` changes the update mode of the part, which
//! must be mapped out. [`SHRIMP_REPORT_NEXT`] asks that the next arrival for the page be reported.
//! It cannot be taken back: others may rely on it.
//!
//! What is refused changes nothing, and is counted.
//!
//! # Window pages
//! For hosts whose stores the card does not see: a store to a window page, of 1, 2, 4 or 8 bytes,
//! is one to the page itself, which the card carries out and then takes for one that it has seen.
//! Each byte must be mapped out. While the Outgoing FIFO is at its threshold no access to the card
//! is taken: a posted store waits on its way, and its processor at its next load. A store that the
//! FIFO cannot hold at all is refused. A load says what is in the page.

/// The most words of a transfer: a page.
pub const SHRIMP_MAX_WORDS: u32 = 1024;
/// In what a load says: the engine has a transfer; the words that are left of it are in the lower
/// half.
pub const SHRIMP_BUSY: u32 = 0x8000_0000;
/// In what a load says: the transfer was started at this place.
pub const SHRIMP_BASE: u32 = 0x4000_0000;
/// In what a load says: the words that are left.
pub const SHRIMP_LEFT: u32 = 0x0000_ffff;
/// The most transfers that wait for the engine.
pub const SHRIMP_MAX_WAITING: u32 = 64;

/// Stored with `SHRIMP_MODE_*`: changes the update mode.
pub const SHRIMP_SET_MODE: u32 = 0x0100_0000;
/// Stored: the next arrival for the page is to be reported.
pub const SHRIMP_REPORT_NEXT: u32 = 0x0200_0000;
