//! Arriving packets: checked, held in the Incoming FIFO, deposited (sections 3.1 and 4).

use std::collections::VecDeque;
use std::time::Duration;

use hamlyn_abi::shrimp::entry::SHRIMP_SYSTEM_PAGE;
use hamlyn_abi::shrimp::statistics::ShrimpStatistic;
use hamlyn_card::ordered::write_in_order;
use hamlyn_card::ports::{Packet, Ports};

use super::arrivals::{Report, VECTOR};
use super::packet::{Arrived, Coordinates, Fault, LARGEST, OVERHEAD};
use super::{PAGE, ShrimpCard};

/// The Incoming FIFO.
#[derive(Debug)]
pub(crate) struct Incoming {
    packets: VecDeque<(u16, Arrived)>,
    fill: usize,
    threshold: usize,
    capacity: usize,
    /// HOLD: the driver wants arriving packets to stay here.
    hold: bool,
    stops: Stops,
}

/// The card ends HOLD after HOLD has stopped the network for this long in total. The senders are
/// stopped for as long, and QEMU ends a machine whose store is not taken for 20 seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// The total starts at 0 again after this long without a stop. Until then the driver cannot set
/// HOLD once the total has reached [`PATIENCE`].
const REST: Duration = Duration::from_secs(300);

/// How long HOLD has stopped the network.
#[derive(Debug, Default, Clone, Copy)]
struct Stops {
    /// When the current stop began.
    since: Option<Duration>,
    /// The total length of the earlier stops.
    sum: Duration,
    /// When the latest of them ended.
    ended: Duration,
}

impl Stops {
    /// Records whether HOLD stops the network now.
    fn note(&mut self, is_stopped: bool, now: Duration) {
        match self.since {
            None if is_stopped => {
                if now >= self.ended + REST {
                    self.sum = Duration::ZERO;
                }
                self.since = Some(now);
            }
            Some(since) if !is_stopped => {
                *self = Stops { since: None, sum: self.sum + (now - since), ended: now };
            }
            _ => {}
        }
    }

    /// Returns when the card must end the current stop.
    fn deadline(&self) -> Option<Duration> {
        self.since.map(|since| since + PATIENCE.saturating_sub(self.sum))
    }

    /// Returns whether the driver cannot set HOLD now.
    fn are_used_up(&self, now: Duration) -> bool {
        self.sum >= PATIENCE && now < self.ended + REST
    }
}

impl Incoming {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            packets: VecDeque::new(),
            fill: 0,
            threshold: capacity / 2,
            capacity,
            hold: false,
            stops: Stops::default(),
        }
    }

    /// Returns the FIFO after a reset. A reset does not clear the total of stops.
    pub(crate) fn renewed(&self, now: Duration) -> Self {
        let mut stops = self.stops;
        stops.note(false, now);
        Self { stops, ..Self::new(self.capacity) }
    }

    pub(crate) fn holds(&self) -> bool {
        self.hold
    }

    /// Sets or clears HOLD. Returns `false` if that is refused.
    pub(crate) fn set_hold(&mut self, hold: bool, now: Duration) -> bool {
        self.hold = hold && !self.stops.are_used_up(now);
        self.hold == hold
    }

    /// Clears HOLD. The next [`ShrimpCard::drain`] deposits the packets of the FIFO.
    pub(crate) fn end_hold(&mut self) {
        self.hold = false;
    }

    pub(crate) fn fill(&self) -> usize {
        self.fill
    }

    pub(crate) fn threshold(&self) -> usize {
        self.threshold
    }

    pub(crate) fn set_threshold(&mut self, threshold: usize) {
        self.threshold = threshold.clamp(1, self.capacity);
    }

    /// Returns whether packets are accepted from the network: the fill is below the threshold, and
    /// any packet fits.
    pub(crate) fn has_room(&self) -> bool {
        self.fill < self.threshold && self.fill + LARGEST <= self.capacity
    }

    /// Records whether packets are accepted. Called after every change that may affect that.
    pub(crate) fn look(&mut self, now: Duration) {
        let is_stopped = self.hold && !self.has_room();
        self.stops.note(is_stopped, now);
    }

    /// Returns when HOLD ends, if the driver does not clear it before.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.stops.deadline()
    }

    fn push(&mut self, source: u16, packet: Arrived) {
        self.fill += OVERHEAD + packet.data_length();
        self.packets.push_back((source, packet));
    }

    fn pop(&mut self) -> Option<(u16, Arrived)> {
        let next = self.packets.pop_front()?;
        self.fill -= OVERHEAD + next.1.data_length();
        Some(next)
    }
}

impl ShrimpCard {
    /// Takes a packet from the network into the FIFO, if it is whole and for this node.
    pub(super) fn take(&mut self, packet: &Packet<'_>) {
        if !self.chassis.is_enabled() {
            return self.count(ShrimpStatistic::Discarded);
        }
        let places = (self.here, Coordinates::of(packet.source, self.columns));
        let (Some(here), Some(from)) = places else { return self.count(ShrimpStatistic::WrongNode) };
        match Arrived::take(packet.bytes, here, from) {
            Ok(arrived) => {
                self.incoming.push(packet.source, arrived);
                if !self.incoming.has_room() && self.incoming.hold {
                    self.count(ShrimpStatistic::IncomingFull);
                }
            }
            Err(Fault::Malformed) => self.count(ShrimpStatistic::Malformed),
            Err(Fault::WrongNode) => self.count(ShrimpStatistic::WrongNode),
            Err(Fault::BadChecksum) => self.count(ShrimpStatistic::BadChecksum),
        }
    }

    /// Deposits the packets in the FIFO, unless HOLD is set.
    pub(super) fn drain(&mut self, ports: &Ports<'_>) {
        while !self.incoming.hold {
            let Some((source, mut packet)) = self.incoming.pop() else { break };
            if let Err(reason) = self.deposit(ports, source, &mut packet) {
                self.count(reason);
            }
        }
        self.incoming.look(ports.clock.now());
        if self.arrivals.take_news() {
            self.count(ShrimpStatistic::Interrupts);
            ports.interrupt.raise(VECTOR);
        }
    }

    /// Deposits a packet if the page accepts it. Otherwise fails with the reason's counter, and
    /// changes nothing.
    fn deposit(
        &mut self,
        ports: &Ports<'_>,
        source: u16,
        packet: &mut Arrived,
    ) -> Result<(), ShrimpStatistic> {
        let length = packet.data_length() as u64;
        let (address, is_reported) = self.place(source, packet.address, length)?;
        // A processor that sees a word also sees those before it, in this packet and in earlier
        // ones.
        let written = write_in_order(ports.dma, address, packet.data());
        written.map_err(|_| ShrimpStatistic::Discarded)?;
        self.count(ShrimpStatistic::PacketsDeposited);
        self.counters.add(ShrimpStatistic::BytesDeposited, length);
        let page = (address / PAGE) as u32;
        if is_reported | self.arrivals.take_asked(page) {
            match self.arrivals.report(ports, page) {
                Ok(Report::Written) => self.count(ShrimpStatistic::Arrivals),
                Ok(Report::Coalesced) => self.count(ShrimpStatistic::ArrivalsCoalesced),
                Err(_) => self.count(ShrimpStatistic::Discarded),
            }
        }
        Ok(())
    }

    /// Returns the address that a packet's data goes to, and whether the arrival is reported.
    fn place(&self, source: u16, address: u64, length: u64) -> Result<(u64, bool), ShrimpStatistic> {
        if address / PAGE == SHRIMP_SYSTEM_PAGE {
            let page = self.system_pages.get(&source).ok_or(ShrimpStatistic::NotMappedIn)?;
            return Ok((page * PAGE + address % PAGE, true));
        }
        let reported = self.nipt.takes(address, length, source).ok_or(ShrimpStatistic::NotMappedIn)?;
        Ok((address, reported))
    }
}
