//! Implements the engine's interface for fabrics of echo cards.

use std::sync::Arc;

use hamlyn_abi::echo::statistics::EchoStatistic;
use hamlyn_abi::echo::window::ECHO_MAX_MESSAGE;
use hamlyn_fabric::{Header, HostId, Protocol};

use crate::engine::rng::Rng;
use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::{Model, World};

use super::machine::{MAILBOXES, Machine};
use super::mailbox::{Letter, Owner, packet};

/// A fabric of echo cards.
#[derive(Debug)]
pub(super) struct Echo {
    /// Period in milliseconds; 0: the cards have no handshake timers.
    handshake_ms: u32,
    /// New messages per thousand steps.
    traffic: u64,
    /// Packets that were sent and have not arrived.
    pub(super) flying: Vec<Letter>,
    /// Messages that reached their owners.
    pub(super) taken: u64,
    /// A violation found where no error can be returned.
    found: Option<Violation>,
}

impl Echo {
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self {
            handshake_ms: rng.pick(&[0, 100, 400]).unwrap_or(0),
            traffic: u64::from(rng.range(50, 600)),
            flying: Vec::new(),
            taken: 0,
            found: None,
        }
    }

    pub(super) fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("messages", self.taken)]
    }
}

impl Model for Echo {
    type Machine = Machine;
    type Process = Owner;
    type Healing = ();

    fn largest_packet(&self) -> usize {
        8 + ECHO_MAX_MESSAGE as usize
    }

    fn machine(&mut self, host: u16, rng: &mut Rng) -> Result<Arc<Machine>, Violation> {
        Machine::new(host, self.handshake_ms, rng).map(Arc::new)
    }

    fn begin(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        for mailbox in 0..MAILBOXES as usize {
            world.hosts[host].processes.push(Owner::default());
            let records = world.rng.pick(&[4, 4, 8]).unwrap_or(4);
            world.succeed(host, mailbox, records)?;
        }
        Ok(())
    }

    fn before_unplug(world: &mut World<Self>, host: usize) {
        for letter in &mut world.model.flying {
            letter.excused |= [letter.source, letter.destination].map(usize::from).contains(&host);
        }
    }

    fn beat(machine: &Machine) -> Result<(), Violation> {
        machine.beat()
    }

    fn tick(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        world.hosts[host].machine.tick()
    }

    fn deadline(_: &World<Self>) -> Option<u64> {
        None
    }

    /// Creates a message. Occasionally its destination does not exist, or it is too long.
    fn compose(world: &mut World<Self>) -> Result<(), Violation> {
        if world.rng.below(1000) >= world.model.traffic {
            return Ok(());
        }
        let (host, mailbox) = (world.rng.index(world.hosts.len()), world.rng.index(MAILBOXES as usize));
        let somebody = world.rng.below(world.hosts.len() as u64 + 1) as u32;
        let destination = if world.rng.percent(3) { 1 << 16 | somebody } else { somebody };
        let length = match world.rng.below(10) {
            0 => 0,
            1 => ECHO_MAX_MESSAGE,
            2 => ECHO_MAX_MESSAGE + world.rng.range(1, 5000),
            _ => world.rng.range(1, 200),
        };
        let data = world.rng.bytes(length as usize);
        let to = world.rng.below(u64::from(MAILBOXES) + 1) as u32;
        world.hosts[host].processes[mailbox].plans.push_back((destination, to, data));
        Ok(())
    }

    fn misfortune(world: &mut World<Self>) -> Result<(), Violation> {
        world.faults += 1;
        let (host, mailbox) = (world.rng.index(world.hosts.len()), world.rng.index(MAILBOXES as usize));
        let end = world.step + u64::from(world.rng.range(1, 300));
        match world.rng.below(7) {
            0 => world.port_down(host, end),
            1 => world.port_flickers(host),
            2 => {
                let frozen = world.rng.percent(50);
                world.host_stops(host, end, frozen);
                Ok(())
            }
            3 => {
                let records = world.rng.pick(&[4, 8]).unwrap_or(4);
                world.succeed(host, mailbox, records)
            }
            4 => world.ring_again(host, mailbox),
            _ => world.forge(host),
        }
    }

    fn heal(_: &mut World<Self>, (): ()) -> Result<(), Violation> {
        Ok(())
    }

    fn act(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        let mailbox = world.rng.index(MAILBOXES as usize);
        let asleep = world.hosts[host].processes[mailbox].asleep;
        match world.rng.below(4) {
            0 => world.wake(host),
            1 if !asleep => {
                world.sleep(host, mailbox);
                true
            }
            2 if !asleep => world.take_next(host, mailbox)?,
            _ => world.ring(host, mailbox)?,
        };
        world.check_found()
    }

    fn act_out(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        let mut busy = world.wake(host);
        for mailbox in 0..MAILBOXES as usize {
            busy |= world.ring(host, mailbox)?;
            if world.hosts[host].processes[mailbox].asleep {
                continue;
            }
            while world.take_next(host, mailbox)? {
                busy = true;
            }
            world.sleep(host, mailbox);
        }
        Ok(busy)
    }

    fn sent(world: &mut World<Self>, host: usize, destination: u16, packet: &[u8]) {
        if let Err(violation) = world.note_sent(host, destination, packet) {
            world.model.found.get_or_insert(violation);
        }
    }

    fn arrived(world: &mut World<Self>, host: usize, packet: Arrived) -> Result<(), Violation> {
        world.check_found()?;
        world.take(host, packet)
    }

    fn check_round(world: &mut World<Self>) -> Result<(), Violation> {
        world.check_found()
    }

    fn calm(_: &mut World<Self>) {}

    fn finish(_: &mut World<Self>) -> Result<(), Violation> {
        Ok(())
    }

    fn prod(_: &mut World<Self>) -> bool {
        false
    }

    fn check_rest(world: &mut World<Self>) -> Result<(), Violation> {
        let hosts = world.hosts.len();
        for (number, host) in world.hosts.iter().enumerate() {
            for owner in &host.processes {
                let waits = owner.rung_for.is_some() || !owner.plans.is_empty();
                ensure(!waits, || format!("host {number}: mailbox {} never sent", owner.mailbox))?;
                ensure(owner.inbox.is_empty(), || {
                    format!("host {number}: the owner of mailbox {} sleeps beside a message", owner.mailbox)
                })?;
            }
            let counters = host.machine.counters();
            let sent = counters[usize::from(EchoStatistic::Sent)] + host.uplink.injected;
            ensure(sent == host.uplink.sent, || {
                format!("host {number} sent {} packets, and counts {sent}", host.uplink.sent)
            })?;
        }
        let lost = world
            .model
            .flying
            .iter()
            .find(|letter| !letter.excused && usize::from(letter.destination) < hosts);
        ensure(lost.is_none(), || format!("a message is lost: {lost:?}"))?;
        (0..hosts).try_for_each(|host| {
            (0..MAILBOXES).try_for_each(|mailbox| world.hosts[host].machine.close(mailbox))
        })
    }
}

impl World<Echo> {
    fn check_found(&mut self) -> Result<(), Violation> {
        self.model.found.take().map_or(Ok(()), Err)
    }

    /// Rings again while the card still has the owner's last message. The card must count this ring
    /// and ignore it.
    fn ring_again(&mut self, host: usize, mailbox: usize) -> Result<(), Violation> {
        if self.hosts[host].processes[mailbox].rung_for.is_none() {
            return Ok(());
        }
        let machine = self.hosts[host].machine.clone();
        let refused = |machine: &Machine| machine.counters()[usize::from(EchoStatistic::RefusedRings)];
        let before = refused(&machine);
        machine.ring(mailbox as u32)?;
        ensure(refused(&machine) == before + 1, || format!("host {host}: a ring too many is not counted"))
    }

    /// Sends a packet of a hostile host, bypassing its card.
    fn forge(&mut self, host: usize) -> Result<(), Violation> {
        let others = self.hosts.len();
        let (victim, source) = (self.rng.index(others) as u16, host as u16);
        let length = self.rng.index(self.max_packet + 1);
        let mut bytes = self.rng.bytes(length);
        if self.rng.percent(60) {
            // Nearly valid.
            let data = self.rng.bytes(length.saturating_sub(8));
            bytes = packet(self.rng.range(0, MAILBOXES), self.rng.next() as u32, &data);
        }
        let protocol = self.hosts[host].machine.with_card(|card, _| card.identity().protocol)?;
        let protocol = Protocol::parse(protocol).map_err(Violation::new)?;
        let header = Header { destination: HostId(victim), source: HostId(victim), protocol };
        if self.hosts[host].uplink.inject(header.to_bytes(), &bytes)? {
            let excused = !self.hosts[usize::from(victim)].uplink.is_up();
            self.model.flying.push(Letter { source, destination: victim, packet: bytes, excused });
        }
        Ok(())
    }
}
