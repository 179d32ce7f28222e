//! A seed from its beginning to its end, and what is told of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::engine::rng::Rng;
use crate::engine::violation::Violation;
use crate::engine::world::{Course, Model, World};

/// How the simulation of a seed ended, whatever the cards were.
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
    /// What the model counts and has people told while they wait, with its name.
    pub figures: Vec<(&'static str, u64)>,
    /// What went wrong.
    pub violation: Option<Violation>,
    /// The last events before that.
    pub events: Vec<String>,
}

/// Runs a fabric with the decisions of a seed, of which `rng` has what is left. Returns it as it is
/// at the end, if it could be made at all.
pub(crate) fn run<M: Model>(seed: u64, rng: Rng, course: Course, model: M) -> (Report, Option<World<M>>) {
    let mut report = Report { seed, ..Report::default() };
    let begun = World::new(rng, course, model).and_then(|mut world| world.begin().map(|()| world));
    let mut world = match begun {
        Ok(world) => world,
        Err(violation) => return (Report { violation: Some(violation), ..report }, None),
    };
    // A card, link or switch that panics has failed as much as one that does wrong.
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    report.violation = result.unwrap_or_else(|_| Err(Violation::new("it panicked"))).err();
    report.steps = world.step;
    report.faults = world.faults;
    report.packets = world.hosts.iter().map(|host| host.uplink.taken).sum();
    if report.violation.is_some() {
        report.events = world.take_events();
    }
    (report, Some(world))
}
