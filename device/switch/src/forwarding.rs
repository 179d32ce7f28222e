//! An input's turn: its oldest packet is forwarded, held, or dropped and counted.

use hamlyn_fabric::{Header, HostId, RingError};

use super::meshed::{self, Entered};
use super::{Crossbar, State};
use crate::output::Taken;
use crate::refusal::Lost;

/// Result of an attempt to forward an input's oldest packet.
pub(super) enum Forwarded {
    /// The packet was forwarded, held, or dropped and counted. The number is that of its copies, if
    /// it was for a group.
    Gone(usize),
    /// There is no packet.
    Nothing,
    /// Its output has no room for it, and no more of this input can be held.
    Blocked,
    /// Its link into the mesh is not free.
    AtTheMesh,
    /// A ring is corrupt: this port must be detached.
    Broken(usize, RingError),
}

impl Crossbar {
    /// Serves an input that was removed from the ready queue. Returns how many packets it moved.
    pub(super) fn visit(&mut self, port: usize) -> usize {
        let Some(input) = &mut self.inputs[port] else { return 0 };
        self.looks += 1;
        input.state = State::Empty;
        match self.forward_one(port) {
            Forwarded::Gone(packets) => {
                self.make_ready(port);
                packets
            }
            Forwarded::Nothing => {
                self.empty.push(port);
                0
            }
            Forwarded::Blocked => {
                self.counters[port].blocked += 1;
                if let Some(input) = &mut self.inputs[port] {
                    input.state = State::Blocked;
                }
                0
            }
            Forwarded::AtTheMesh => {
                if let Some(input) = &mut self.inputs[port] {
                    input.state = State::AtTheMesh;
                }
                0
            }
            Forwarded::Broken(other, error) => {
                self.lose(other, Lost::Corrupt(error));
                self.make_ready(port);
                0
            }
        }
    }

    /// Forwards an input's oldest packet, or holds it.
    pub(super) fn forward_one(&mut self, port: usize) -> Forwarded {
        let Some(input) = &mut self.inputs[port] else { return Forwarded::Nothing };
        let record = match input.ring.peek() {
            Err(error) => return Forwarded::Broken(port, error),
            Ok(None) => return Forwarded::Nothing,
            Ok(Some(record)) => record,
        };
        let length = record.payload.len();
        input.largest = input.largest.max(length);
        let mut receiver = None;
        match record.header() {
            Err(_) => self.counters[port].dropped_malformed += 1,
            Ok(header) => {
                let destination = header.destination.index();
                let header = Header { source: HostId(port as u16), ..header };
                if let Some(group) = header.destination.group() {
                    return self.multicast(port, header, group);
                }
                match (self.outputs.get_mut(destination).and_then(Option::as_mut), &mut self.mesh) {
                    (None, _) => self.counters[port].dropped_absent += 1,
                    (Some(_), Some(mesh)) => {
                        let packet = (header, &record.payload);
                        match meshed::enter(mesh, self.cutter.as_mut(), packet, input.largest) {
                            Entered::Alone => {}
                            Entered::Joined => self.counters[destination].joined += 1,
                            Entered::NotNow => return Forwarded::AtTheMesh,
                        }
                    }
                    (Some(output), None) => {
                        let counters = &mut self.counters[destination];
                        match output.take(header, record.payload, &self.bounds, self.held[port], counters) {
                            Err(error) => return Forwarded::Broken(destination, error),
                            Ok(Taken::Refused) => return Forwarded::Blocked,
                            Ok(Taken::Accepted) => {}
                            Ok(Taken::Held { bytes, stop }) => {
                                self.held[port] += bytes;
                                self.all_held += bytes;
                                self.counters[port].stalls += 1;
                                let stops = stop && input.ring.stop(header.destination);
                                self.counters[port].stops += u64::from(stops);
                            }
                        }
                        receiver = Some(destination);
                    }
                }
            }
        }
        input.ring.consume();
        self.counters[port].packets_in += 1;
        self.counters[port].bytes_in += length as u64;
        if let Some(receiver) = receiver {
            self.list_loaded(receiver);
        }
        Forwarded::Gone(1)
    }
}
