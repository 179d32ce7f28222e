//! The interface between a card and its host process.

use std::time::Duration;

use bitflags::bitflags;
use hamlyn_abi::family::identity::ULN_REGISTERS_SIZE;

use crate::packet::PacketField;
use crate::ports::{Link, Packet, Ports};

/// How a card appears in the fabric and on the PCI bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Protocol number of its packets in the fabric's header. Cards with the same number understand
    /// each other.
    pub protocol: u8,
    /// Largest packet that the card sends or accepts, in bytes, without the fabric's header.
    pub largest_packet: usize,
    /// Whether packets from one sender to one receiver must arrive in the order in which they were
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
    /// Number of MSI-X vectors.
    pub vectors: u16,
    /// The card's additional PCI functions.
    pub posted: Vec<Posted>,
    /// Number of pages of host memory, from address 0, whose stores the card may watch on the
    /// host's bus: see [`Card::store_seen`]. `None` if the card never watches any.
    pub snooped: Option<u64>,
}

/// An array of pages or other parts of a BAR, for traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Index of the BAR.
    pub bar: u8,
    /// Name of a part. The contract's names of its words begin with it: `HAMLYN_WINDOW` for
    /// `HAMLYN_WINDOW_TAIL`.
    pub name: &'static str,
    /// Offset of the first part in the BAR, in bytes.
    pub start: u64,
    /// Size of a part in bytes.
    pub size: u64,
    /// Number of parts.
    pub count: u64,
}

/// A store by one of the host's processors to host memory, within one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    /// Bus address of the store.
    pub address: u64,
    /// The stored bytes.
    value: [u8; 16],
    width: u8,
}

impl Store {
    /// Creates a store of the first `width` bytes of `value`. Returns `None` unless `width` is 1 to
    /// 16 and the store ends within its page.
    #[must_use]
    pub fn new(address: u64, value: [u8; 16], width: u8) -> Option<Self> {
        let fits = (1..=16).contains(&width) && address % 4096 + u64::from(width) <= 4096;
        fits.then_some(Self { address, value, width })
    }

    /// Returns the stored bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.value[..self.width.into()]
    }
}

/// An additional PCI function whose BAR 0 is an alias of one of the first function's BARs, and
/// which has nothing else. An access to it is an access to that BAR, but stores are posted: the
/// guest does not wait for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// Device id. The vendor id is the first function's.
    pub device: u16,
    /// Class code.
    pub class: u32,
    /// Index of the first function's BAR.
    pub bar: u8,
}

/// A base address register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// Index, 0 to 5. A 64-bit BAR also uses the next index.
    pub index: u8,
    /// Size in bytes, a power of two.
    pub size: u64,
    /// Whether the BAR is 64-bit and prefetchable.
    pub wide: bool,
    /// The contents of the BAR.
    pub kind: BarKind,
    /// Allowed widths of trapped accesses.
    pub widths: Widths,
}

impl Bar {
    /// Returns a BAR with the registers of the family and of the model.
    #[must_use]
    pub fn registers(index: u8) -> Self {
        let widths = Widths::DWORD | Widths::QWORD;
        Self { index, size: ULN_REGISTERS_SIZE.into(), wide: false, kind: BarKind::Registers, widths }
    }

    /// Returns a 64-bit BAR with at least `used` bytes, each access to which reaches the card.
    #[must_use]
    pub fn trapped(index: u8, used: u64, widths: Widths) -> Self {
        Self { index, size: used.next_power_of_two(), wide: true, kind: BarKind::Registers, widths }
    }

    /// Returns a 64-bit BAR with a window of `used` bytes.
    #[must_use]
    pub fn window(index: u8, used: u64) -> Self {
        let widths = Widths::DWORD | Widths::QWORD;
        Self { index, size: used.next_power_of_two(), wide: true, kind: BarKind::Window { used }, widths }
    }
}

bitflags! {
    /// Widths of trapped accesses, in bytes. Each access must be naturally aligned.
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

/// A card's position on its switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The host id, which is the port's number.
    pub host: u16,
    /// Number of ports of the switch; 0 if the switch does not report it.
    pub ports: u16,
}

/// The contents of a BAR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarKind {
    /// Every access is a call of [`Card::register_read`] or [`Card::register_write`].
    Registers,
    /// Memory that the guest maps. The card accesses its first `used` bytes through
    /// [`Ports::window`].
    Window {
        /// Number of backed bytes, a multiple of 4,096.
        used: u64,
    },
}

/// Result of a trapped read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The value.
    Now(u64),
    /// The value comes later from [`Card::late_reading`], under this number. The guest's processor
    /// is stalled until then.
    Later(u64),
}

impl Reading {
    /// Returns the value, unless it comes later.
    #[must_use]
    pub fn now(self) -> Option<u64> {
        match self {
            Reading::Now(value) => Some(value),
            Reading::Later(_) => None,
        }
    }
}

/// Result of a card's attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The card did some work, and there may be more.
    Worked,
    /// The card did some work and leaves the rest to the next turn, because the machine's accesses
    /// have priority.
    Yielded,
    /// The link is full: try again when it has space.
    LinkFull,
    /// There is nothing to send.
    Idle,
}

impl Progress {
    /// Whether the card did any work.
    #[must_use]
    pub fn has_worked(self) -> bool {
        matches!(self, Progress::Worked | Progress::Yielded)
    }
}

/// A card of the family.
///
/// The host process calls one method at a time. It delivers all packets that have arrived before it
/// lets the card send more: incoming traffic has priority (section 2.8).
///
/// Each call does a bounded amount of work, about 100 us, because other cards of the process wait
/// meanwhile. The card continues the rest of a received packet in [`Card::transmit`], and accepts
/// no other packet until then ([`Card::takes_packets`]).
pub trait Card {
    /// Returns the card's identity, which never changes.
    fn identity(&self) -> Identity;

    /// Handles a trapped read of `width` bytes inside BAR `bar`. The width is one of the BAR's
    /// widths, and the offset is aligned. Undefined offsets read as zero.
    fn register_read(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8) -> Reading;

    /// Returns the number and the value of the next deferred read that has completed. Called after
    /// each other method while reads are deferred. A reset cancels all deferred reads.
    fn late_reading(&mut self) -> Option<(u64, u64)> {
        None
    }

    /// Handles a trapped write of `width` bytes inside BAR `bar`. The width is one of the BAR's
    /// widths, and the offset is aligned.
    fn register_write(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8, value: u64);

    /// Reports a processor's store to a page that the card watches. Stores of one processor arrive
    /// in program order, before any call that results from what the processor did afterwards.
    fn store_seen(&mut self, ports: &Ports<'_>, store: &Store) {
        let _ = (ports, store);
    }

    /// Whether the card accepts a store now. While it does not, a processor that stores is stalled,
    /// and an access waits for at most 4 s. A card that waits for a destination must give up
    /// earlier: one slow destination must not stop a whole machine.
    fn takes_stores(&self) -> bool {
        true
    }

    /// Makes room for an access that has waited 4 s for the card to accept stores: drops the work
    /// that waits for one destination. Returns `false` if no work waits for a destination.
    ///
    /// Called again 10 ms later if the access still waits. A card may keep its work if a
    /// destination accepts packets quickly, but for less than 1 s in total.
    fn make_room(&mut self, ports: &Ports<'_>) -> bool {
        let _ = ports;
        false
    }

    /// Returns the next page that the card starts (`true`) or stops (`false`) to watch, by page
    /// number. Called after each other method.
    fn watch_change(&mut self) -> Option<(u64, bool)> {
        None
    }

    /// Reports whether stores can be watched from now on.
    fn snooping_changed(&mut self, ports: &Ports<'_>, snoops: bool) {
        let _ = (ports, snoops);
    }

    /// Sends at most one packet.
    fn transmit(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress;

    /// Accepts, refuses or discards a packet that has arrived. Called only while
    /// [`Card::takes_packets`] is true.
    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>);

    /// Whether the card accepts a packet now. While it does not, packets wait in the network, and
    /// eventually their senders wait.
    fn takes_packets(&self) -> bool {
        true
    }

    /// Asks the card to stop polling for work. Returns `false` if work has arrived in the meantime.
    /// After `true`, a doorbell or a packet wakes the card.
    fn sleep(&mut self, ports: &Ports<'_>) -> bool;

    /// Returns the time of the next [`Card::tick`] by the card's clock, or `None` if no tick is
    /// needed. Called after each other method.
    fn alarm(&self) -> Option<Duration>;

    /// Reports that the time of [`Card::alarm`] has come. Calls that are too early or too late are
    /// harmless. The tick may create packets to transmit, so it comes before [`Card::sleep`].
    fn tick(&mut self, ports: &Ports<'_>);

    /// Reports that the link to the switch is up, with this position, or down.
    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>);

    /// Returns the card to its power-on state, counters included.
    fn reset(&mut self, ports: &Ports<'_>);

    /// Returns the values of [`Card::counters`], in the same order, for traces.
    fn counts(&self) -> &[u64] {
        &[]
    }

    /// Returns the fields of the header that the card's packets begin with, for traces.
    fn packet_fields(&self) -> &'static [PacketField] {
        &[]
    }

    /// Returns what the BARs contain, beside the registers, for traces.
    fn regions(&self) -> Vec<Region> {
        Vec::new()
    }

    /// Whether the card accepts packets. If not, it discards them (section 2.8).
    fn is_enabled(&self) -> bool;

    /// Returns the card's counters with their names.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}
