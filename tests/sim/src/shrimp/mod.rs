//! Simulation of the SHRIMP card: processors that store to mapped pages of other hosts, operating
//! systems that remap pages meanwhile, hostile hosts, and the invariants. Packets come through a
//! crossbar or a mesh, with at most 16 nodes.
//!
//! * A card writes only the data of accepted packets: those for a part that is mapped in for the
//!   sending host at that moment.
//! * Data from a host arrives byte for byte, in the order of the stores, without gaps. A port that
//!   goes down may lose packets in flight, and a reset may lose data in the card.
//! * Packets have the required form: one store, or consecutive stores, or a piece of a transfer.
//!   None crosses a page.
//! * A transfer has the requested words, read from memory while it ran. The value that a failed
//!   compare writes back starts no transfer.
//! * The FIFOs never exceed their capacity, nor their thresholds by more than one packet.
//! * An arrival that is to be reported gets a record, one per page until it is taken. No driver
//!   sleeps while a record waits.
//! * In the end every byte of memory has the last value stored there, by any host.
//!
//! The simulation checks all this against its own ledger, never against the card's own state.
//!
//! | file | holds |
//! |---|---|
//! | `machine` | a card's station, its driver's pages, and the ranges that the card may access |
//! | `packet` | the packet format |
//! | `mapping` | the ledger's copy of the page tables, and random entries |
//! | `outgoing`, `incoming` | the FIFOs: data to send, and data taken in |
//! | `transfers` | deliberate update |
//! | `reports` | the arrival queue |
//! | `checks` | checks of what a card shows, and of its host's memory |
//! | `account` | the account of a card, in which these parts meet |
//! | `operating` | the operating systems: entries, thresholds, resets; also hostile ones |
//! | `forgery` | packets of hostile hosts |
//! | `processor` | processors, and the accesses that they make |
//! | `model` | the engine's interface |

mod account;
mod checks;
mod forgery;
mod incoming;
mod machine;
mod mapping;
mod model;
mod operating;
mod outgoing;
mod packet;
mod processor;
mod reports;
mod transfers;

use hamlyn_switch::mesh::Shape;

use crate::engine::rng::Rng;
use crate::engine::run::{Report, run};
use crate::engine::world::Course;

use self::model::Shrimp;

/// Runs a fabric of SHRIMP cards as the seed decides. `cards` overrides the number of cards.
#[must_use]
pub fn simulate(seed: u64, cards: Option<u16>) -> Report {
    let mut rng = Rng::new(seed);
    // Occasionally a multicomputer of the paper's size.
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
        // The card requires ordered delivery.
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
