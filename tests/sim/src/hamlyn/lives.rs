//! Starting and ending processes.

use crate::engine::rng::Rng;
use crate::engine::violation::Violation;
use crate::hamlyn::around::Around;
use crate::hamlyn::connections::Connections;
use crate::hamlyn::correspondent::Correspondent;
use crate::hamlyn::fetches::Fetches;
use crate::hamlyn::intruder::Intruder;
use crate::hamlyn::ledger::Ledger;
use crate::hamlyn::numbers::Numbers;
use crate::hamlyn::process::{Kind, Process, Role};
use crate::hamlyn::program::{Offer, Program};
use crate::hamlyn::streaming::Streamer;
use crate::hamlyn::streams::Streams;
use crate::hamlyn::talking::leave_channels;
use crate::hamlyn::world::Host;

/// Maximum number of pages of a process.
const MOST_PAGES: usize = 52;

/// Starts and ends processes, and resets their cards.
pub(super) struct Lives<'a> {
    pub(super) around: Around<'a>,
    pub(super) ledger: &'a mut Ledger,
    pub(super) fetches: &'a mut Fetches,
    pub(super) streams: &'a mut Streams,
    pub(super) connections: &'a mut Connections,
    pub(super) numbers: &'a mut Numbers,
}

impl Lives<'_> {
    /// Starts the processes of a host.
    pub(super) fn populate(&mut self, host: usize) -> Result<(), Violation> {
        for _ in 0..self.around.scenario.processes {
            self.start(host, Kind::Honest, None)?;
        }
        if self.around.scenario.streams || self.around.scenario.connections {
            self.start(host, Kind::Correspondent, None)?;
        }
        if self.around.scenario.forgers && self.around.rng.percent(60) {
            self.start(host, Kind::Hostile, None)?;
        }
        Ok(())
    }

    /// Starts a process, in place of a dead one if one is given.
    pub(super) fn start(
        &mut self,
        host: usize,
        kind: Kind,
        instead_of: Option<usize>,
    ) -> Result<(), Violation> {
        let pid = self.numbers.pid();
        let at = &mut self.around.hosts[host];
        let Some((process, offer)) = spawn(at, self.around.rng, pid, kind)? else { return Ok(()) };
        match instead_of {
            Some(index) => at.processes[index] = process,
            None => at.processes.push(process),
        }
        self.ledger.places.extend(offer.places);
        self.fetches.words.extend(offer.words);
        Ok(())
    }

    /// Kills a process in the middle of its actions, if it is alive. Its memory is free at once.
    /// Returns whether it was alive.
    pub(super) fn kill(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let victim = self.around.hosts[host].processes.get(process);
        let Some(victim) = victim.filter(|process| process.is_alive()) else { return Ok(false) };
        let pid = victim.pid;
        // It may also exit properly.
        let orderly = self.around.rng.percent(40);
        self.around.note(|| format!("host {host} process {process} dies (orderly: {orderly})"));
        self.ledger.bury(host, pid);
        self.fetches.bury(host, pid);
        if let Some(program) = self.around.hosts[host].correspondent(process).filter(|_| orderly) {
            leave_channels(program, self.connections, self.around.now);
        }
        self.end(host, process, orderly)?;
        Ok(true)
    }

    /// Resets the card, if it runs, which ends all processes of its host. Returns those that were
    /// alive.
    pub(super) fn reset_card(&mut self, host: usize) -> Result<Option<Vec<usize>>, Violation> {
        let machine = self.around.hosts[host].machine.clone();
        if !machine.tables().running {
            return Ok(None);
        }
        self.around.note(|| format!("card {host} is reset"));
        machine.reset()?;
        // All packets on their way to or through the card are lost.
        self.excuse(host);
        let mut victims = Vec::new();
        for process in 0..self.around.hosts[host].processes.len() {
            let victim = &self.around.hosts[host].processes[process];
            if victim.is_alive() {
                let pid = victim.pid;
                self.ledger.bury(host, pid);
                self.fetches.bury(host, pid);
                self.end(host, process, false)?;
                victims.push(process);
            }
        }
        Ok(Some(victims))
    }

    /// Notes that packets from or to this host may be lost from now on.
    pub(super) fn excuse(&mut self, host: usize) {
        self.ledger.excuse(|other, _| other == host);
        self.fetches.excuse(|other| other == host);
        self.streams.excuse(host);
    }

    /// Ends a process, and notes what becomes of its streams and connections.
    fn end(&mut self, host: usize, process: usize, orderly: bool) -> Result<(), Violation> {
        let pid = self.around.hosts[host].processes[process].pid;
        self.around.hosts[host].kill(process, orderly)?;
        Streamer { around: self.around.lend(), streams: self.streams }.bury(pid);
        self.connections.bury(pid, self.around.now);
        Ok(())
    }
}

/// Creates a process. Returns `None` if the host has no room. The offer is for all other processes.
fn spawn(host: &Host, rng: &mut Rng, pid: u64, kind: Kind) -> Result<Option<(Process, Offer)>, Violation> {
    let machine = &host.machine;
    if !machine.tables().have_room(MOST_PAGES) {
        return Ok(None);
    }
    let (role, offer) = match kind {
        Kind::Hostile => {
            let Some(intruder) = Intruder::start(machine, rng, pid)? else { return Ok(None) };
            (Role::Hostile(intruder), Offer::default())
        }
        Kind::Honest => {
            let (program, offer) = Program::start(machine, rng, pid).map_err(Violation::new)?;
            (Role::Honest(Box::new(program)), offer)
        }
        Kind::Correspondent => {
            let program = Correspondent::start(machine, pid).map_err(Violation::new)?;
            (Role::Correspondent(Box::new(program)), Offer::default())
        }
    };
    let process = Process { pid, kind, role, asleep: false, slow_until: 0 };
    Ok(Some((process, offer)))
}
