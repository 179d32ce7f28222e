//! The schedule. The seed takes every decision.
//!
//! First come random steps, with work and faults. Then both end: all faults are healed, and all
//! parts take turns, in an order that the seed shuffles in each round. This goes on until a round
//! in which every part was idle. So a lost wake-up is found: its victim still sleeps, and the work
//! it should have done is still there.

use hamlyn_card::card::Progress;

use crate::engine::violation::{Violation, ensure};
use crate::engine::world::{Model, World};

/// Maximum number of rounds. A fabric that is busy after that never comes to rest.
const ROUNDS: u64 = 20_000;

impl<M: Model> World<M> {
    /// Links all cards and starts all processes.
    pub(crate) fn begin(&mut self) -> Result<(), Violation> {
        (0..self.hosts.len()).try_for_each(|host| {
            self.plug_in(host)?;
            M::begin(self, host)
        })
    }

    /// Runs the seed to its end.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        while self.step < self.course.steps {
            self.take_step()?;
            self.heal(false)?;
            self.random_step()?;
        }
        self.note(|| "the seed's part is over".into());
        M::calm(self);
        while !self.healings.is_empty() {
            self.heal(true)?;
        }
        M::finish(self)?;
        let mut idle = 0;
        for round in 0.. {
            ensure(round < ROUNDS, || "the fabric never comes to rest")?;
            // A card's request to its host in an idle round is handled in the next round, before
            // time skips ahead.
            let busy = self.round()? || (idle == 1 && (self.skip_time()? || M::prod(self)));
            idle = if busy { 0 } else { idle + 1 };
            if idle == 2 {
                break;
            }
        }
        self.check_links()?;
        M::check_rest(self)
    }

    /// Advances time by a step. Returns whether a timer of an operating system was due.
    fn take_step(&mut self) -> Result<bool, Violation> {
        self.step += 1;
        self.tell_time()
    }

    /// Called when all parts are idle. If one of them waits for a deadline, advances time to it and
    /// returns `true`; otherwise returns `false`.
    fn skip_time(&mut self) -> Result<bool, Violation> {
        let Some(deadline) = M::deadline(self) else { return Ok(false) };
        loop {
            let now = self.now();
            self.tell_time()?;
            if now >= deadline {
                return Ok(true);
            }
            self.skipped += (deadline - now).min(self.course.leap_ms);
        }
    }

    fn tell_time(&mut self) -> Result<bool, Violation> {
        let now = self.now();
        let mut busy = false;
        for host in &self.hosts {
            host.station().clock.set(now);
            if !host.stopped {
                M::beat(&host.machine)?;
                busy |= M::run_timers(&host.machine)?;
            }
        }
        Ok(busy)
    }

    fn random_step(&mut self) -> Result<(), Violation> {
        M::compose(self)?;
        if self.rng.below(1000) < self.course.faults {
            M::misfortune(self)?;
        }
        if self.rng.percent(self.course.switch_share) {
            return self.switch_step().map(drop);
        }
        let host = self.rng.index(self.hosts.len());
        if self.rng.percent(60) {
            return self.card_step(host).map(drop);
        }
        if self.hosts[host].stopped { Ok(()) } else { M::act(self, host) }
    }

    /// Gives every part a turn. Returns `false` if all were idle.
    pub(crate) fn round(&mut self) -> Result<bool, Violation> {
        let switch = self.hosts.len();
        let mut order: Vec<usize> = (0..=switch).collect();
        for last in (1..order.len()).rev() {
            let other = self.rng.index(last + 1);
            order.swap(last, other);
        }
        let mut busy = false;
        for part in order {
            // A process whose turn is over sees the effect of a timer in the next round.
            busy |= self.take_step()?;
            if part == switch {
                busy |= self.switch_step()?;
                continue;
            }
            busy |= M::act_out(self, part)?;
            for _ in 0..4 {
                busy |= self.card_step(part)?;
            }
        }
        M::check_round(self)?;
        Ok(busy)
    }

    /// Lets the switch work or go to sleep.
    fn switch_step(&mut self) -> Result<bool, Violation> {
        let done = self.switch.process().map_err(Violation::new)?;
        if done > 0 {
            self.note(|| format!("the switch does {done} things"));
        }
        Ok(done > 0 || !self.switch.sleep())
    }

    /// Runs a card's process: it takes an arrived packet or sends one, as the seed decides. If
    /// there is neither, it goes to sleep.
    fn card_step(&mut self, host: usize) -> Result<bool, Violation> {
        if self.hosts[host].frozen {
            return Ok(false);
        }
        // A tick may be late, but is never lost.
        if self.rng.percent(70) && M::tick(self, host)? {
            // The tick may have ended the wait for an answer: wake the card.
            self.hosts[host].station().set_asleep(false);
            return Ok(true);
        }
        let staged = self.hosts[host].uplink.stage.len();
        if staged > 0 && self.hosts[host].station().takes_packets() && self.rng.percent(60) {
            let index = if self.course.reorder { self.rng.index(staged) } else { 0 };
            self.faults += u64::from(index > 0);
            self.deliver(host, index)?;
            // The packet may be an answer that the card waits for: wake it.
            self.hosts[host].station().set_asleep(false);
            return Ok(true);
        }
        if self.hosts[host].station().is_asleep() {
            if !self.hosts[host].uplink.was_woken() {
                return Ok(staged > 0);
            }
            self.hosts[host].station().set_asleep(false);
        }
        let mut received = false;
        for _ in 0..self.rng.range(0, 3) {
            received |= self.hosts[host].uplink.draw()?;
        }
        match self.transmit(host)? {
            progress if progress.has_worked() => Ok(true),
            _ if received || staged > 0 => Ok(true),
            progress => self.card_sleeps(host, progress == Progress::LinkFull),
        }
    }

    /// Goes to sleep like `device/host/src/single.rs`. Returns whether there is still work.
    fn card_sleeps(&mut self, host: usize, link_full: bool) -> Result<bool, Violation> {
        if self.hosts[host].uplink.draw()? {
            return Ok(true);
        }
        let at = &mut self.hosts[host];
        // A card without a link asks for its port again; no packet wakes it.
        let card_sleeps = link_full || at.station().with_card(|card, ports| card.sleep(ports))?;
        let asleep = card_sleeps && at.uplink.sleep(link_full)?;
        at.station().set_asleep(asleep);
        // A link that is down counts as full until it is up again: that is not work.
        Ok(!asleep && at.uplink.is_up())
    }

    /// Checks that no packet waits for a card, and that the counters account for every packet. Each
    /// packet that went into the switch came out or was counted as dropped.
    fn check_links(&mut self) -> Result<(), Violation> {
        for (number, host) in self.hosts.iter_mut().enumerate() {
            let staged = host.uplink.stage.len();
            ensure(staged == 0 && !host.uplink.draw()?, || {
                format!("work has stopped, but packets for host {number} wait")
            })?;
        }
        let ports = self.switch.counters().ports;
        let sum = |counter: fn(&hamlyn_switch::PortCounters) -> u64| ports.iter().map(counter).sum::<u64>();
        let sent: u64 = self.hosts.iter().map(|host| host.uplink.sent).sum();
        let taken: u64 = self.hosts.iter().map(|host| host.uplink.taken).sum();
        let (arrived, forwarded) = (sum(|port| port.packets_in), sum(|port| port.packets_out));
        let orphaned = sum(|port| port.orphaned);
        ensure(sent == arrived + orphaned, || {
            format!("cards sent {sent} packets: the switch took {arrived}, and {orphaned} were orphaned")
        })?;
        let dropped = sum(|port| port.dropped_absent + port.dropped_malformed);
        let (made, joined) = (sum(|port| port.cut + port.copied), sum(|port| port.joined));
        ensure(arrived + made == joined + forwarded + dropped, || {
            format!(
                "the switch took {arrived} packets: it made {made} more by cutting and copying, {joined} fewer by joining, forwarded \
                 {forwarded} and dropped {dropped}"
            )
        })?;
        let undelivered = sum(|port| port.undelivered);
        ensure(forwarded == taken + undelivered, || {
            format!(
                "the switch forwarded {forwarded} packets: cards took {taken}, {undelivered} were in rings that went"
            )
        })
    }
}
