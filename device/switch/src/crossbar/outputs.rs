//! The outputs by port, and what each new one gets: its paths, and the cutting of its packets.

use hamlyn_fabric::{Producer, Protocol};

use crate::bursts::{Bursts, Cutter, Policy};
use crate::output::Output;
use crate::paths::{MAX_PATHS, Paths};

#[derive(Debug)]
pub(super) struct Outputs {
    ports: Vec<Option<Output>>,
    paths: u16,
    seed: u64,
    /// Protocols whose packets stay in order on several paths.
    ordered: Vec<Protocol>,
    cutter: Option<Cutter>,
}

impl Outputs {
    /// Creates outputs without rings. Each will have one path.
    pub(super) fn new(ports: usize) -> Outputs {
        let ports = (0..ports).map(|_| None).collect();
        Outputs { ports, paths: 1, seed: 0, ordered: Vec::new(), cutter: None }
    }

    pub(super) fn set_paths(&mut self, paths: u16, seed: u64) {
        (self.paths, self.seed) = (paths.clamp(1, MAX_PATHS), seed);
    }

    pub(super) fn set_bursts(&mut self, bursts: &[Bursts], policy: Policy) {
        self.ordered = bursts.iter().map(|bursts| bursts.protocol).collect();
        self.cutter = Cutter::new(bursts, policy);
    }

    pub(super) fn attach(&mut self, port: usize, ring: Producer) {
        let paths = || Paths::new(self.paths, self.seed.wrapping_add(port as u64), &self.ordered);
        let paths = (self.paths > 1).then(paths);
        let holds_all = self.cutter.as_ref().is_some_and(Cutter::wants_all);
        self.ports[port] = Some(Output::new(ring, paths, holds_all));
    }

    /// Detaches a port. Returns its output, if it has one.
    pub(super) fn detach(&mut self, port: usize) -> Option<Output> {
        self.ports.get_mut(port)?.take()
    }

    pub(super) fn is_attached(&self, port: usize) -> bool {
        self.ports.get(port).is_some_and(Option::is_some)
    }

    pub(super) fn get_mut(&mut self, port: usize) -> Option<&mut Output> {
        self.ports.get_mut(port)?.as_mut()
    }

    /// Returns an output together with what cuts and joins packets.
    pub(super) fn with_cutter(&mut self, port: usize) -> Option<(&mut Output, Option<&mut Cutter>)> {
        Some((self.ports.get_mut(port)?.as_mut()?, self.cutter.as_mut()))
    }

    /// Returns all outputs together with what cuts and joins packets.
    pub(super) fn all_with_cutter(&mut self) -> (&mut [Option<Output>], Option<&mut Cutter>) {
        (&mut self.ports, self.cutter.as_mut())
    }

    /// Returns the outputs by port.
    pub(super) fn iter(&self) -> impl Iterator<Item = Option<&Output>> {
        self.ports.iter().map(Option::as_ref)
    }
}
