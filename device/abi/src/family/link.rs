//! Where a card is in the fabric, and whether it is there.

/// RO. The card's host id: its port on the switch. [`HAMLYN_NO_HOST`] while the link is down.
pub const HAMLYN_REG_HOST_ID: u32 = 0x00c;
/// RO. 1 while the link to the switch is up.
pub const HAMLYN_REG_LINK: u32 = 0x010;
/// RO. How often the link has changed since power-on, modulo 2^32: by one when it comes up, goes
/// down, or is another. A reset of the card leaves it as it is. So who looks seldom learns that a
/// link which is up has been down since.
pub const HAMLYN_REG_LINK_CHANGES: u32 = 0x01c;
/// RO. How many ports the switch has: host ids are below it. 0 while the link is down, or if the
/// switch does not say.
pub const HAMLYN_REG_PORTS: u32 = 0x058;

/// No host: the link is down.
pub const HAMLYN_NO_HOST: u32 = 0xffff_ffff;
