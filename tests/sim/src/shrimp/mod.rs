//! The SHRIMP card's part of a simulation: processors that store to mapped pages of other hosts,
//! operating systems that map and unmap under them, hostile hosts, and what must always be so.
//! Packets come by a crossbar or through a mesh; there are 16 nodes at most.
//!
//! * Nothing is written but what a packet says that was let in: to a part that is mapped in for its
//!   host at that moment.
//! * What arrives from a host is what was stored there, byte for byte, in the order of the stores,
//!   and nothing is left out. A port that goes may take what was on its way with it, a reset what
//!   was in the card.
//! * Packets are as they are to be: a store each, or stores that follow each other, or a piece of a
//!   transfer; none crosses a page.
//! * A transfer has the words that were asked, read from memory while it ran; what a failed compare
//!   writes back starts none.
//! * The FIFOs never hold more than they can, nor more than one packet above their thresholds.
//! * An arrival that is to be reported gets a record, one for each page until it is taken; nobody
//!   sleeps beside one.
//! * In the end memory is everywhere what was stored there last, by whomever.
//!
//! All this is judged by a ledger that the simulation keeps, never by the card's own state.
//!
//! | file | holds |
//! |---|---|
//! | `machine` | a card's station, its driver's pages, and what the card may touch |
//! | `packet` | what a packet must look like |
//! | `mapping` | page tables: what is mapped, as the ledger has it, and new entries |
//! | `ledger` | what each card has to send, has taken in, and has to report |
//! | `storing` | stores, by bus and by window |
//! | `updating` | deliberate update, and other commands by command pages |
//! | `sending` | what leaves a card |
//! | `receiving` | what reaches one |
//! | `reporting` | the arrival queue, as the driver has it |
//! | `operating` | the operating systems: entries, thresholds, resets; also hostile ones |
//! | `forgery` | packets of hostile hosts |
//! | `processor` | what a processor is about to do |
//! | `model` | what the engine asks |

mod forgery;
mod ledger;
mod machine;
mod mapping;
mod model;
mod operating;
mod packet;
mod processor;
mod receiving;
mod reporting;
mod sending;
mod storing;
mod updating;

use hamlyn_switch::mesh::Shape;

use crate::engine::rng::Rng;
use crate::engine::run::{Report, run};
use crate::engine::world::Course;

use self::model::Shrimp;

/// Runs a fabric of SHRIMP cards as a seed decides, of so many cards if that is said.
#[must_use]
pub fn simulate(seed: u64, cards: Option<u16>) -> Report {
    let mut rng = Rng::new(seed);
    // Now and then a multicomputer of the paper's size.
    let drawn = if rng.percent(2) { 16 } else { rng.range(2, 5) as u16 };
    let cards = cards.unwrap_or(drawn);
    let shrimp = Shrimp::new(&mut rng, cards);
    let shape = Shape { columns: shrimp.columns, rows: cards.div_ceil(shrimp.columns) };
    let course = Course {
        cards,
        steps: u64::from(rng.range(300, 2000)),
        faults: u64::from(rng.range(0, 60)),
        switch_share: u64::from(rng.range(5, 40)),
        by_hand: rng.pick(&[0, 0, 50, 100]).unwrap_or(0),
        // The card asks for order.
        reorder: false,
        paths: 1,
        mesh: rng.percent(60).then_some(shape),
        step_ms: 1,
        leap_ms: 100,
    };
    let (mut report, world) = run(seed, rng, course, shrimp);
    report.figures = world.map_or_else(Vec::new, |world| world.model.figures());
    report
}
