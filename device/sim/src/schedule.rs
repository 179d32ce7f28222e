//! Who goes next. Every decision is the seed's.
//!
//! First come random steps, with traffic and faults. Then no more of either: everything is healed and all go in turn,
//! in an order that the seed shuffles anew in each round, until a round in which nobody had anything to do. So a
//! wake-up that was lost shows: its victim sleeps on, and what it should have moved is still there.

use hamlyn_card::card::{Card, Progress};

use crate::violation::{Violation, ensure};
use crate::world::World;

/// Rounds after which a fabric that still has work will always have.
const ROUNDS: u64 = 20_000;

impl World {
    /// Runs to the end.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        while self.step < self.scenario.steps {
            self.take_step()?;
            self.heal(false)?;
            self.random_step()?;
        }
        self.note(|| "the seed's part is over".into());
        for process in self.hosts.iter_mut().flat_map(|host| &mut host.processes) {
            process.slow_until = 0;
        }
        while !self.healings.is_empty() {
            self.heal(true)?;
        }
        if self.scenario.stands_still {
            self.stand_still()?;
        }
        self.connections.healed = Some(self.now());
        let mut idle = 0;
        for round in 0.. {
            ensure(round < ROUNDS, || "the fabric never comes to rest")?;
            let busy = self.round()? || self.skip_time()? || self.break_streams();
            idle = if busy { 0 } else { idle + 1 };
            // What an operating system did in the course of an idle round is seen in the next.
            if idle == 2 {
                break;
            }
        }
        self.check_rest()?;
        self.check_baseline()
    }

    /// Time passes; the drivers of hosts that run make their handshakes.
    fn take_step(&mut self) -> Result<(), Violation> {
        self.step += 1;
        self.time_is(self.step * self.scenario.step_ms + self.skipped)
    }

    /// Nobody has anything to do, but cards wait for answers, or operating systems for signs of life: lets the time pass until
    /// they do something about it, or returns `false`.
    fn skip_time(&mut self) -> Result<bool, Violation> {
        let ticks = self.hosts.iter().filter_map(|host| host.machine.next_tick());
        let Some(deadline) = ticks.chain(self.fetches.deadline()).min() else { return Ok(false) };
        let stride = u64::from(self.scenario.handshake_steps) * self.scenario.step_ms / 2;
        loop {
            let now = self.step * self.scenario.step_ms + self.skipped;
            self.time_is(now)?;
            if now >= deadline {
                return Ok(true);
            }
            self.skipped += (deadline - now).min(if stride == 0 { u64::MAX } else { stride });
        }
    }

    fn time_is(&mut self, now: u64) -> Result<(), Violation> {
        for host in &self.hosts {
            host.machine.clock.set(now);
            if !host.stopped {
                host.machine.beat()?;
                host.machine.tick_system()?;
            }
        }
        Ok(())
    }

    fn random_step(&mut self) -> Result<(), Violation> {
        if self.rng.below(1000) < self.scenario.traffic {
            self.compose()?;
        }
        if self.rng.below(1000) < self.scenario.fetches {
            self.compose_fetch()?;
        }
        if self.rng.below(1000) < self.scenario.faults {
            self.misfortune()?;
        }
        if self.rng.percent(self.scenario.switch_share) {
            return self.switch_step().map(drop);
        }
        let host = self.rng.index(self.hosts.len());
        if self.rng.percent(60) {
            self.card_step(host)?
        } else {
            self.process_step(host)?
        };
        Ok(())
    }

    /// Everybody once. `false`: nobody had anything to do.
    pub(crate) fn round(&mut self) -> Result<bool, Violation> {
        let switch = self.hosts.len();
        let mut order: Vec<usize> = (0..=switch).collect();
        for last in (1..order.len()).rev() {
            let other = self.rng.index(last + 1);
            order.swap(last, other);
        }
        let mut busy = false;
        for who in order {
            self.take_step()?;
            if who == switch {
                busy |= self.switch_step()?;
                continue;
            }
            busy |= self.interrupts(who)?;
            for process in 0..self.hosts[who].processes.len() {
                busy |= self.everything_of(who, process)?;
            }
            for _ in 0..4 {
                busy |= self.card_step(who)?;
            }
        }
        self.check_connections()?;
        Ok(busy)
    }

    fn everything_of(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let mut busy = self.finish_streams(host, process)?;
        busy |= self.finish_connections(host, process)?;
        busy |= self.collect(host, process)?;
        busy |= self.post_next(host, process)?;
        self.doze(host, process)?;
        while self.read_queue(host, process)? {
            busy = true;
        }
        if self.rng.percent(30) {
            busy |= self.sleep(host, process)?;
        }
        Ok(busy)
    }

    /// The switch does some work, or goes to sleep.
    fn switch_step(&mut self) -> Result<bool, Violation> {
        let done = self.switch.process().map_err(Violation::new)?;
        if done > 0 {
            self.note(|| format!("the switch does {done} things"));
        }
        Ok(done > 0 || !self.switch.sleep())
    }

    /// A card's process takes what has arrived or sends, as the seed has it, or goes to sleep if there is neither.
    fn card_step(&mut self, host: usize) -> Result<bool, Violation> {
        if self.hosts[host].frozen {
            return Ok(false);
        }
        // It may be late, but does not forget.
        if self.rng.percent(70) && self.hosts[host].machine.tick()? {
            let machine = &self.hosts[host].machine;
            self.fetches.give_up(host, machine.clock.milliseconds());
            // Whose answer does not come goes on.
            machine.set_asleep(false);
            return Ok(true);
        }
        let staged = self.hosts[host].uplink.stage.len();
        if staged > 0 && self.rng.percent(60) {
            let index = if self.scenario.reorder { self.rng.index(staged) } else { 0 };
            self.faults += u64::from(index > 0);
            self.deliver(host, index)?;
            // Whose answer this was goes on.
            self.hosts[host].machine.set_asleep(false);
            return Ok(true);
        }
        if self.hosts[host].machine.is_asleep() {
            if !self.hosts[host].uplink.was_woken() {
                return Ok(staged > 0);
            }
            self.hosts[host].machine.set_asleep(false);
        }
        let mut received = false;
        for _ in 0..self.rng.range(0, 3) {
            received |= self.hosts[host].uplink.draw()?;
        }
        match self.transmit(host)? {
            Progress::Worked => Ok(true),
            _ if received || staged > 0 => Ok(true),
            progress => self.card_sleeps(host, progress == Progress::LinkFull),
        }
    }

    /// The handshake of `device/host/src/single.rs`. Returns whether there is something to do after all.
    fn card_sleeps(&mut self, host: usize, link_full: bool) -> Result<bool, Violation> {
        if self.hosts[host].uplink.draw()? {
            return Ok(true);
        }
        let at = &mut self.hosts[host];
        // A card without a link asks for its port again; nothing wakes it for packets.
        let card_sleeps = link_full || at.machine.with_card(|card, ports| card.sleep(ports))?;
        let asleep = card_sleeps && at.uplink.sleep(link_full)?;
        at.machine.set_asleep(asleep);
        // A link that is down is full, and will be until it is up: that is no work.
        Ok(!asleep && at.uplink.is_up())
    }

    /// A host's driver handles its card's interrupts. Returns whether there was anything for it.
    fn interrupts(&mut self, host: usize) -> Result<bool, Violation> {
        let handled = self.hosts[host].handle_interrupts()?;
        self.check_severed(host)?;
        Ok(handled)
    }

    /// A process of a host does something, or its driver handles an interrupt.
    fn process_step(&mut self, host: usize) -> Result<bool, Violation> {
        if self.hosts[host].stopped || self.hosts[host].processes.is_empty() {
            return Ok(false);
        }
        let process = self.rng.index(self.hosts[host].processes.len());
        if self.scenario.connections && self.rng.percent(30) && self.interrupts(host)? {
            return Ok(true);
        }
        if self.correspond(host, process)? {
            return Ok(true);
        }
        match self.rng.below(9) {
            0 => self.interrupts(host),
            1 => self.sleep(host, process),
            2 | 3 => self.collect(host, process),
            4..=6 => {
                let burst = self.rng.range(1, 8);
                let busy = (0..burst).try_fold(false, |busy, _| Ok(self.post_next(host, process)? || busy));
                self.doze(host, process)?;
                busy
            }
            _ => self.read_queue(host, process),
        }
    }
}
