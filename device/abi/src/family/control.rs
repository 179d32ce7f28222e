//! The enable bit, and the handshake timer that clears it if the host has died (section 2.8).

/// RW. Control bits: [`ULN_CONTROL_ENABLE`]. Writing [`ULN_CONTROL_RESET`] resets the card.
pub const ULN_REG_CONTROL: u32 = 0x020;
/// RO. The handshake timer's period, in milliseconds (section 2.8); 0 if the card has no such
/// timer.
pub const ULN_REG_HANDSHAKE_TIMEOUT: u32 = 0x050;
/// WO. Any value: restarts the handshake timer. If the host does not restart it for a whole period,
/// the card clears [`ULN_CONTROL_ENABLE`]. It then discards arriving packets until the host sets
/// the bit again.
pub const ULN_REG_HANDSHAKE: u32 = 0x054;

/// The card sends and receives packets. Until the bit is set, and after the handshake timer has
/// expired, the card discards every arriving packet (section 2.8).
pub const ULN_CONTROL_ENABLE: u32 = 1;
/// Resets the card: closes every object and clears the enable bit.
pub const ULN_CONTROL_RESET: u32 = 2;
