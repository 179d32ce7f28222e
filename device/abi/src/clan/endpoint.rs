//! An endpoint (section 3.1): Tripwires, a queue of DMA requests, and a queue of messages.
//!
//! Its page of BAR 2 is what its owner tells the card, by stores of natural alignment; all loads
//! from there say 0:
//!
//! | offset | what |
//! |---|---|
//! | `i * 64` | Tripwire `i`: [`super::tripwire`] |
//! | [`CLAN_ENDPOINT_GO`] | there are DMA requests |
//! | [`CLAN_ENDPOINT_USE`] | another use of the endpoint begins |
//! | [`CLAN_ENDPOINT_INTEREST`] | which events the owner wants |
//!
//! Its memory is a page that its owner has mapped, with the words below, and behind it the DMA
//! requests. Card and owner both write there, each words of its own.
//!
//! What has happened is a bitmap (section 3.3) of [`CLAN_BITS`] bits. Bit `i` is set while bit `i`
//! of [`CLAN_STATE_BITS`], which the card stores, differs from bit `i` of [`CLAN_STATE_CLEARED`],
//! which the owner stores. The card sets a bit that is not set by inverting its own; the owner
//! clears one by copying the card's to its own, with a full barrier before it looks at what the bit
//! stands for. So neither side needs an operation that is atomic for the other: a machine with a
//! single emulated processor has none.

/// In an endpoint's page of BAR 2, stored, any value: there are new requests ([`super::dma`]).
pub const CLAN_ENDPOINT_GO: u32 = 0x800;
/// In an endpoint's page of BAR 2, u32: begins another use of the endpoint, with this number.
/// Faults of what was sent before are not reported any more, and a request that is under way ends
/// as timed out.
pub const CLAN_ENDPOINT_USE: u32 = 0x808;
/// In an endpoint's page of BAR 2, u32: which events go to its queue besides those of Tripwires,
/// `CLAN_INTERESTED_*`; all, before it is stored. If one that is new here has happened, as its bit
/// of [`CLAN_STATE_BITS`] says, there is an event at once.
pub const CLAN_ENDPOINT_INTEREST: u32 = 0x80c;
/// In [`CLAN_ENDPOINT_INTEREST`]: DMA requests.
pub const CLAN_INTERESTED_IN_DMA: u32 = 1;
/// In [`CLAN_ENDPOINT_INTEREST`]: messages.
pub const CLAN_INTERESTED_IN_MESSAGES: u32 = 2;
/// In [`CLAN_ENDPOINT_INTEREST`]: faults.
pub const CLAN_INTERESTED_IN_FAULTS: u32 = 4;
/// Bytes of an endpoint's page of BAR 2.
pub const CLAN_ENDPOINT_SIZE: u32 = 4096;
/// The most Tripwires of an endpoint.
pub const CLAN_MAX_TRIPWIRES: u32 = 32;

/// u32, stored by the owner: how many DMA requests it has put, modulo 2^32.
pub const CLAN_STATE_PUT: u32 = 0x040;
/// u32, stored by the card: how many of them have ended, modulo 2^32.
pub const CLAN_STATE_DONE: u32 = 0x080;
/// u32, stored by the card: 1 if it does not look for requests, so that the next is to be told by
/// [`CLAN_ENDPOINT_GO`].
pub const CLAN_STATE_IDLE: u32 = 0x084;

/// u32, stored by the card: how many faults there were, modulo 2^32. What is known of the last one
/// is in the words behind it, which are written before.
pub const CLAN_STATE_FAULTS: u32 = 0x0c0;
/// u32: why, `CLAN_FAULT_*`.
pub const CLAN_STATE_FAULT_REASON: u32 = 0x0c4;
/// u32: which host.
pub const CLAN_STATE_FAULT_HOST: u32 = 0x0c8;
/// u32: which aperture there.
pub const CLAN_STATE_FAULT_APERTURE: u32 = 0x0cc;
/// u64: which byte of it.
pub const CLAN_STATE_FAULT_OFFSET: u32 = 0x0d0;
/// u32, stored by the card before it changes the words of a fault: what [`CLAN_STATE_FAULTS`] is
/// when they are complete. A reader that finds another number here than in [`CLAN_STATE_FAULTS`]
/// reads again.
pub const CLAN_STATE_FAULTS_BEGUN: u32 = 0x0d8;
/// u32: which use of the endpoint, as last stored to [`CLAN_ENDPOINT_USE`].
pub const CLAN_STATE_FAULT_USE: u32 = 0x0dc;

/// u32, stored by the owner: how many messages it has taken, modulo 2^32.
pub const CLAN_STATE_MESSAGES_TAKEN: u32 = 0x100;
/// For each Tripwire, two u32, stored by the card: how often it has fired, modulo 2^32, if that is
/// among its actions; and its answer to what was last stored to its control word
/// ([`super::tripwire`]).
pub const CLAN_STATE_TRIPWIRES: u32 = 0x200;
/// Two u32, stored by the card: its half of the bitmap of what has happened. Bit `i` below 32 is
/// Tripwire `i`, which has fired, if the bit is among its actions; bit `i` is in word `i / 32`.
pub const CLAN_STATE_BITS: u32 = 0x300;
/// Two u32, stored by the owner: its half of the bitmap. A bit is set where both halves differ.
/// Both are 0 when the endpoint is opened.
pub const CLAN_STATE_CLEARED: u32 = 0x308;
/// How many bits can be waited for: as many as [`super::registers::CLAN_REG_ARM`] has room for.
pub const CLAN_BITS: u32 = 48;
/// Which bit of the bitmap: a DMA request that says so has ended.
pub const CLAN_BIT_DMA: u32 = 32;
/// Which bit of the bitmap: there was a fault.
pub const CLAN_BIT_FAULT: u32 = 33;
/// Which bit of the bitmap: there is a message.
pub const CLAN_BIT_MESSAGE: u32 = 34;
/// Messages, [`CLAN_MESSAGES`] of [`super::uapi::ClanMessage`], which the driver writes.
pub const CLAN_STATE_MESSAGES: u32 = 0x800;
/// How many messages wait at most; a power of two.
pub const CLAN_MESSAGES: u32 = 32;
/// Bytes before the DMA requests.
pub const CLAN_STATE_SIZE: u32 = 4096;

/// There is no such aperture there, or not under this key, or it does not allow that, or the byte
/// is outside.
pub const CLAN_FAULT_REFUSED: u32 = 1;
/// The other host has not answered in time, or there is no link.
pub const CLAN_FAULT_TIMEOUT: u32 = 2;
/// The other host's memory could not be reached.
pub const CLAN_FAULT_MEMORY: u32 = 3;
/// A store or load that is not the window's: outside of it, not aligned, or a load from a group.
pub const CLAN_FAULT_WINDOW: u32 = 4;
/// A store was lost: the card had no room for it, as its link is down or the other host takes
/// nothing for so long.
pub const CLAN_FAULT_LOST: u32 = 5;
