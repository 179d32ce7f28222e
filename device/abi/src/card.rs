//! What every card of the family shares: PCI identity and the identity registers at the start of BAR 0.

/// PCI vendor id of the family. Not assigned by the PCI-SIG: it is the one QEMU uses for devices that exist nowhere else.
pub const HAMLYN_PCI_VENDOR: u16 = 0x1234;
/// PCI device id of the Hamlyn card.
pub const HAMLYN_PCI_DEVICE: u16 = 0x4841;
/// PCI class code: network controller, other.
pub const HAMLYN_PCI_CLASS: u32 = 0x028000;
/// PCI device id of the card's second function, whose BAR 0 holds the doorbells once more. It has no mappable memory: so
/// QEMU posts the stores to it, and a doorbell costs no round trip.
pub const HAMLYN_PCI_DOORBELL: u16 = 0x4844;
/// Its PCI class code: generic system peripheral, other.
pub const HAMLYN_PCI_DOORBELL_CLASS: u32 = 0x088000;

/// Value of [`HAMLYN_REG_MAGIC`]: the letters `HMLN`.
pub const HAMLYN_MAGIC: u32 = 0x4e4c_4d48;
/// Value of [`HAMLYN_REG_MODEL`] for the Hamlyn card.
pub const HAMLYN_MODEL_HAMLYN: u32 = 1;
/// Value of [`HAMLYN_REG_ABI_VERSION`]: major in the upper half (incompatible changes), minor in the lower (additions).
pub const HAMLYN_ABI_VERSION: u32 = 0x0002_0004;

/// RO. [`HAMLYN_MAGIC`].
pub const HAMLYN_REG_MAGIC: u32 = 0x000;
/// RO. Which card this is.
pub const HAMLYN_REG_MODEL: u32 = 0x004;
/// RO. The version of this file's contract that the card implements.
pub const HAMLYN_REG_ABI_VERSION: u32 = 0x008;
/// RO. The card's host id: its port on the switch. [`HAMLYN_NO_HOST`] while the link is down.
pub const HAMLYN_REG_HOST_ID: u32 = 0x00c;
/// RO. 1 while the link to the switch is up.
pub const HAMLYN_REG_LINK: u32 = 0x010;
/// RW. Self-test of register access: reads as the complement of what was written. So does every doorbell, of either
/// function: a driver can tell whether a second function is this card's.
pub const HAMLYN_REG_SCRATCH: u32 = 0x014;
/// WO. Self-test of interrupts: raises the MSI-X vector whose number is written.
pub const HAMLYN_REG_INTERRUPT_TEST: u32 = 0x018;
/// RO. How often the link has changed since power-on, modulo 2^32: by one when it comes up, goes down, or is another. A reset of
/// the card leaves it as it is. So who looks seldom learns that a link which is up has been down since.
pub const HAMLYN_REG_LINK_CHANGES: u32 = 0x01c;

/// No host: the link is down.
pub const HAMLYN_NO_HOST: u32 = 0xffff_ffff;
