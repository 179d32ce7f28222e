//! Registers of the CLAN card, in BAR 0, besides those that all cards have.

/// RO. Number of apertures.
pub const CLAN_REG_APERTURES: u32 = 0x100;
/// RO. Number of window pages. The first is behind the last endpoint's page, in BAR 2.
pub const CLAN_REG_WINDOW_PAGES: u32 = 0x104;
/// RO. Number of endpoints.
pub const CLAN_REG_ENDPOINTS: u32 = 0x108;
/// RO. Number of Tripwires of all endpoints together (section 2.5: 4,096).
pub const CLAN_REG_TRIPWIRES: u32 = 0x10c;
/// RO. Number of event queues.
pub const CLAN_REG_EVENT_QUEUES: u32 = 0x110;
/// RO. Maximum bytes of data in a packet.
pub const CLAN_REG_BURST: u32 = 0x114;
/// RW. Where bursts are joined: any of `CLAN_JOIN_*`. Its power-on value is a setting of the card.
pub const CLAN_REG_JOIN: u32 = 0x118;
/// RW. Time limit of a remote read, in milliseconds: 1 to [`CLAN_MAX_READ_TIMEOUT`].
pub const CLAN_REG_READ_TIMEOUT: u32 = 0x11c;
/// WO. Number of FIFO records that the driver has taken, modulo 2^32 ([`super::fifo`]).
pub const CLAN_REG_FIFO_TAKEN: u32 = 0x120;
/// RO. Number of words that a host may have in flight to another (credits, section 2.2).
pub const CLAN_REG_CREDITS: u32 = 0x124;
/// WO, 8 bytes. A process sleeps on an endpoint. The lower 16 bits are the endpoint's number; above
/// them are the bits of [`super::endpoint::CLAN_STATE_BITS`] that it waits for, at most 48. If one
/// of them is set, or as soon as one is, the card puts the endpoint into the FIFO, once.
pub const CLAN_REG_ARM: u32 = 0x128;
/// WO, 8 bytes. A process sleeps on an event queue. The lower half is the queue's number; the upper
/// half is the number of records the process has taken, modulo 2^32. If there are more, or as soon
/// as there are, the card puts the queue into the FIFO, once.
pub const CLAN_REG_ARM_EVENTS: u32 = 0x130;
/// WO. The driver has put a message into the queue of the endpoint with this number, which is an
/// event of that endpoint. With [`CLAN_POST_DMA`]: the driver has executed a DMA request of that
/// endpoint.
pub const CLAN_REG_POST: u32 = 0x138;

/// In [`CLAN_REG_POST`], with an endpoint's number: a DMA request that the driver executed has
/// ended.
pub const CLAN_POST_DMA: u32 = 0x8000_0000;

/// In [`CLAN_REG_JOIN`]: consecutive stores leave as one packet, as long as the first has not left
/// (section 2.2).
pub const CLAN_JOIN_LEAVING: u32 = 1;
/// In [`CLAN_REG_JOIN`]: consecutive packets are written to memory as one burst (section 5.2).
pub const CLAN_JOIN_ARRIVING: u32 = 2;

/// Maximum value of [`CLAN_REG_READ_TIMEOUT`]. The bus waits 2,000 ms for a load, and does not
/// notify the card when it ends one.
pub const CLAN_MAX_READ_TIMEOUT: u32 = 1_900;

/// MSI-X vector for new records in the FIFO.
pub const CLAN_VECTOR_FIFO: u32 = 1;
