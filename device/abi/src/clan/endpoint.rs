//! An endpoint (section 3.1): Tripwires, a queue of DMA requests, and a queue of messages.
//!
//! The owner controls it by naturally aligned stores to its page of BAR 2. All loads from the page
//! return 0:
//!
//! | offset | what |
//! |---|---|
//! | `i * 64` | Tripwire `i`: [`super::tripwire`] |
//! | [`CLAN_ENDPOINT_GO`] | there are DMA requests |
//! | [`CLAN_ENDPOINT_USE`] | begins another use of the endpoint |
//! | [`CLAN_ENDPOINT_INTEREST`] | which events the owner wants |
//!
//! Its memory is a page with the words below, followed by the DMA requests; the owner has it
//! mapped. Card and owner both write there, each its own words.
//!
//! A bitmap (section 3.3) of [`CLAN_BITS`] bits shows what has happened. Bit `i` is set while bit
//! `i` of [`CLAN_STATE_BITS`], which the card stores, differs from bit `i` of
//! [`CLAN_STATE_CLEARED`], which the owner stores. The card sets a clear bit by inverting its own.
//! The owner clears a bit by copying the card's bit to its own. It issues a full barrier before it
//! looks at what the bit stands for. So no operation has to be atomic for both sides, which a
//! machine with a single emulated processor cannot provide.

/// In an endpoint's page of BAR 2, any value: there are new requests ([`super::dma`]).
pub const CLAN_ENDPOINT_GO: u32 = 0x800;
/// In an endpoint's page of BAR 2, u32: begins another use of the endpoint, with this number.
/// Faults of earlier sends are no longer reported. A request in flight ends with a time-out.
pub const CLAN_ENDPOINT_USE: u32 = 0x808;
/// In an endpoint's page of BAR 2, u32: which events go to its queue besides those of Tripwires,
/// `CLAN_INTERESTED_*`. Until the first store, all do. A newly selected event that has happened
/// already, as its bit of [`CLAN_STATE_BITS`] shows, is queued at once.
pub const CLAN_ENDPOINT_INTEREST: u32 = 0x80c;
/// In [`CLAN_ENDPOINT_INTEREST`]: DMA requests.
pub const CLAN_INTERESTED_IN_DMA: u32 = 1;
/// In [`CLAN_ENDPOINT_INTEREST`]: messages.
pub const CLAN_INTERESTED_IN_MESSAGES: u32 = 2;
/// In [`CLAN_ENDPOINT_INTEREST`]: faults.
pub const CLAN_INTERESTED_IN_FAULTS: u32 = 4;
/// Bytes of an endpoint's page of BAR 2.
pub const CLAN_ENDPOINT_SIZE: u32 = 4096;
/// Maximum number of Tripwires of an endpoint.
pub const CLAN_MAX_TRIPWIRES: u32 = 32;

/// u32, stored by the owner: number of DMA requests that it has put, modulo 2^32.
pub const CLAN_STATE_PUT: u32 = 0x040;
/// u32, stored by the card: number of them that have ended, modulo 2^32.
pub const CLAN_STATE_DONE: u32 = 0x080;
/// u32, stored by the card: 1 if it does not look for requests. The owner must then announce the
/// next one by [`CLAN_ENDPOINT_GO`].
pub const CLAN_STATE_IDLE: u32 = 0x084;

/// u32, stored by the card: number of faults, modulo 2^32. The words behind it describe the last
/// one, and are written before it.
pub const CLAN_STATE_FAULTS: u32 = 0x0c0;
/// u32: reason of the fault, `CLAN_FAULT_*`.
pub const CLAN_STATE_FAULT_REASON: u32 = 0x0c4;
/// u32: host of the fault.
pub const CLAN_STATE_FAULT_HOST: u32 = 0x0c8;
/// u32: aperture on that host.
pub const CLAN_STATE_FAULT_APERTURE: u32 = 0x0cc;
/// u64: offset in that aperture.
pub const CLAN_STATE_FAULT_OFFSET: u32 = 0x0d0;
/// u32, stored by the card before it changes the words of a fault: the value of
/// [`CLAN_STATE_FAULTS`] when they are complete. A reader that finds a different number in
/// [`CLAN_STATE_FAULTS`] reads again.
pub const CLAN_STATE_FAULTS_BEGUN: u32 = 0x0d8;
/// u32: use of the endpoint, as last stored to [`CLAN_ENDPOINT_USE`].
pub const CLAN_STATE_FAULT_USE: u32 = 0x0dc;

/// u32, stored by the owner: number of messages that it has taken, modulo 2^32.
pub const CLAN_STATE_MESSAGES_TAKEN: u32 = 0x100;
/// Two u32 for each Tripwire, stored by the card. The first is how often it has fired, modulo 2^32,
/// if counting is among its actions. The second is the answer to the last store to its control word
/// ([`super::tripwire`]).
pub const CLAN_STATE_TRIPWIRES: u32 = 0x200;
/// Two u32, stored by the card: its half of the bitmap. Bit `i` below 32 shows that Tripwire `i`
/// has fired, if setting the bit is among its actions. Bit `i` is in word `i / 32`.
pub const CLAN_STATE_BITS: u32 = 0x300;
/// Two u32, stored by the owner: its half of the bitmap. A bit is set where the halves differ. Both
/// are 0 when the endpoint is opened.
pub const CLAN_STATE_CLEARED: u32 = 0x308;
/// Number of bits that a process can wait for: as many as fit into
/// [`super::registers::CLAN_REG_ARM`].
pub const CLAN_BITS: u32 = 48;
/// Bit of the bitmap: a DMA request with [`super::dma::CLAN_DMA_NOTIFY`] has ended.
pub const CLAN_BIT_DMA: u32 = 32;
/// Bit of the bitmap: there was a fault.
pub const CLAN_BIT_FAULT: u32 = 33;
/// Bit of the bitmap: there is a message.
pub const CLAN_BIT_MESSAGE: u32 = 34;
/// Messages, [`CLAN_MESSAGES`] of [`super::uapi::ClanMessage`], which the driver writes.
pub const CLAN_STATE_MESSAGES: u32 = 0x800;
/// Maximum number of waiting messages; a power of two.
pub const CLAN_MESSAGES: u32 = 32;
/// Bytes before the DMA requests.
pub const CLAN_STATE_SIZE: u32 = 4096;

/// Fault: the aperture does not exist on that host, has another key or does not allow the access,
/// or the byte is outside.
pub const CLAN_FAULT_REFUSED: u32 = 1;
/// Fault: the other host did not answer in time, or the link is down.
pub const CLAN_FAULT_TIMEOUT: u32 = 2;
/// Fault: the other host's memory could not be accessed.
pub const CLAN_FAULT_MEMORY: u32 = 3;
/// Fault: an invalid store or load of the window: outside of it, misaligned, or a load from a
/// group.
pub const CLAN_FAULT_WINDOW: u32 = 4;
/// Fault: a store was lost. The card had no space for it, because the link is down or the other
/// host has not taken packets for too long.
pub const CLAN_FAULT_LOST: u32 = 5;
