//! All kinds of faults, those of cards and processes, and their ends.

use crate::engine::violation::Violation;
use crate::engine::world;
use crate::hamlyn::process::{Kind, Process};
use crate::hamlyn::world::World;

/// The end of a fault of a card or a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Healing {
    /// The card is enabled, and the host's processes are started again.
    Card(usize),
    /// Another process takes over the memory of the one that died.
    Process(usize, usize),
}

impl World {
    /// Injects one fault, of a kind and at a place that the seed chooses.
    pub(crate) fn misfortune(&mut self) -> Result<(), Violation> {
        let host = self.rng.index(self.hosts.len());
        let process = self.rng.index(self.hosts[host].processes.len());
        let end = self.step + u64::from(self.rng.range(1, 120));
        let forgers = self.model.scenario.forgers;
        let one = self.hosts[host].processes.get(process);
        let alive = one.is_some_and(Process::is_alive);
        let hostile = alive && one.is_some_and(|process| process.kind == Kind::Hostile);
        match self.rng.below(21) {
            // Does not use the generator, so that known seeds keep their meaning.
            0 if end % 3 == 0 => self.port_flickers(host)?,
            0 => self.port_down(host, end)?,
            1 | 2 => self.process_dies(host, process, end)?,
            3 => self.host_stops(host, end, false),
            4 => self.host_stops(host, end, true),
            5 if self.rng.percent(40) => self.card_resets(host, end)?,
            6 | 7 => self.receiver_slows(host, process, end),
            8..=10 if hostile => self.forge_request(host, process)?,
            11..=13 if forgers => self.forge_packets(host)?,
            14 | 15 if forgers => self.scribble(),
            16 | 17 if alive && !hostile => self.blunder(host, process)?,
            18 | 19 => self.send_again(),
            20 => self.shut()?,
            _ => return Ok(()),
        }
        self.faults += 1;
        Ok(())
    }

    /// Kills a process in the middle of its actions. Its memory is free at once.
    fn process_dies(&mut self, host: usize, process: usize, end: u64) -> Result<(), Violation> {
        let Some(victim) = self.hosts[host].processes.get(process).filter(|process| process.is_alive())
        else {
            return Ok(());
        };
        let pid = victim.pid;
        // It may also exit properly.
        let orderly = self.rng.percent(40);
        self.note(|| format!("host {host} process {process} dies (orderly: {orderly})"));
        self.model.ledger.bury(host, pid);
        self.model.fetches.bury(host, pid);
        if orderly {
            self.leave_channels(host, process);
        }
        self.hosts[host].kill(process, orderly)?;
        self.bury_streams(pid);
        self.model.connections.bury(pid, self.now());
        self.healings.push((end, world::Healing::Own(Healing::Process(host, process))));
        Ok(())
    }

    /// Resets the card. Its driver starts everything again some time later.
    fn card_resets(&mut self, host: usize, end: u64) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        if !machine.tables().running {
            return Ok(());
        }
        self.note(|| format!("card {host} is reset"));
        machine.reset()?;
        // All packets on their way to or through the card are lost.
        self.model.ledger.excuse(|other, _| other == host);
        self.model.fetches.excuse(|other| other == host);
        self.excuse_streams(host);
        for process in 0..self.hosts[host].processes.len() {
            let victim = &self.hosts[host].processes[process];
            if victim.is_alive() {
                let pid = victim.pid;
                self.model.ledger.bury(host, pid);
                self.model.fetches.bury(host, pid);
                self.hosts[host].kill(process, false)?;
                self.bury_streams(pid);
                self.model.connections.bury(pid, self.now());
                self.healings.push((end, world::Healing::Own(Healing::Process(host, process))));
            }
        }
        // This fault comes first, so that it also ends first: a process needs a card.
        self.healings.insert(0, (end, world::Healing::Own(Healing::Card(host))));
        Ok(())
    }

    fn receiver_slows(&mut self, host: usize, process: usize, end: u64) {
        if let Some(receiver) = self.hosts[host].processes.get_mut(process) {
            receiver.slow_until = end;
        }
        self.note(|| format!("host {host} process {process} is slow"));
    }

    /// Ends a fault of a card or a process.
    pub(crate) fn heal_own(&mut self, healing: Healing) -> Result<(), Violation> {
        match healing {
            Healing::Card(host) => self.hosts[host].machine.enable()?,
            Healing::Process(host, process) if self.hosts[host].machine.tables().running => {
                let kind = self.hosts[host].processes[process].kind;
                self.start_process(host, kind, Some(process))?;
            }
            // The card was reset meanwhile, and is not enabled yet.
            Healing::Process(..) => self.healings.push((self.step + 1, world::Healing::Own(healing))),
        }
        Ok(())
    }
}
