//! A Tripwire (sections 2.5 and 3.3), programmed at user level by stores to its endpoint's page.
//!
//! It watches a range of bytes. A local Tripwire watches an aperture of the same owner, for
//! accesses by other hosts. A remote Tripwire watches an aperture that the owner's own windows and
//! DMA requests access, for these accesses. It *fires* once for each access ([`super`]) that
//! touches the range, after the memory was written or read. A remote Tripwire fires when the packet
//! has left the card, or the answer to a read has arrived. Watching needs no key: a process that
//! may not access memory makes no accesses to it that a Tripwire could watch.
//!
//! The card keeps the first three words until [`CLAN_TRIPWIRE_CONTROL`] is stored. That store
//! applies all of them at once: the Tripwire is disabled, and then enabled if the control word
//! requests it. The card answers in the endpoint's memory, with the same serial number:
//! `CLAN_TRIPWIRE_OK`, or what was wrong. A refused Tripwire is disabled.

/// Bytes between two Tripwires in an endpoint's page.
pub const CLAN_TRIPWIRE_STRIDE: u32 = 64;
/// u64: offset of the first watched byte.
pub const CLAN_TRIPWIRE_OFFSET: u32 = 0x00;
/// u64: number of watched bytes, at least 1.
pub const CLAN_TRIPWIRE_LENGTH: u32 = 0x08;
/// u64: the aperture in the lower half. The upper half is its host if the Tripwire is remote,
/// otherwise 0.
pub const CLAN_TRIPWIRE_TARGET: u32 = 0x10;
/// u32: any of `CLAN_TRIPWIRE_*`, and a serial number in the upper half.
pub const CLAN_TRIPWIRE_CONTROL: u32 = 0x18;

/// The Tripwire is enabled.
pub const CLAN_TRIPWIRE_ENABLE: u32 = 1;
/// Writes fire it.
pub const CLAN_TRIPWIRE_WRITES: u32 = 2;
/// Reads fire it.
pub const CLAN_TRIPWIRE_READS: u32 = 4;
/// It watches this host's accesses to another host's memory.
pub const CLAN_TRIPWIRE_REMOTE: u32 = 8;
/// It is disabled when it fires (section 3.3).
pub const CLAN_TRIPWIRE_ONCE: u32 = 16;
/// Action: puts its identifier into the FIFO and interrupts, whether or not a process sleeps. Its
/// bit is set as with [`CLAN_TRIPWIRE_BIT`]; by that bit the driver finds the process that sleeps
/// on it.
pub const CLAN_TRIPWIRE_FIFO: u32 = 32;
/// Action: sets its bit in the bitmap ([`super::endpoint::CLAN_STATE_BITS`]).
pub const CLAN_TRIPWIRE_BIT: u32 = 64;
/// Action: counts in [`super::endpoint::CLAN_STATE_TRIPWIRES`].
pub const CLAN_TRIPWIRE_COUNT: u32 = 128;
/// Action: makes an event of its endpoint ([`super::event`]).
pub const CLAN_TRIPWIRE_EVENT: u32 = 256;
/// All valid flags in the lower half of a control word.
pub const CLAN_TRIPWIRE_FLAGS: u32 = 511;

/// Answer: enabled or disabled, as requested.
pub const CLAN_TRIPWIRE_OK: u32 = 1;
/// Answer: the owner has no such aperture.
pub const CLAN_TRIPWIRE_NO_APERTURE: u32 = 2;
/// Answer: the range is empty, or not within the aperture.
pub const CLAN_TRIPWIRE_BAD_RANGE: u32 = 3;
/// Answer: invalid flags, for example neither writes nor reads, or no action.
pub const CLAN_TRIPWIRE_BAD_FLAGS: u32 = 4;
/// Answer: [`CLAN_TRIPWIRES_AT_ONCE`] Tripwires of similar length watch a part of the range
/// already.
pub const CLAN_TRIPWIRE_CROWDED: u32 = 5;
/// Answer: the endpoint has no event queue, or the queue has no space for another source.
pub const CLAN_TRIPWIRE_NO_EVENTS: u32 = 6;

/// Maximum number of Tripwires of similar length (2^(n-1) + 1 to 2^n words) that may watch one
/// place (an aligned piece of 2^n words). This bounds the cost of an access.
pub const CLAN_TRIPWIRES_AT_ONCE: u32 = 64;
