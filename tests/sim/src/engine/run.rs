//! A whole run of a seed, and its report.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::engine::rng::Rng;
use crate::engine::violation::Violation;
use crate::engine::world::{Course, Model, World};

/// One of this number of seeds has all calls of its cards recorded and replayed.
const TWINS: u64 = 8;

/// Result of the simulation of a seed, for any card model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Steps taken.
    pub steps: u64,
    /// Faults injected.
    pub faults: u64,
    /// Packets that reached a card.
    pub packets: u64,
    /// Names and values of the model's own counters, which are shown as progress.
    pub figures: Vec<(&'static str, u64)>,
    /// The violation found, if any.
    pub violation: Option<Violation>,
    /// The last events before the violation.
    pub events: Vec<String>,
}

/// Runs a fabric with the decisions of a seed. `rng` holds the rest of the seed's sequence. Returns
/// the final state of the fabric, if it could be created.
pub(crate) fn run<M: Model>(seed: u64, rng: Rng, course: Course, model: M) -> (Report, Option<World<M>>) {
    let mut report = Report { seed, ..Report::default() };
    let begun = World::new(rng, course, model).and_then(|mut world| {
        world.hosts.iter().try_for_each(|host| host.station().decide_twin(seed % TWINS == 0))?;
        world.begin().map(|()| world)
    });
    let mut world = match begun {
        Ok(world) => world,
        Err(violation) => return (Report { violation: Some(violation), ..report }, None),
    };
    // A panic of a card, link or switch is a failure like any other.
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    report.violation = result.unwrap_or_else(|_| Err(Violation::new("it panicked"))).err();
    report.steps = world.step;
    report.faults = world.faults;
    report.packets = world.hosts.iter().map(|host| host.uplink.taken).sum();
    if report.violation.is_some() {
        report.events = world.events.take();
    }
    (report, Some(world))
}
