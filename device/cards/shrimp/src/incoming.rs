//! What arrives: checked, held in the Incoming FIFO, deposited (sections 3.1 and 4).

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
    /// The driver wants what arrives to stay here.
    hold: bool,
    stops: Stops,
}

/// How long the network stands for a host that holds what arrives, in sum: then it is let in. Whoever sends stands with it,
/// and a machine whose store is not taken at all for 20 seconds is lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// After so long without a stop the sum begins anew. Until then a host that has used up [`PATIENCE`] can hold nothing.
const REST: Duration = Duration::from_secs(300);

/// For how long the host has stopped the network by what it holds.
#[derive(Debug, Default, Clone, Copy)]
struct Stops {
    /// Since when nothing more is taken.
    since: Option<Duration>,
    /// How long the stops before that were.
    sum: Duration,
    /// When the last of them ended.
    ended: Duration,
}

impl Stops {
    /// Notes whether the network is stopped.
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

    /// When a stop that goes on has to end.
    fn deadline(&self) -> Option<Duration> {
        self.since.map(|since| since + PATIENCE.saturating_sub(self.sum))
    }

    /// Whether the host can hold nothing now.
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

    /// The same after a reset, which does not make earlier stops forgotten.
    pub(crate) fn renewed(&self, now: Duration) -> Self {
        let mut stops = self.stops;
        stops.note(false, now);
        Self { stops, ..Self::new(self.capacity) }
    }

    pub(crate) fn holds(&self) -> bool {
        self.hold
    }

    /// Has what arrives stay here, or no more. Returns false if that is refused.
    pub(crate) fn set_hold(&mut self, hold: bool, now: Duration) -> bool {
        self.hold = hold && !self.stops.are_used_up(now);
        self.hold == hold
    }

    /// What is held is let in by the next [`ShrimpCard::drain`], as the network has stood for long enough.
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

    /// Whether more is taken from the network: below the threshold, if any packet fits.
    pub(crate) fn has_room(&self) -> bool {
        self.fill < self.threshold && self.fill + LARGEST <= self.capacity
    }

    /// Notes whether anything more is taken, after whatever may change that.
    pub(crate) fn look(&mut self, now: Duration) {
        let is_stopped = self.hold && !self.has_room();
        self.stops.note(is_stopped, now);
    }

    /// When what is held is let in, if it is not before.
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

    /// Deposits what is in the FIFO, unless the driver wants it held.
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

    /// Deposits a packet if the page takes it. Fails with the counter of the reason, and has changed nothing then.
    fn deposit(
        &mut self,
        ports: &Ports<'_>,
        source: u16,
        packet: &mut Arrived,
    ) -> Result<(), ShrimpStatistic> {
        let length = packet.data_length() as u64;
        let (address, is_reported) = self.place(source, packet.address, length)?;
        // A processor that sees a word sees those before it, in this packet and in earlier ones.
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

    /// Where a packet's data goes, and whether that is reported.
    fn place(&self, source: u16, address: u64, length: u64) -> Result<(u64, bool), ShrimpStatistic> {
        if address / PAGE == SHRIMP_SYSTEM_PAGE {
            let page = self.system_pages.get(&source).ok_or(ShrimpStatistic::NotMappedIn)?;
            return Ok((page * PAGE + address % PAGE, true));
        }
        let reported = self.nipt.takes(address, length, source).ok_or(ShrimpStatistic::NotMappedIn)?;
        Ok((address, reported))
    }
}
