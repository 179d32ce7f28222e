//! The single step from a ring to a ring. Packets without room are [held](crate::held).

use std::collections::VecDeque;

use hamlyn_fabric::{Geometry, HostId, RingError};

use super::groups::{Copies, Handed};
use super::inputs::{Inputs, Wait};
use super::outputs::Outputs;
use super::transit::{Offer, Served, Taken, Transit};
use crate::bursts::Cutter;
use crate::counters::PortCounters;
use crate::held::Bounds;
use crate::output::{self, Output, Step};

/// Packets that one output gets before it is another output's turn.
const SHARE: usize = 64;

#[derive(Debug)]
pub(super) struct Direct {
    bounds: Bounds,
    /// Bytes held for each source.
    held: Vec<usize>,
    /// Bytes held for all sources.
    all_held: usize,
    /// Outputs with packets that may leave.
    loaded: VecDeque<usize>,
}

impl Direct {
    pub(super) fn new(ports: usize, geometry: Geometry) -> Direct {
        let bounds = Bounds::of(geometry);
        Direct { bounds, held: vec![0; ports], all_held: 0, loaded: VecDeque::new() }
    }

    fn hold(&mut self, source: usize, bytes: usize) {
        self.held[source] += bytes;
        self.all_held += bytes;
    }

    /// Records that `bytes` bytes of a source are no longer held.
    fn release(&mut self, source: usize, bytes: usize, inputs: &mut Inputs) {
        self.held[source] -= bytes;
        self.all_held -= bytes;
        inputs.end_wait(source, Wait::Bounds);
    }

    /// Adds an output with packets that may leave to the list of loaded outputs, unless its bell
    /// will ring when they may.
    fn list(&mut self, port: usize, output: &mut Output) {
        if output.load() {
            self.loaded.push_back(port);
        }
    }

    /// Moves an output's share of packets into its ring, counting them in `moved`. If any are left,
    /// the output is in the list again, or its bell will ring.
    fn put_out(
        &mut self,
        port: usize,
        (output, mut cutter): (&mut Output, Option<&mut Cutter>),
        inputs: &mut Inputs,
        counters: &mut PortCounters,
        moved: &mut usize,
    ) -> Result<(), RingError> {
        output.unload();
        while *moved < SHARE {
            if let Some(cutter) = &mut cutter {
                output.prepare(cutter, |source| inputs.largest(source), counters);
            }
            match output.step(counters)? {
                Step::Left => {}
                Step::Released(source, bytes) => {
                    if !output.held().has(source) {
                        inputs.resume(source, port);
                    }
                    self.release(source, bytes, inputs);
                }
                Step::Nothing => return Ok(()),
                Step::NoRoom => {
                    if !output.ask_for_room()? {
                        self.list(port, output);
                    }
                    return Ok(());
                }
            }
            *moved += 1;
        }
        self.list(port, output);
        Ok(())
    }
}

impl Transit for Direct {
    fn take(
        &mut self,
        packet: &Offer<'_>,
        output: &mut Output,
        _cutter: Option<&mut Cutter>,
        counters: &mut PortCounters,
    ) -> Result<Taken, RingError> {
        let (source, port) = (packet.header.source.index(), packet.header.destination.index());
        let taken = output.take(packet.header, packet.payload, &self.bounds, self.held[source], counters)?;
        let taken = match taken {
            output::Taken::Refused => return Ok(Taken::NotNow(Wait::Bounds)),
            output::Taken::Accepted => Taken::Accepted,
            output::Taken::Held { bytes, stop } => {
                self.hold(source, bytes);
                Taken::Held { stop }
            }
        };
        self.list(port, output);
        Ok(taken)
    }

    fn take_copies(
        &mut self,
        copies: &Copies<'_>,
        outputs: &mut Outputs,
        counters: &mut [PortCounters],
    ) -> Option<Handed> {
        let source = copies.source().index();
        let handed = copies.hand_out(outputs, &self.bounds, self.held[source], counters);
        self.hold(source, handed.bytes);
        for &member in copies.members() {
            if let Some(output) = outputs.get_mut(member) {
                self.list(member, output);
            }
        }
        Some(handed)
    }

    fn turns(&self) -> usize {
        self.loaded.len()
    }

    fn serve(&mut self, inputs: &mut Inputs, outputs: &mut Outputs, counters: &mut [PortCounters]) -> Served {
        let mut served = Served::default();
        let Some(port) = self.loaded.pop_front() else { return served };
        let Some(output) = outputs.with_cutter(port) else { return served };
        let put_out = self.put_out(port, output, inputs, &mut counters[port], &mut served.moved);
        served.broken.extend(put_out.err().map(|error| (port, error)));
        served
    }

    fn wake(&mut self, port: usize, output: &mut Output) {
        self.list(port, output);
    }

    fn detach(&mut self, port: usize, output: &Output, inputs: &mut Inputs, counters: &mut [PortCounters]) {
        for (source, packets, bytes) in output.held().sources() {
            counters[source].dropped_absent += packets;
            self.release(source, bytes, inputs);
            inputs.resume(source, port);
        }
        self.loaded.retain(|&other| other != port);
    }

    fn is_waiting(&self) -> bool {
        self.all_held > 0
    }

    fn demand(&self, _host: HostId, output: &Output) -> Option<u64> {
        (!output.held().is_empty()).then_some(1)
    }

    fn held_from(&self, source: usize) -> usize {
        self.held[source]
    }
}
