//! Simulation of the echo card: owners of mailboxes that write to each other, and the invariants.
//!
//! * A card sends the contents of the outbox at the time of the ring, whatever the owner writes
//!   there afterwards.
//! * A packet is deposited once, whole, in the next record, with its number written last. Otherwise
//!   it is counted by its reason for rejection, and no byte of memory changes. The record names the
//!   sender. A message without the mailbox's key is rejected, and so is a message to an operating
//!   system that is not from one.
//! * A deposited message stays until its owner has taken it.
//! * No owner sleeps while a message waits. In the end nothing waits, and only packets that a port
//!   took down with it are lost.
//!
//! | file | holds |
//! |---|---|
//! | `machine` | a card's station, and the mailboxes opened by its driver |
//! | `owner` | the owner of a mailbox: ring, take, sleep |
//! | `post` | messages in flight |
//! | `model` | the engine's interface |

mod machine;
mod model;
mod owner;
mod post;

use crate::engine::rng::Rng;
use crate::engine::run::{Report, run};
use crate::engine::world::Course;

use self::model::Echo;

/// Runs a fabric of echo cards as the seed decides. `cards` overrides the number of cards.
#[must_use]
pub fn simulate(seed: u64, cards: Option<u16>) -> Report {
    let mut rng = Rng::new(seed);
    let drawn = rng.range(2, 4) as u16;
    let course = Course {
        cards: cards.unwrap_or(drawn),
        steps: u64::from(rng.range(200, 1500)),
        faults: u64::from(rng.range(0, 20)),
        switch_share: u64::from(rng.range(5, 40)),
        by_hand: rng.pick(&[0, 0, 50, 100]).unwrap_or(0),
        reorder: rng.percent(50),
        paths: rng.pick(&[1, 1, 4]).unwrap_or(1),
        mesh: None,
        step_ms: 1,
        leap_ms: 1,
    };
    let echo = Echo::new(&mut rng);
    let (mut report, world) = run(seed, rng, course, echo);
    report.figures = world.map_or_else(Vec::new, |world| world.model.figures());
    report
}
