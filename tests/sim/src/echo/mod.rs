//! The echo card's part of a simulation: owners of mailboxes that write to each other, and what
//! must always be so.
//!
//! * What a card sends is what lay in the outbox when its owner rang, whatever the owner writes
//!   there afterwards.
//! * A packet is deposited once, whole, in the record that is next, its number last; or it is
//!   counted as what it was, and no byte of memory changes. It says who sent it.
//! * What was deposited stays until its owner has taken it.
//! * Nobody sleeps beside a message. In the end nothing waits, and nothing is lost but what a port
//!   took with it.
//!
//! | file | holds |
//! |---|---|
//! | `machine` | a card's station, and what its driver has opened |
//! | `owner` | a mailbox as its owner has it: rings, takes, sleeps |
//! | `post` | messages on their way, and what must become of each |
//! | `model` | what the engine asks |

mod machine;
mod model;
mod owner;
mod post;

use crate::engine::rng::Rng;
use crate::engine::run::{Report, run};
use crate::engine::world::Course;

use self::model::Echo;

/// Runs a fabric of echo cards as a seed decides, of so many cards if that is said.
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
