//! A minimal card model. It checks that the engine needs no more of a model than documented, and
//! that it detects defects.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hamlyn_card::card::{Bar, BarKind, Card, Identity, Place, Progress, Reading, Widths};
use hamlyn_card::ports::{Interrupt, Link, Packet, Ports, VolatileSlice};

use crate::engine::memory::{PAGE, Right};
use crate::engine::rng::Rng;
use crate::engine::run::{Report, run};
use crate::engine::station::Station;
use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::{Course, Model, World};

/// Address at which a card writes arriving packets: 8 bytes for each sender.
const PLACE: u64 = PAGE;

/// Defect of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// It writes a byte too many.
    Writes,
    /// It drops some of the packets it should send.
    Forgets,
    /// It writes the packets of all senders to the same address.
    Confuses,
}

/// Sends each number that is stored to its register. The low half is the host whose memory it goes
/// to.
struct Pigeon {
    defect: Defect,
    letters: VecDeque<u64>,
}

impl Card for Pigeon {
    fn identity(&self) -> Identity {
        let registers =
            Bar { index: 0, size: PAGE, wide: false, kind: BarKind::Registers, widths: Widths::QWORD };
        Identity {
            protocol: 4,
            largest_packet: 8,
            ordered: false,
            vendor: 0,
            device: 0,
            class: 0,
            bars: vec![registers],
            vectors: 1,
            posted: Vec::new(),
            snooped: None,
        }
    }

    fn register_read(&mut self, _: &Ports<'_>, _: u8, _: u64, _: u8) -> Reading {
        Reading::Now(0)
    }

    fn register_write(&mut self, _: &Ports<'_>, _: u8, _: u64, _: u8, value: u64) {
        self.letters.push_back(value);
    }

    fn transmit(&mut self, _: &Ports<'_>, link: &mut dyn Link) -> Progress {
        let Some(letter) = self.letters.pop_front() else { return Progress::Idle };
        if self.defect == Defect::Forgets && (letter >> 32) % 64 == 63 {
            return Progress::Worked;
        }
        if link.send(letter as u16, &[VolatileSlice::from(&mut letter.to_le_bytes()[..])]) {
            return Progress::Worked;
        }
        self.letters.push_front(letter);
        Progress::LinkFull
    }

    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        let (mut bytes, mut rest) = ([0; 9], packet.bytes);
        let length = if self.defect == Defect::Writes { 9 } else { 8 };
        let sender = if self.defect == Defect::Confuses { 0 } else { u64::from(packet.source) };
        rest.take_into(&mut bytes[..8]).unwrap();
        let _ = ports.dma.write(PLACE + 8 * sender, VolatileSlice::from(&mut bytes[..length]));
        ports.interrupt.raise(0);
    }

    fn sleep(&mut self, _: &Ports<'_>) -> bool {
        self.letters.is_empty()
    }

    fn alarm(&self) -> Option<Duration> {
        None
    }

    fn tick(&mut self, _: &Ports<'_>) {}

    fn link_changed(&mut self, _: &Ports<'_>, _: Option<Place>) {}

    fn reset(&mut self, _: &Ports<'_>) {}

    fn is_enabled(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A machine with a pigeon.
#[derive(Debug)]
struct Loft {
    station: Station,
    /// Calls of [`Model::run_timers`] until the timer raises an interrupt; 0: never.
    timer: AtomicU64,
}

impl Deref for Loft {
    type Target = Station;

    fn deref(&self) -> &Station {
        &self.station
    }
}

/// State of a letter.
#[derive(Debug)]
struct Sent {
    from: usize,
    letter: u64,
    arrived: bool,
    /// It may be lost.
    excused: bool,
}

#[derive(Debug)]
struct Pigeons {
    defect: Defect,
    /// [`Loft::timer`] of host 0.
    timer: u64,
    sent: Vec<Sent>,
}

impl Model for Pigeons {
    type Machine = Loft;
    type Process = ();
    type Healing = ();

    fn largest_packet(&self) -> usize {
        8
    }

    fn machine(&mut self, host: u16, _: &mut Rng) -> Result<Arc<Loft>, Violation> {
        let defect = self.defect;
        let pigeon = move || Ok(Pigeon { defect, letters: VecDeque::new() });
        let station = Station::new(host, pigeon, 2, Vec::new())?;
        station.memory.permit(Right::Write, PLACE, 8 * 4, true);
        // Other hosts stay idle: they would keep the round busy.
        Ok(Arc::new(Loft { station, timer: if host == 0 { self.timer } else { 0 }.into() }))
    }

    fn begin(_: &mut World<Self>, _: usize) -> Result<(), Violation> {
        Ok(())
    }

    fn before_unplug(world: &mut World<Self>, host: usize) -> Result<(), Violation> {
        let own = |sent: &&mut Sent| sent.from == host || sent.letter as u16 == host as u16;
        world.model.sent.iter_mut().filter(own).for_each(|sent| sent.excused = true);
        Ok(())
    }

    fn run_timers(loft: &Loft) -> Result<bool, Violation> {
        let left = loft.timer.load(Ordering::Relaxed);
        loft.timer.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 {
            loft.vectors.raise(0);
        }
        Ok(left == 1)
    }

    fn tick(_: &mut World<Self>, _: usize) -> Result<bool, Violation> {
        Ok(false)
    }

    fn deadline(_: &World<Self>) -> Option<u64> {
        None
    }

    fn compose(world: &mut World<Self>) -> Result<(), Violation> {
        let (from, to) = (world.rng.index(world.hosts.len()), world.rng.index(world.hosts.len()));
        let letter = (world.model.sent.len() as u64) << 32 | to as u64;
        let absent = [from, to].into_iter().any(|host| !world.hosts[host].uplink.is_up());
        world.model.sent.push(Sent { from, letter, arrived: false, excused: absent });
        world.hosts[from].machine.store(0, 0, 8, letter)
    }

    fn misfortune(world: &mut World<Self>) -> Result<(), Violation> {
        let (host, end) = (world.rng.index(world.hosts.len()), world.step + 50);
        match world.rng.below(4) {
            0 => world.port_down(host, end)?,
            1 => world.port_flickers(host)?,
            other => world.host_stops(host, end, other == 2),
        }
        world.faults += 1;
        Ok(())
    }

    fn act(_: &mut World<Self>, _: usize) -> Result<(), Violation> {
        Ok(())
    }

    fn act_out(world: &mut World<Self>, host: usize) -> Result<bool, Violation> {
        Ok(!world.hosts[host].machine.vectors.take().is_empty())
    }

    fn sent(_: &mut World<Self>, _: usize, _: u16, _: &[u8]) -> Result<(), Violation> {
        Ok(())
    }

    fn arrived(world: &mut World<Self>, host: usize, packet: Arrived) -> Result<(), Violation> {
        let Arrived { source, mut bytes } = packet;
        let machine = world.hosts[host].machine.clone();
        machine.memory.take_writes();
        let arriving = VolatileSlice::from(&mut bytes[..]);
        machine.with_card(|card, ports| {
            card.packet_arrived(ports, &Packet { source, bytes: arriving.into() });
        })?;
        let writes = machine.memory.take_writes();
        let [write] = &writes[..] else { return Err(Violation::new(format!("{writes:?}"))) };
        let letter = u64::from_le_bytes(bytes[..].try_into().map_err(Violation::new)?);
        let sent = &mut world.model.sent[(letter >> 32) as usize];
        let right = write.address == PLACE + 8 * u64::from(source) && sent.from == usize::from(source);
        ensure(right && !std::mem::replace(&mut sent.arrived, true), || format!("{sent:?}: {write:?}"))
    }

    fn check_rest(world: &mut World<Self>) -> Result<(), Violation> {
        let unhandled = world.hosts.iter().find(|host| !host.machine.vectors.take().is_empty());
        ensure(unhandled.is_none(), || format!("{unhandled:?} has an interrupt that was not handled"))?;
        let lost = world.model.sent.iter().find(|sent| !sent.arrived && !sent.excused);
        ensure(lost.is_none(), || format!("{lost:?} has not arrived"))
    }
}

fn simulate(seed: u64, defect: Defect) -> Report {
    run_pigeons(seed, 10, Pigeons { defect, timer: 0, sent: Vec::new() })
}

fn run_pigeons(seed: u64, faults: u64, pigeons: Pigeons) -> Report {
    let course = Course {
        cards: 4,
        steps: 2000,
        faults,
        switch_share: 1,
        by_hand: 50,
        reorder: true,
        paths: 2,
        mesh: None,
        step_ms: 1,
        leap_ms: u64::MAX,
    };
    run(seed, Rng::new(seed), course, pigeons).0
}

#[test]
fn late_timer_keeps_fabric_running() {
    let simulate = |timer| run_pigeons(1, 0, Pigeons { defect: Defect::None, timer, sent: Vec::new() });
    let end = simulate(0).steps;
    for timer in end - 20..=end {
        assert_eq!(simulate(timer).violation, None, "{timer} of {end}");
    }
}

#[test]
fn sound_card_comes_to_rest_after_faults() {
    for seed in 0..20 {
        let report = simulate(seed, Defect::None);
        assert_eq!(report.violation, None, "{report:?}");
        assert!(report.packets > 500 && report.faults > 5, "{report:?}");
        assert_eq!(report, simulate(seed, Defect::None));
    }
}

#[test]
fn defects_are_reported_with_events() {
    for (defect, words) in [
        (Defect::Writes, "which no open area has"),
        (Defect::Forgets, "has not arrived"),
        (Defect::Confuses, "Write { address"),
    ] {
        let reports = (0..20).map(|seed| simulate(seed, defect));
        let found = reports.filter_map(|report| Some((report.violation?, report.events)));
        let (violation, events) = found.into_iter().next().expect("a seed that finds it");
        assert!(violation.to_string().contains(words), "{defect:?}: {violation}");
        assert!(!events.is_empty(), "{defect:?}");
    }
}
