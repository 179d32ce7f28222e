//! Registers of the CLAN card, in BAR 0, beside those that all cards have.

/// RO. How many apertures there can be.
pub const CLAN_REG_APERTURES: u32 = 0x100;
/// RO. How many window pages there are: the first is behind the last endpoint's page, in BAR 2.
pub const CLAN_REG_WINDOW_PAGES: u32 = 0x104;
/// RO. How many endpoints there can be.
pub const CLAN_REG_ENDPOINTS: u32 = 0x108;
/// RO. How many Tripwires all endpoints together can have (section 2.5: 4,096).
pub const CLAN_REG_TRIPWIRES: u32 = 0x10c;
/// RO. How many event queues there can be.
pub const CLAN_REG_EVENT_QUEUES: u32 = 0x110;
/// RO. The most bytes of data in a packet.
pub const CLAN_REG_BURST: u32 = 0x114;
/// RW. Where bursts are joined: `CLAN_JOIN_*`, any of them. What it is at power-on is a setting of
/// the card.
pub const CLAN_REG_JOIN: u32 = 0x118;
/// RW. How long a remote read may take, in milliseconds: 1 to [`CLAN_MAX_READ_TIMEOUT`].
pub const CLAN_REG_READ_TIMEOUT: u32 = 0x11c;
/// WO. How many records of the FIFO the driver has taken, modulo 2^32 ([`super::fifo`]).
pub const CLAN_REG_FIFO_TAKEN: u32 = 0x120;
/// RO. How many words a host may send to another that have not arrived yet (credits, section 2.2).
pub const CLAN_REG_CREDITS: u32 = 0x124;
/// WO, 8 bytes. A process sleeps on an endpoint: its number in the lower 16 bits, and above them
/// the bits of [`super::endpoint::CLAN_STATE_BITS`] that it waits for, 48 at most. If one of them
/// is set, or as soon as one is, the endpoint is put into the FIFO, once.
pub const CLAN_REG_ARM: u32 = 0x128;
/// WO, 8 bytes. A process sleeps on an event queue: its number in the lower half, and in the upper
/// how many records it has taken, modulo 2^32. If there are more, or as soon as there are, the
/// queue is put into the FIFO, once.
pub const CLAN_REG_ARM_EVENTS: u32 = 0x130;
/// WO. The driver has put a message into an endpoint's queue: its number. It is an event of that
/// endpoint. With [`CLAN_POST_DMA`], it has carried out a DMA request of that endpoint.
pub const CLAN_REG_POST: u32 = 0x138;

/// In [`CLAN_REG_POST`], with an endpoint's number: a DMA request has ended that the driver has
/// carried out.
pub const CLAN_POST_DMA: u32 = 0x8000_0000;

/// In [`CLAN_REG_JOIN`]: stores that follow each other leave as one packet, as long as the first
/// has not left (section 2.2).
pub const CLAN_JOIN_LEAVING: u32 = 1;
/// In [`CLAN_REG_JOIN`]: packets that follow each other are written to memory as one burst (section
/// 5.2).
pub const CLAN_JOIN_ARRIVING: u32 = 2;

/// The most milliseconds of [`CLAN_REG_READ_TIMEOUT`]: the bus waits 2,000 for a load, and the card
/// would not hear of a load that the bus ends.
pub const CLAN_MAX_READ_TIMEOUT: u32 = 1_900;

/// MSI-X vector that says that there are new records in the FIFO.
pub const CLAN_VECTOR_FIFO: u32 = 1;
