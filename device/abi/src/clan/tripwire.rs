//! A Tripwire (sections 2.5 and 3.3), programmed at user level by stores to its endpoint's page.
//!
//! It watches a range of bytes: of an aperture of the same owner, for what other hosts do there;
//! or, remote, of an aperture that the owner's own windows and DMA requests reach, for what these
//! do. It *fires* once for each access ([`super`]) that touches the range, when the memory has been
//! written or read; remote, when the packet has left the card, or the answer to a read has come.
//! Watching needs no key: a process that may not reach memory makes no accesses to it either.
//!
//! The first three words are kept until [`CLAN_TRIPWIRE_CONTROL`] is stored; that does it all at
//! once: a Tripwire is disabled, and enabled as it says. The card answers in the endpoint's memory,
//! with the same serial number: `CLAN_TRIPWIRE_OK` or what was wrong. A Tripwire that is refused is
//! disabled.

/// Bytes between two Tripwires in an endpoint's page.
pub const CLAN_TRIPWIRE_STRIDE: u32 = 64;
/// u64: the first byte that is watched.
pub const CLAN_TRIPWIRE_OFFSET: u32 = 0x00;
/// u64: how many, at least 1.
pub const CLAN_TRIPWIRE_LENGTH: u32 = 0x08;
/// u64: the aperture in the lower half, and in the upper its host, if the Tripwire is remote, or 0.
pub const CLAN_TRIPWIRE_TARGET: u32 = 0x10;
/// u32: `CLAN_TRIPWIRE_*`, any of them, and a serial number in the upper half.
pub const CLAN_TRIPWIRE_CONTROL: u32 = 0x18;

/// Enabled.
pub const CLAN_TRIPWIRE_ENABLE: u32 = 1;
/// Writes fire it.
pub const CLAN_TRIPWIRE_WRITES: u32 = 2;
/// Reads fire it.
pub const CLAN_TRIPWIRE_READS: u32 = 4;
/// It watches what this host does to another's memory.
pub const CLAN_TRIPWIRE_REMOTE: u32 = 8;
/// It is disabled when it fires (section 3.3).
pub const CLAN_TRIPWIRE_ONCE: u32 = 16;
/// Action: it is put into the FIFO, and interrupts, whether anybody sleeps or not. Its bit is set
/// as with [`CLAN_TRIPWIRE_BIT`], by which the driver finds the process that sleeps for it.
pub const CLAN_TRIPWIRE_FIFO: u32 = 32;
/// Action: its bit is set in the bitmap ([`super::endpoint::CLAN_STATE_BITS`]).
pub const CLAN_TRIPWIRE_BIT: u32 = 64;
/// Action: it is counted in [`super::endpoint::CLAN_STATE_TRIPWIRES`].
pub const CLAN_TRIPWIRE_COUNT: u32 = 128;
/// Action: an event of its endpoint ([`super::event`]).
pub const CLAN_TRIPWIRE_EVENT: u32 = 256;
/// All that a control word can have in its lower half.
pub const CLAN_TRIPWIRE_FLAGS: u32 = 511;

/// Answer: enabled, or disabled, as it was told.
pub const CLAN_TRIPWIRE_OK: u32 = 1;
/// Answer: there is no such aperture of this owner.
pub const CLAN_TRIPWIRE_NO_APERTURE: u32 = 2;
/// Answer: the range is empty, or not within the aperture.
pub const CLAN_TRIPWIRE_BAD_RANGE: u32 = 3;
/// Answer: flags that mean nothing, as none of writes and reads, or no action.
pub const CLAN_TRIPWIRE_BAD_FLAGS: u32 = 4;
/// Answer: [`CLAN_TRIPWIRES_AT_ONCE`] of similar length watch a part of the range already.
pub const CLAN_TRIPWIRE_CROWDED: u32 = 5;
/// Answer: there is no event queue, or it has no room for one more source of events.
pub const CLAN_TRIPWIRE_NO_EVENTS: u32 = 6;

/// How many Tripwires of similar length may watch one place: 2^(n-1) + 1 to 2^n words, in one
/// aligned piece of 2^n words. So what an access costs has a bound.
pub const CLAN_TRIPWIRES_AT_ONCE: u32 = 64;
