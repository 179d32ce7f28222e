//! Implements the engine's interface for fabrics of echo cards.

use std::sync::Arc;

use hamlyn_abi::echo::statistics::EchoStatistic;
use hamlyn_abi::echo::window::ECHO_MAX_MESSAGE;
use hamlyn_card::ports::{Packet, VolatileSlice};

use crate::engine::rng::Rng;
use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::{Host, Model, World};

use super::machine::{MAILBOXES, Machine};
use super::owner::{Owner, Plan};
use super::post::{HEADER, Letter, Post, from, mailbox, packet};

/// Keys that mailboxes require, and that messages carry. Some differ in one half only.
const LOCKS: [u64; 3] = [0, 0, 0x5_0000_0007];
const KEYS: [u64; 6] = [0x5_0000_0007, 0x5_0000_0007, 0x5_0000_0007, 0, 0x5_0000_0000, 7];

/// A fabric of echo cards.
#[derive(Debug)]
pub(super) struct Echo {
    /// Period in milliseconds; 0: the cards have no handshake timers.
    handshake_ms: u32,
    /// New messages per thousand steps.
    traffic: u64,
    post: Post,
    /// Messages that reached their owners.
    taken: u64,
}

impl Echo {
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self {
            handshake_ms: rng.pick(&[0, 100, 400]).unwrap_or(0),
            traffic: u64::from(rng.range(50, 600)),
            post: Post::default(),
            taken: 0,
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
        HEADER + ECHO_MAX_MESSAGE as usize
    }

    fn machine(&mut self, host: u16, rng: &mut Rng) -> Result<Arc<Machine>, Violation> {
        Machine::new(host, self.handshake_ms, rng).map(Arc::new)
    }

    fn begin(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        for mailbox in 0..MAILBOXES {
            let records = world.rng.pick(&[4, 4, 8]).unwrap_or(4);
            let lock = world.rng.pick(&LOCKS).unwrap_or(0);
            let owner = Owner::new(&world.hosts[host].machine, mailbox, records, lock)?;
            world.hosts[host].processes.push(owner);
        }
        Ok(())
    }

    fn before_unplug(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        world.model.post.excuse(host as u16);
        Ok(())
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
        let other = world.rng.below(world.hosts.len() as u64 + 1) as u32;
        let destination = if world.rng.percent(3) { 1 << 16 | other } else { other };
        let length = match world.rng.below(10) {
            0 => 0,
            1 => ECHO_MAX_MESSAGE,
            2 => ECHO_MAX_MESSAGE + world.rng.range(1, 5000),
            _ => world.rng.range(1, 200),
        };
        let data = world.rng.bytes(length as usize);
        let to = world.rng.below(u64::from(MAILBOXES) + 1) as u32;
        let key = world.rng.pick(&KEYS).unwrap_or(0);
        world.hosts[host].processes[mailbox].plan(Plan { destination, to, key, data });
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
                let lock = world.rng.pick(&LOCKS).unwrap_or(0);
                let Host { machine, processes, .. } = &mut world.hosts[host];
                processes[mailbox] = Owner::new(machine, mailbox as u32, records, lock)?;
                Ok(())
            }
            4 => world.hosts[host].processes[mailbox].ring_again(&world.hosts[host].machine),
            _ => world.forge(host),
        }
    }

    fn act(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        let mailbox = world.rng.index(MAILBOXES as usize);
        let Host { machine, processes, .. } = &mut world.hosts[host];
        let owner = &mut processes[mailbox];
        match world.rng.below(4) {
            0 => {
                world.wake(host);
            }
            1 if !owner.is_asleep() => owner.sleep(machine),
            2 if !owner.is_asleep() => world.model.taken += u64::from(owner.take_next(machine)?),
            _ => {
                owner.ring(machine, &mut world.rng)?;
            }
        }
        Ok(())
    }

    fn act_out(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        let mut busy = world.wake(host);
        let Host { machine, processes, .. } = &mut world.hosts[host];
        for owner in processes {
            busy |= owner.ring(machine, &mut world.rng)?;
            if owner.is_asleep() {
                continue;
            }
            while owner.take_next(machine)? {
                world.model.taken += 1;
                busy = true;
            }
            owner.sleep(machine);
        }
        Ok(busy)
    }

    fn sent(world: &mut World<Self>, host: usize, destination: u16, packet: &[u8]) -> Result<(), Violation> {
        world.note_sent(host, destination, packet)
    }

    fn arrived(world: &mut World<Self>, host: usize, packet: Arrived) -> Result<(), Violation> {
        world.take(host, packet)
    }

    fn check_rest(world: &mut World<Self>) -> Result<(), Violation> {
        let hosts = world.hosts.len();
        for (number, host) in world.hosts.iter().enumerate() {
            host.processes.iter().try_for_each(|owner| owner.check_at_rest(host.id))?;
            let counters = host.machine.counters();
            let sent = counters[usize::from(EchoStatistic::Sent)] + host.uplink.injected;
            ensure(sent == host.uplink.sent, || {
                format!("host {number} sent {} packets, and counts {sent}", host.uplink.sent)
            })?;
        }
        let lost = world.model.post.lost(hosts);
        ensure(lost.is_none(), || format!("a message is lost: {lost:?}"))?;
        (0..hosts).try_for_each(|host| {
            (0..MAILBOXES).try_for_each(|mailbox| world.hosts[host].machine.close(mailbox))
        })
    }
}

impl World<Echo> {
    /// Wakes the owners that the card has fired for, as the driver. Returns whether there were any.
    fn wake(&mut self, host: usize) -> bool {
        let Host { machine, processes, .. } = &mut self.hosts[host];
        let fired = machine.interrupts();
        fired.iter().for_each(|mailbox| processes[*mailbox as usize].wake(machine));
        !fired.is_empty()
    }

    /// Checks a packet that has left a card.
    fn note_sent(&mut self, host: usize, destination: u16, packet: &[u8]) -> Result<(), Violation> {
        let Host { machine, processes, .. } = &mut self.hosts[host];
        let from = (packet.len() >= HEADER).then(|| from(packet));
        let owner = processes.iter_mut().find(|owner| Some(owner.mailbox()) == from);
        let owner = owner.ok_or_else(|| Violation::new(format!("host {host}: a packet from no mailbox")))?;
        let letter = owner.note_sent(machine, destination, packet)?;
        // The switch drops packets for a port without a card.
        let excused = self.hosts.get(usize::from(destination)).is_some_and(|there| !there.uplink.is_up());
        self.model.post.send(Letter { excused, ..letter });
        Ok(())
    }

    /// Hands a packet to its card: it is deposited in a mailbox, or counted.
    fn take(&mut self, host: usize, arrived: Arrived) -> Result<(), Violation> {
        let Arrived { source, mut bytes } = arrived;
        let length = bytes.len();
        ensure(self.model.post.take(source, host as u16, &bytes), || {
            format!("host {host}: a packet of {length} bytes from {source} was not sent")
        })?;
        let Host { machine, processes, .. } = &mut self.hosts[host];
        let is_enabled = machine.is_enabled()?;
        let mailbox = mailbox(&bytes).filter(|_| is_enabled);
        let inbox = mailbox.and_then(|mailbox| machine.inbox(mailbox));
        let owner = mailbox.filter(|_| inbox.is_some()).map(|mailbox| &mut processes[mailbox as usize]);
        let counter = match (mailbox, &inbox, &owner) {
            (None, ..) => EchoStatistic::Discarded,
            (_, None, _) | (_, _, None) => EchoStatistic::NoMailbox,
            (_, _, Some(owner)) if !owner.admits(&bytes) => EchoStatistic::Refused,
            (_, inbox, Some(owner)) if !owner.has_room(machine, inbox.as_ref()) => EchoStatistic::InboxFull,
            _ => EchoStatistic::Received,
        };
        let owner = owner.filter(|_| counter == EchoStatistic::Received);
        machine.memory.take_writes();
        let before = machine.counters();
        let packet = Packet { source, bytes: VolatileSlice::from(&mut bytes[..]).into() };
        machine.with_card(|card, ports| card.packet_arrived(ports, &packet))?;
        let (writes, after) = (machine.memory.take_writes(), machine.counters());
        let counted = usize::from(counter);
        ensure(after[counted] == before[counted] + 1, || {
            format!("host {host}: a packet was not counted as {counter:?}")
        })?;
        match owner {
            Some(owner) => owner.check_deposit(machine, source, &bytes, &writes),
            None => ensure(writes.is_empty(), || {
                format!("host {host}: {counter:?}, and yet {} writes", writes.len())
            }),
        }
    }

    /// Sends a packet of a hostile host, bypassing its card.
    fn forge(&mut self, host: usize) -> Result<(), Violation> {
        let others = self.hosts.len();
        let (victim, source) = (self.rng.index(others) as u16, host as u16);
        let length = self.rng.index(self.max_packet + 1);
        let mut bytes = self.rng.bytes(length);
        if self.rng.percent(60) {
            // Nearly valid.
            let data = self.rng.bytes(length.saturating_sub(HEADER));
            let (from, key) = (self.rng.next() as u32, self.rng.pick(&KEYS).unwrap_or(0));
            bytes = packet(self.rng.range(0, MAILBOXES), from, key, &data);
        }
        if let Some(excused) = self.inject(host, victim, &bytes)? {
            self.model.post.send(Letter { source, destination: victim, packet: bytes, excused });
        }
        Ok(())
    }
}
