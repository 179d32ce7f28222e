//! What every card is to the process that hosts it.

use std::time::Duration;

use bitflags::bitflags;

use crate::ports::{Link, Packet, Ports};

/// What a card looks like in the fabric and on the PCI bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The number that the fabric's header has for its packets: cards with the same understand each
    /// other.
    pub protocol: u8,
    /// The largest packet that it sends or takes, in bytes, without the fabric's header.
    pub largest_packet: usize,
    /// Whether the packets of one sender to one receiver must come in the order in which they were
    /// sent.
    pub ordered: bool,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Class code: base class, sub-class and programming interface in 24 bits.
    pub class: u32,
    /// Base address registers, without the one that the bus adds for MSI-X.
    pub bars: Vec<Bar>,
    /// MSI-X vectors.
    pub vectors: u16,
    /// The card's further functions.
    pub posted: Vec<Posted>,
    /// Pages of the host's memory, from address 0, whose stores it may want to see on the host's
    /// bus: see [`Card::store_seen`]. `None`: it wants to see none.
    pub snooped: Option<u64>,
}

/// A store of one of the host's processors to its memory, within a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    /// Where, on the bus.
    pub address: u64,
    /// What is stored.
    value: [u8; 16],
    width: u8,
}

impl Store {
    /// A store of the first `width` bytes of `value`, 1 to 16 and none beyond the page's end.
    /// `None`: there is no such store.
    #[must_use]
    pub fn new(address: u64, value: [u8; 16], width: u8) -> Option<Self> {
        let fits = (1..=16).contains(&width) && address % 4096 + u64::from(width) <= 4096;
        fits.then_some(Self { address, value, width })
    }

    /// What is stored.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.value[..self.width.into()]
    }
}

/// A further PCI function that shows one of the first's BARs once more, as its BAR 0, and has
/// nothing else. An access to it is one to the first's BAR, but what is stored there is posted: the
/// guest does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// Device id; the vendor is the first function's.
    pub device: u16,
    /// Class code.
    pub class: u32,
    /// Index of the first function's BAR.
    pub bar: u8,
}

/// A base address register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// Its index, 0 to 5. A 64-bit one takes the next index as well.
    pub index: u8,
    /// Its size in bytes, a power of two.
    pub size: u64,
    /// Whether it is a 64-bit prefetchable one.
    pub wide: bool,
    /// What is behind it.
    pub kind: BarKind,
    /// Widths of accesses that are trapped.
    pub widths: Widths,
}

bitflags! {
    /// Widths of trapped accesses, in bytes; each must be naturally aligned.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Widths: u8 {
        /// 1 byte.
        const BYTE = 1;
        /// 2 bytes.
        const WORD = 2;
        /// 4 bytes.
        const DWORD = 4;
        /// 8 bytes.
        const QWORD = 8;
    }
}

/// A card's place on its switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The host id: the port's number.
    pub host: u16,
    /// How many ports the switch has; 0 if it does not say.
    pub ports: u16,
}

/// What is behind a base address register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarKind {
    /// Every access comes to [`Card::register_read`] or [`Card::register_write`].
    Registers,
    /// Memory that the guest maps; the card reaches its first `used` bytes through
    /// [`Ports::window`].
    Window {
        /// Bytes that are there, a multiple of 4,096.
        used: u64,
    },
}

/// What a trapped read gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// This value.
    Now(u64),
    /// It will come from [`Card::late_reading`], which calls the read by this number. The guest's
    /// processor stands still until then.
    Later(u64),
}

impl Reading {
    /// The value, if it is there.
    #[must_use]
    pub fn now(self) -> Option<u64> {
        match self {
            Reading::Now(value) => Some(value),
            Reading::Later(_) => None,
        }
    }
}

/// What came of a card's attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Something was done; there may be more to do.
    Worked,
    /// Something was done, and the rest is for the next turn: the machine's accesses come before
    /// it.
    Yielded,
    /// The link has no room: try again when it has.
    LinkFull,
    /// There is nothing to send.
    Idle,
}

impl Progress {
    /// Whether something was done.
    #[must_use]
    pub fn has_worked(self) -> bool {
        matches!(self, Progress::Worked | Progress::Yielded)
    }
}

/// A card of the family.
///
/// The process that hosts a card calls one verb at a time, and delivers what has arrived before it
/// sends more: the card gives incoming traffic priority (section 2.8).
///
/// A verb does a bounded piece of work, about 100 us: other cards of the process wait meanwhile.
/// What is left of an arrived packet the card continues in [`Card::transmit`], and takes no other
/// packet until then ([`Card::takes_packets`]).
pub trait Card {
    /// What the card looks like. Does not change.
    fn identity(&self) -> Identity;

    /// A trapped read of `width` bytes, one of the BAR's widths, aligned, inside BAR `bar`. Offsets
    /// that mean nothing read as zero.
    fn register_read(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8) -> Reading;

    /// The next read that has got its value, with its number, of those that were told to wait.
    /// Asked for after each other verb while there are any. After a reset nobody waits any more.
    fn late_reading(&mut self) -> Option<(u64, u64)> {
        None
    }

    /// A trapped write of `width` bytes, one of the BAR's widths, aligned, inside BAR `bar`.
    fn register_write(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8, value: u64);

    /// A processor has stored to a page that the card watches. Those of one processor come in the
    /// order in which it made them, before any verb that comes of what it did afterwards.
    fn store_seen(&mut self, ports: &Ports<'_>, store: &Store) {
        let _ = (ports, store);
    }

    /// Whether the card takes a store now. While it does not, the processor that makes one waits
    /// where it is, and an access for 4 s at most. A card that waits for a destination gives up
    /// earlier: one slow destination must not stop a whole machine.
    fn takes_stores(&self) -> bool {
        true
    }

    /// Makes room for an access that has waited 4 s for the card to take stores: gives up what
    /// waits for one destination. Returns `false` if nothing waits for any. Called again, 10 ms
    /// later, if the access still waits: a card that gives up nothing, as a destination takes its
    /// packets fast, must do so for less than 1 s in all.
    fn make_room(&mut self, ports: &Ports<'_>) -> bool {
        let _ = ports;
        false
    }

    /// The next page that the card begins to watch, or watches no more, by its number. Asked for
    /// after each other verb.
    fn watch_change(&mut self) -> Option<(u64, bool)> {
        None
    }

    /// Stores are seen from now on, or cannot be seen any more.
    fn snooping_changed(&mut self, ports: &Ports<'_>, snoops: bool) {
        let _ = (ports, snoops);
    }

    /// Sends at most one packet.
    fn transmit(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress;

    /// A packet has arrived, which comes only while [`Card::takes_packets`]: accepted, refused or
    /// discarded.
    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>);

    /// Whether the card takes a packet now. While it does not, packets wait in the network, and in
    /// the end whoever sends them.
    fn takes_packets(&self) -> bool {
        true
    }

    /// Asks the card to stop looking for work by itself. `false` if some has come in the meantime;
    /// after `true` a doorbell or a packet will tell.
    fn sleep(&mut self, ports: &Ports<'_>) -> bool;

    /// When the card wants the next [`Card::tick`], by its clock; `None`: not at all. Looked at
    /// after each other verb.
    fn alarm(&self) -> Option<Duration>;

    /// The time of [`Card::alarm`] has come. Too early or too late does no harm. There may be
    /// something to transmit afterwards, so it comes before [`Card::sleep`].
    fn tick(&mut self, ports: &Ports<'_>);

    /// The link to the switch has come up, with this place, or gone down.
    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>);

    /// Back to the state at power-on, counters included.
    fn reset(&mut self, ports: &Ports<'_>);

    /// Whether the card takes what arrives; else it discards it (section 2.8).
    fn is_enabled(&self) -> bool;

    /// The card's counters by name.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}
