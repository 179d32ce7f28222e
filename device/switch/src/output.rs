//! One output: the ring to a card, the paths that lead to it, and the packets that wait for room.

use hamlyn_fabric::{Header, HostId, Producer, RingError};
use vm_memory::VolatileSlice;

use crate::bursts::Cutter;
use crate::counters::PortCounters;
use crate::held::{Bounds, Held, Packet};
use crate::paths::Paths;

/// The bytes that the card had taken when it last took enough, and the number of checks since then
/// that found too little.
#[derive(Debug, Clone, Copy)]
struct Watch {
    taken: u64,
    looks: u32,
}

#[derive(Debug)]
pub(crate) struct Output {
    ring: Producer,
    /// `None` if there is only one path.
    paths: Option<Paths>,
    /// Whether it is in the list of outputs with packets that may leave.
    is_loaded: bool,
    /// Whether the card was asked to ring when it has room and has not rung since.
    asked: bool,
    /// Packets for which there was no room.
    held: Held,
    /// Whether each packet is held first, even if there is room.
    holds_all: bool,
    watch: Option<Watch>,
}

/// Result of taking in a packet for an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It was forwarded.
    Accepted,
    /// It is held and takes `bytes` of its source's bounds. `stop`: its source must stop sending.
    Held { bytes: usize, stop: bool },
    /// There is no room, and no more packets of this source may be held.
    Refused,
}

/// Result of an attempt to move a packet on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A packet went from a path into the ring.
    Left,
    /// A held packet went onto a path or into the ring. The fields are its source and its bytes of
    /// the source's bounds.
    Released(usize, usize),
    /// The ring is full.
    NoRoom,
    /// The queue is empty.
    Nothing,
}

impl Output {
    pub(crate) fn new(ring: Producer, paths: Option<Paths>, holds_all: bool) -> Output {
        let held = Held::default();
        Output { ring, paths, is_loaded: false, asked: false, held, holds_all, watch: None }
    }

    /// Returns the packets for which there was no room.
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// Returns the sources of the packets on its paths.
    pub(crate) fn sources_on_paths(&self) -> impl Iterator<Item = HostId> + '_ {
        self.paths.iter().flat_map(Paths::sources)
    }

    /// Returns whether a packet that bypasses this output overtakes none in it.
    pub(crate) fn may_be_bypassed(&self) -> bool {
        self.paths.is_none() && self.held.is_empty()
    }

    /// Returns whether the card has taken all packets in the ring.
    pub(crate) fn is_drained(&mut self) -> bool {
        // A corrupt ring is detected when it is used.
        self.ring.is_drained().unwrap_or(false)
    }

    /// Returns the number of packets in the ring that the card has not taken.
    pub(crate) fn unread(&mut self) -> u64 {
        self.ring.unread().unwrap_or(0)
    }

    /// Returns `true` if the output must be listed as loaded: it has packets that may leave, and is
    /// not listed yet. If its bell will ring when they may, it need not be listed.
    pub(crate) fn load(&mut self) -> bool {
        let has_packets = !self.held.is_empty() || self.paths.as_ref().is_some_and(|paths| !paths.is_empty());
        let is_new = !self.is_loaded && !self.asked && has_packets;
        self.is_loaded |= is_new;
        is_new
    }

    /// Records that the output was removed from the list of loaded ones.
    pub(crate) fn unload(&mut self) {
        self.is_loaded = false;
    }

    /// Asks the card to ring when it has room. Returns `false` if it already has room.
    pub(crate) fn ask_for_room(&mut self) -> Result<bool, RingError> {
        self.asked = self.ring.sleep_for_room()?;
        Ok(self.asked)
    }

    /// Records that the card has rung.
    pub(crate) fn wake(&mut self) {
        self.asked = false;
    }

    /// Cuts or joins the held packet that is served next. `largest` returns the length of the
    /// longest packet that a source has sent.
    pub(crate) fn prepare(
        &mut self,
        cutter: &mut Cutter,
        largest: impl FnOnce(usize) -> usize,
        counters: &mut PortCounters,
    ) {
        if let Some(source) = self.held.turn() {
            cutter.prepare(&mut self.held, largest(source), counters);
        }
    }

    /// Takes a packet in, or holds it until there is room. `input` is the number of bytes held of
    /// its source for all outputs together.
    pub(crate) fn take(
        &mut self,
        header: Header,
        payload: VolatileSlice<'_>,
        bounds: &Bounds,
        input: usize,
        counters: &mut PortCounters,
    ) -> Result<Taken, RingError> {
        if self.may_pass() && self.accept(header, &payload, counters)? {
            return Ok(Taken::Accepted);
        }
        let pair = self.held.bytes_from(header.source.index());
        if !bounds.admit(pair, input, payload.len()) {
            return Ok(Taken::Refused);
        }
        Ok(self.hold(header, &payload, bounds))
    }

    /// Returns whether a packet may be forwarded at once: it must not overtake those that wait.
    fn may_pass(&self) -> bool {
        self.held.is_empty() && !self.holds_all
    }

    fn hold(&mut self, header: Header, payload: &VolatileSlice<'_>, bounds: &Bounds) -> Taken {
        let packet = Packet::copy(header, payload);
        let (source, bytes) = (header.source.index(), packet.bytes());
        self.held.push(source, packet);
        Taken::Held { bytes, stop: self.held.bytes_from(source) > bounds.mark }
    }

    /// Takes a packet in, onto a path or else into the ring. Returns `false` if there is no room.
    pub(crate) fn accept(
        &mut self,
        header: Header,
        payload: &VolatileSlice<'_>,
        counters: &mut PortCounters,
    ) -> Result<bool, RingError> {
        if self.paths.as_ref().is_some_and(|paths| !paths.has_room(header))
            && self.leave(counters)? != Step::Left
        {
            return Ok(false);
        }
        if let Some(paths) = &mut self.paths {
            return Ok(paths.push(header, payload));
        }
        if !self.ring.send(header, &[*payload])? {
            return Ok(false);
        }
        counters.packets_out += 1;
        counters.bytes_out += payload.len() as u64;
        Ok(true)
    }

    /// Moves one packet on. A held packet goes onto a path as soon as one has room, so that it
    /// meets other packets there.
    pub(crate) fn step(&mut self, counters: &mut PortCounters) -> Result<Step, RingError> {
        let paths = self.paths.as_ref();
        let has_way = |packet: &Packet| paths.is_none_or(|paths| paths.has_room(packet.header));
        if let Some(packet) = self.held.first().filter(|packet| has_way(packet)) {
            let (source, bytes) = (packet.header.source.index(), packet.bytes());
            let length = packet.payload.len();
            let payload = VolatileSlice::from(&mut packet.payload[..]);
            match &mut self.paths {
                Some(paths) => drop(paths.push(packet.header, &payload)),
                None if self.ring.send(packet.header, &[payload])? => {
                    counters.packets_out += 1;
                    counters.bytes_out += length as u64;
                }
                None => return Ok(Step::NoRoom),
            }
            self.held.pop();
            return Ok(Step::Released(source, bytes));
        }
        self.leave(counters)
    }

    /// Moves a packet from a path into the ring.
    fn leave(&mut self, counters: &mut PortCounters) -> Result<Step, RingError> {
        let Some(paths) = self.paths.as_mut().filter(|paths| !paths.is_empty()) else {
            return Ok(Step::Nothing);
        };
        let Some(gone) = paths.send(&mut self.ring)? else { return Ok(Step::NoRoom) };
        counters.packets_out += 1;
        counters.bytes_out += gone.length as u64;
        counters.overtaken += u64::from(gone.overtaken);
        Ok(Step::Left)
    }

    /// Checks whether the card takes at least `demand` bytes while packets wait for it. Returns
    /// `true` if it took less for `most` checks in a row.
    pub(crate) fn is_stuck(&mut self, most: u32, demand: Option<u64>) -> Result<bool, RingError> {
        let Some(least) = demand else {
            // Earlier checks, when no packet waited, do not count.
            self.watch = None;
            return Ok(false);
        };
        let taken = self.ring.taken()?;
        let watch = match self.watch {
            Some(watch) if taken < watch.taken + least => Watch { looks: watch.looks + 1, ..watch },
            _ => Watch { taken, looks: 0 },
        };
        self.watch = Some(watch);
        Ok(watch.looks >= most)
    }
}
