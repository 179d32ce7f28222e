//! Simulation of the CLAN card, and the invariants. Processes access each other's memory by windows
//! and DMA, and Tripwires report the accesses. Drivers open and close objects meanwhile, one by one
//! or because a process is killed. Some hosts and owners are hostile.
//!
//! * A card sends what was stored, asked for or loaded, word by word, in the order in which the
//!   processors made it. DMA requests are sent in their own order. Packets from a host arrive in
//!   the order of sending, whatever was cut and joined on the way: through a crossbar, a mesh, or
//!   several paths.
//! * A card writes only data that has arrived for an open aperture with its key, its right and
//!   within its bounds. It writes all of that data, once, in order. A refused access is counted,
//!   changes nothing, and is reported to its sender.
//! * A load returns the contents of memory at some moment between request and answer, after all
//!   earlier stores of its host there. Otherwise it reads as ones, for a reported reason. A load
//!   ends in time.
//! * A Tripwire fires once for each access that it watches, and for nothing else. Bits, counts,
//!   events and FIFO agree.
//! * A source of events has at most one record that is not taken, and no event is lost. The same
//!   holds for entries of the FIFO.
//! * DMA requests end once, in order, with matching results. A request that is chained to a failed
//!   one is skipped. The engine passes over no endpoint again and again.
//! * Data for a group comes to each host that has been a member since, in order with the sender's
//!   other writes to that host. Otherwise its loss is reported to the sender. If an aperture has
//!   parts, a host reaches only its own part.
//! * A host has no more words in flight than it has credits. In the end nothing waits for credits,
//!   no credit is lost, and nothing else is lost. A host that lies about credits gains at most a
//!   window, and harms only itself.
//!
//! The simulation checks all this against its own ledger, which follows the contract, and never
//! against the card's own state.
//!
//! The fabric is made of parts, each a type with private fields, which meet in `fabric` alone.
//!
//! | file | holds |
//! |---|---|
//! | `packet` | the packet format |
//! | `machine` | a card's station, and its driver's pages |
//! | `memories` | the known contents of memory |
//! | `standing` | which hosts are hostile, and whose traffic may be lost |
//! | `credits` | words in flight, counted at both ends |
//! | `readings`, `refusals` | remote reads in flight, and refused writes |
//! | `objects`, `faults`, `requests` | apertures, windows and endpoints |
//! | `ledger` | what is open, and the effects of accesses: Tripwires fire |
//! | `events` | event queues and the FIFO |
//! | `program` | what a card has to send, in order |
//! | `loads`, `landings` | loads that wait, and data that has arrived |
//! | `account` | the account of a card: all that it does is settled with the parts above |
//! | `departure`, `arrival` | packets that leave or reach a card |
//! | `driving` | drivers: they open and close objects, and reset cards |
//! | `actions`, `turn` | processors with their pending actions, and what they may reach |
//! | `planning`, `changing` | random actions of processes and drivers |
//! | `processor`, `windowing` | how processes carry out their actions |
//! | `forgery` | packets of hostile hosts |
//! | `fabric` | where the parts meet |
//! | `model` | the engine's interface |

mod account;
mod actions;
mod arrival;
mod changing;
mod credits;
mod departure;
mod driving;
mod events;
mod fabric;
mod faults;
mod forgery;
mod landings;
mod ledger;
mod loads;
mod machine;
mod memories;
mod model;
mod objects;
mod packet;
mod planning;
mod processor;
mod program;
mod readings;
mod refusals;
mod requests;
mod standing;
mod turn;
mod windowing;

use crate::engine::rng::Rng;
use crate::engine::run::{Report, run};
use crate::engine::world::Course;

use hamlyn_switch::mesh::Shape;

use self::model::Clan;

/// Chooses the paths and the mesh between the cards from a sequence of its own. The seed decides
/// everything else as it would without them.
fn between(seed: u64, cards: u16) -> (u16, Option<Shape>) {
    let mut rng = Rng::new(!seed);
    let columns = rng.range(1, u32::from(cards)) as u16;
    match rng.range(0, 3) {
        0 => (rng.range(2, 5) as u16, None),
        1 => (1, Some(Shape { columns, rows: cards.div_ceil(columns) })),
        _ => (1, None),
    }
}

/// Runs a fabric of CLAN cards as the seed decides. `cards` overrides the number of cards.
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
        // The card requires ordered delivery.
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
