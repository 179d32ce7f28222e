//! The CLAN card's part of a simulation: processes that reach each other's memory by windows and
//! DMA, Tripwires that tell of it, drivers that open and close all of it under them, piece by piece
//! or as a process is killed, hostile hosts and owners, and what must always be so.
//!
//! * What a card sends is what was stored, asked for or loaded, word by word, in the order in which
//!   the processors made it; and of DMA requests, in theirs. What arrives from a host is what was
//!   sent, in that order, whatever was cut and joined on its way: through a crossbar, a mesh, or
//!   several paths.
//! * Nothing is written but what has arrived for an open aperture under its key, with its right and
//!   within its bounds; and all of that is written, once, in its order. What is refused is counted,
//!   changes nothing, and whoever sent it hears of it.
//! * A load says what was in memory at some moment between asking and answering, behind all that
//!   its host stored there before. Or it reads as ones, for a reason that is told. A load ends in
//!   time.
//! * A Tripwire fires once for each access that it watches, and for nothing else. Bits, counts,
//!   events and FIFO say the same.
//! * A source of events has at most one record that is not taken, and no news is lost. So has
//!   whoever is put into the FIFO.
//! * DMA requests end once, in order, with results that fit. What belongs to one that has failed is
//!   skipped. The engine passes nobody over again and again.
//! * What is sent to a group comes to each host that has been a member since, in order with the
//!   sender's other writes to that host, or the sender hears of its loss; and a host reaches its
//!   own part alone of what has parts.
//! * No more words are under way than a host has credits for. In the end nothing waits for any,
//!   none is lost, and nothing else. Whoever lies about them is believed a window, and harms nobody
//!   but himself.
//!
//! All this is judged by a ledger that the simulation keeps, from the contract, never by the card's
//! own state.
//!
//! | file | holds |
//! |---|---|
//! | `packet` | what a packet must look like |
//! | `machine` | a card's station, and its driver's pages |
//! | `ledger` | what is open, what is under way, and what is owed to whom |
//! | `driving` | drivers: they open and close, and reset cards |
//! | `tripping` | Tripwires, and what comes of their firing |
//! | `settling` | what cards write to memory |
//! | `copying` | copies of DMA requests for members of groups |
//! | `crediting` | how many words are under way, and may be |
//! | `windowing` | stores and loads by windows |
//! | `sending` | what leaves a card |
//! | `receiving` | what reaches one |
//! | `forgery` | packets of hostile hosts |
//! | `planning` | what processes are about to do, and drivers |
//! | `processor` | what processes do |
//! | `model` | what the engine asks |

mod copying;
mod crediting;
mod driving;
mod forgery;
mod ledger;
mod machine;
mod model;
mod packet;
mod planning;
mod processor;
mod receiving;
mod sending;
mod settling;
mod tripping;
mod windowing;

use crate::engine::rng::Rng;
use crate::engine::run::{Report, run};
use crate::engine::world::Course;

use hamlyn_switch::mesh::Shape;

use self::model::Clan;

/// Chooses the paths and the mesh between the cards, by numbers of its own: a seed decides all else
/// as it would without them.
fn between(seed: u64, cards: u16) -> (u16, Option<Shape>) {
    let mut rng = Rng::new(!seed);
    let columns = rng.range(1, u32::from(cards)) as u16;
    match rng.range(0, 3) {
        0 => (rng.range(2, 5) as u16, None),
        1 => (1, Some(Shape { columns, rows: cards.div_ceil(columns) })),
        _ => (1, None),
    }
}

/// Runs a fabric of CLAN cards as a seed decides, of so many cards if that is said.
#[must_use]
pub fn simulate(seed: u64, cards: Option<u16>) -> Report {
    let mut rng = Rng::new(seed);
    let drawn = rng.range(2, 4) as u16;
    let cards = cards.unwrap_or(drawn);
    let clan = Clan::new(&mut rng, cards);
    let (paths, mesh) = between(seed, cards);
    let course = Course {
        cards,
        steps: u64::from(rng.range(300, 2500)),
        faults: u64::from(rng.range(0, 40)),
        switch_share: u64::from(rng.range(5, 40)),
        by_hand: rng.pick(&[0, 0, 50, 100]).unwrap_or(0),
        // The card asks for order.
        reorder: false,
        paths,
        mesh,
        step_ms: 1,
        leap_ms: 100,
    };
    let (mut report, world) = run(seed, rng, course, clan);
    report.figures = world.map_or_else(Vec::new, |world| world.model.figures());
    report
}
