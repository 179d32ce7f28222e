//! The card's host id, and the state of its link.

/// RO. The card's host id: its port on the switch. [`ULN_NO_HOST`] while the link is down.
pub const ULN_REG_HOST_ID: u32 = 0x00c;
/// RO. 1 while the link to the switch is up.
pub const ULN_REG_LINK: u32 = 0x010;
/// RO. Number of link changes since power-on, modulo 2^32. It counts each time the link comes up,
/// goes down or is replaced, and keeps its value when the card is reset. So a driver that rarely
/// looks can tell that a link which is up was down meanwhile.
pub const ULN_REG_LINK_CHANGES: u32 = 0x01c;
/// RO. Number of ports of the switch, which is the upper bound of host ids. 0 while the link is
/// down, or if the switch does not report it.
pub const ULN_REG_PORTS: u32 = 0x058;

/// Instead of a host id: the link is down.
pub const ULN_NO_HOST: u32 = 0xffff_ffff;
