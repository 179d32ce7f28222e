//! Where the parts of a fabric of CLAN cards meet.

use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::account::{Account, Shared};
use super::arrival::Arrival;
use super::changing::Changing;
use super::departure::Departure;
use super::forgery::Forgery;
use super::model::Clan;
use super::packet::{GROUPS, Letter, group_of, parts};
use super::processor::Acting;
use super::turn::Turn;

impl World<Clan> {
    pub(super) fn account(&mut self, host: usize) -> (&mut Account, &mut Shared) {
        (&mut self.model.accounts[host], &mut self.model.shared)
    }

    fn turn(&mut self, host: usize) -> Turn<'_> {
        let Clan { accounts, shared, group_keys: keys, .. } = &mut self.model;
        let processors = &mut self.hosts[host].processes;
        Turn { host, rng: &mut self.rng, accounts, shared, processors, keys }
    }

    pub(super) fn acting(&mut self, host: usize) -> Acting<'_> {
        Acting { turn: self.turn(host) }
    }

    pub(super) fn changing(&mut self, host: usize) -> Changing<'_> {
        Changing { turn: self.turn(host) }
    }

    /// Adds a random action to a process of a host.
    pub(super) fn plan(&mut self, host: usize) {
        if let Some((processor, action)) = self.turn(host).plan().some_action() {
            self.hosts[host].processes[processor].plan(action);
        }
    }

    /// Does the next action of a processor. Returns whether one could be done.
    pub(super) fn go_on(&mut self, host: usize, processor: usize) -> Result<bool, Violation> {
        let (account, shared) = (&mut self.model.accounts[host], &mut self.model.shared);
        let Some(action) = self.hosts[host].processes[processor].next(&account.loads) else {
            return Ok(false);
        };
        account.settle(shared)?;
        self.note(|| format!("host {host}: {action:x?}"));
        self.acting(host).carry_out(processor, action)
    }

    /// Opens or closes a random object as the driver.
    pub(super) fn change(&mut self, host: usize) -> Result<(), Violation> {
        let Some(owner) = self.changing(host).change()? else { return Ok(()) };
        self.note(|| format!("host {host}: owner {owner} is killed"));
        self.changing(host).kill(owner)
    }

    /// Resets a card. Its unsent data is lost.
    pub(super) fn reset(&mut self, host: usize) -> Result<(), Violation> {
        let (account, shared) = self.account(host);
        account.settle(shared)?;
        self.note(|| format!("host {host} resets its card"));
        self.turn(host).driver().reset()?;
        self.model.cut_off(host);
        self.model.shared.readings.reset(host as u16);
        self.model.shared.standing.reset(host);
        self.hosts[host].processes.iter_mut().for_each(|processor| processor.reset());
        self.changing(host).set_up()
    }

    /// Checks a packet that has left a card.
    pub(super) fn note_sent(&mut self, host: usize, to: u16, bytes: &[u8]) -> Result<(), Violation> {
        let departure = Departure::new(&self.model.accounts[host], to, bytes)?;
        let letter = departure.letter();
        self.note(|| format!("  it is {}, from {host} to {to}, epoch {}", letter.brief(), letter.epoch));
        let (account, shared) = self.account(host);
        departure.settle(account, shared)?;
        self.model.credits.spend(host as u16, to, letter)?;
        // An announcement is for all cards that the switch knows when it passes.
        let to_all = letter.kind == GROUPS && group_of(to.into()).is_some();
        let all = if to_all { 0..=self.hosts.len() as u16 - 1 } else { to..=to };
        for there in all {
            // The switch drops packets for a port without a card.
            let uplink = self.hosts.get(usize::from(there)).map(|host| &host.uplink);
            let is_known = uplink.is_some_and(|link| link.is_up() && (!to_all || link.is_member(0)));
            self.model.flights.send((host as u16, there), parts(bytes), !is_known);
        }
        self.model.check_credits((host as u16, to), letter.epoch)?;
        let (account, shared) = self.account(host);
        account.check(shared)
    }

    /// Hands a packet to its card. Its words must be the next of those that were sent from its
    /// source: only those that a port took down with it may be missing.
    pub(super) fn take(&mut self, host: usize, arrived: Arrived) -> Result<(), Violation> {
        let (account, shared) = self.account(host);
        account.settle(shared)?;
        let Arrived { source, bytes } = arrived;
        let read = Letter::read(&bytes);
        let is_next = self.model.flights.take((source, host as u16), parts(&bytes));
        ensure(is_next, || {
            let what = read.as_ref().map_or_else(String::new, |(letter, _)| letter.brief());
            format!("host {host}: a packet from {source} is not the next that was sent: {what}")
        })?;
        let Clan { accounts, shared, credits, .. } = &mut self.model;
        let read = read.map(|(letter, is_sound)| (credits.starve(host as u16, source, letter), is_sound));
        let parts = (&mut accounts[host], shared, credits);
        let arrival = Arrival::hand_over((source, bytes), read, parts)?;
        self.note(|| format!("host {host} gets {}", arrival.describe()));
        let is_open = self.model.accounts[usize::from(source)].ledger.by_tag(arrival.tag()).is_some();
        let (account, shared) = self.account(host);
        arrival.settle(account, shared, is_open)
    }

    /// Sends a packet that bypasses the host's card.
    pub(super) fn forge(&mut self, host: usize) -> Result<(), Violation> {
        let victim = self.rng.index(self.hosts.len());
        let Clan { accounts, shared, credits, .. } = &self.model;
        let (victim, max_packet) = (&accounts[victim], self.max_packet);
        let forgery = Forgery { host: host as u16, victim, shared, credits, max_packet };
        let (to, bytes) = (victim.id, forgery.packet(&mut self.rng));
        if let Some(excused) = self.inject(host, to, &bytes)? {
            self.model.flights.send((host as u16, to), parts(&bytes), excused);
            self.model.forged += 1;
        }
        Ok(())
    }
}
