//! Attaching and detaching of cards.

use hamlyn_fabric::{Consumer, HostId, Producer};

use super::{Crossbar, Forwarded, Input, State};
use crate::bursts::Cutter;
use crate::output::Output;
use crate::paths::Paths;
use crate::refusal::Refusal;

impl Crossbar {
    /// Returns the port for a new card: the wanted one, or the first free one.
    pub fn free_port(&self, wanted: Option<HostId>) -> Result<HostId, Refusal> {
        let limit = self.inputs.len();
        match wanted {
            Some(host) if host.index() >= limit => Err(Refusal::OutOfRange { host, limit }),
            Some(host) if self.inputs[host.index()].is_some() => Err(Refusal::Taken(host)),
            Some(host) => Ok(host),
            // A crossbar has at most MAX_PORTS ports, so the number fits.
            None => match self.inputs.iter().position(Option::is_none) {
                Some(port) => Ok(HostId(port as u16)),
                None => Err(Refusal::Full(limit)),
            },
        }
    }

    /// Attaches the switch's end of a link to a port.
    pub fn attach(
        &mut self,
        sender: Producer,
        receiver: Consumer,
        wanted: Option<HostId>,
    ) -> Result<HostId, Refusal> {
        let host = self.free_port(wanted)?;
        for link in [sender.geometry(), receiver.geometry()] {
            if link != self.geometry {
                return Err(Refusal::Geometry { link, switch: self.geometry });
            }
        }
        let port = host.index();
        self.inputs[port] = Some(Input { ring: receiver, state: State::Ready, largest: 0 });
        let paths = || Paths::new(self.paths, self.seed.wrapping_add(port as u64), &self.ordered);
        let paths = (self.paths > 1).then(paths);
        let holds_all = self.cutter.as_ref().is_some_and(Cutter::wants_all);
        self.outputs[port] = Some(Output::new(sender, paths, holds_all));
        self.stop_anew(port);
        self.counters[port].attached = true;
        self.ready.push_back(port);
        Ok(host)
    }

    /// Applies the stops of its port's previous card to a new card. Packets of the previous card
    /// still wait, and go first.
    fn stop_anew(&mut self, port: usize) {
        let Some(input) = &mut self.inputs[port] else { return };
        if self.held[port] == 0 {
            return;
        }
        for (host, output) in self.outputs.iter().enumerate() {
            if output.as_ref().is_some_and(|output| output.held.has(port)) {
                input.ring.stop(HostId(host as u16));
            }
        }
    }

    /// Detaches a port whose card is gone. Packets that the card has sent are still forwarded or
    /// held. Packets that it has not taken are counted, and packets held for it are dropped.
    pub fn detach(&mut self, host: HostId) {
        let port = host.index();
        let Some(mut output) = self.outputs.get_mut(port).and_then(Option::take) else { return };
        self.counters[port].undelivered += output.ring.unread().unwrap_or(0);
        for source in output.paths.iter().flat_map(Paths::sources) {
            self.counters[source.index()].dropped_absent += 1;
        }
        for (source, packets, bytes) in output.held.sources() {
            self.counters[source].dropped_absent += packets;
            self.release(source, bytes);
            self.resume(source, port);
        }
        self.drain(port);
        self.stir_mesh();
        self.inputs[port] = None;
        self.counters[port].attached = false;
        for queue in [&mut self.ready, &mut self.loaded] {
            queue.retain(|&other| other != port);
        }
        self.empty.retain(|&other| other != port);
    }

    /// Forwards what a dead card has left in its ring, where there is room, and counts the rest.
    /// Another process may still write to the memory, so it takes at most a ring's worth.
    fn drain(&mut self, port: usize) {
        let released = |inputs: &[Option<Input>]| inputs[port].as_ref().map(|input| input.ring.released());
        let end = released(&self.inputs).map(|start| start + self.geometry.capacity as u64);
        while released(&self.inputs) < end {
            match self.forward_one(port) {
                Forwarded::Gone(_) => {}
                Forwarded::Nothing => return,
                Forwarded::Broken(other, _) if other == port => return,
                Forwarded::Blocked | Forwarded::AtTheMesh | Forwarded::Broken(..) => {
                    let Some(input) = &mut self.inputs[port] else { return };
                    input.ring.consume();
                    self.counters[port].orphaned += 1;
                }
            }
        }
    }
}
