//! Taking part in the fabric, and the handshake timer that ends it for a host that has died
//! (section 2.8).

/// RW. Control bits: [`HAMLYN_CONTROL_ENABLE`]. Writing [`HAMLYN_CONTROL_RESET`] resets the card.
pub const HAMLYN_REG_CONTROL: u32 = 0x020;
/// RO. The handshake timer's period, in milliseconds (section 2.8); 0: the card has none.
pub const HAMLYN_REG_HANDSHAKE_TIMEOUT: u32 = 0x050;
/// WO. Any value: restarts the handshake timer. If the host fails to for a whole period,
/// [`HAMLYN_CONTROL_ENABLE`] is cleared: the card discards what arrives until the host sets it
/// again.
pub const HAMLYN_REG_HANDSHAKE: u32 = 0x054;

/// The card takes part in the fabric. Until it is set, and once the handshake timer has run out,
/// the card discards every arriving packet (section 2.8).
pub const HAMLYN_CONTROL_ENABLE: u32 = 1;
/// Reset the card: every object is closed and the enable bit cleared.
pub const HAMLYN_CONTROL_RESET: u32 = 2;
