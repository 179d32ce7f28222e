//! The DART card's part of a simulation: processes that send each other messages of any operation,
//! operating systems that move their pages and take them away under them, hostile hosts, and what
//! must always be so.
//!
//! * A message makes of registers, memory and queues what the interpreter makes of it, which knows
//!   `docs/dart.md` alone: each at one moment, once or not at all, in the order of its connection;
//!   of all connections of a card there is one order that explains everything, windows that overlap
//!   included. So fetch-and-increment, compare-and-swap and barriers are linearisable, whoever
//!   meets there; half of the windows share their registers, so that many do.
//! * What misses in the middle, or finds in the middle a frame that cannot be reached, has written
//!   nothing. All registers are looked at, those of nobody's window among them, so nothing reaches
//!   outside of a window.
//! * What leaves is what was stored, or the answer that is owed, with the credits that are due;
//!   never more than there are credits.
//! * A page that was taken back is touched no more. What waits for pages waits for some that the
//!   driver is asked for.
//! * A full queue makes messages wait, and loses none. Nobody sleeps beside a record, or though
//!   messages have left; and the driver is told of nothing but what somebody waits for.
//! * A host may be at both ends of a connection, and a connection its own other end.
//! * A packet of another host, with another key, or damaged, does nothing; one that makes no sense
//!   breaks its connection alone.
//! * A link that goes, BREAK and a reset leave nothing that reaches memory. In the end nothing
//!   waits, and no credit is missing.
//!
//! All this is judged by a ledger that the simulation keeps. Only which pages a message waits for
//! the card is asked, as its driver asks it (READ_MISSES): they must be pages that the message
//! needs, or did when it was looked at last. Where no order of the messages explains what the card
//! did otherwise, any that it names are believed, as registers may have been others in between. How
//! many messages had which fate is read off the card's counters, and each must be explained.
//!
//! The ledger, the interpreter, the reference of the card's tests and the card have one author, and
//! share one reading of `docs/dart.md` and of the paper's Figure 2. So agreement between them finds
//! slips of the code, but not a wrong reading of the paper.
//!
//! | file | holds |
//! |---|---|
//! | `machine` | a card's station, its driver's pages, and what the card may touch |
//! | `packet` | what a packet must look like |
//! | `interpreter` | what a message does to registers: that of the card's own tests |
//! | `effects` | what it does to memory, and its traps |
//! | `ledger` | what each card was told and has taken in |
//! | `explaining` | which messages a card has executed, and in which order |
//! | `sending` | what leaves a card |
//! | `receiving` | what reaches one |
//! | `paging` | pages, and what the card is told of them |
//! | `opening` | connections, queues, endpoints, resets |
//! | `acting` | what processes, drivers and hostile hosts do |
//! | `model` | what the engine asks |

mod acting;
#[path = "../../../../device/cards/dart/tests/operation_logic/calling.rs"]
mod calling;
mod effects;
mod explaining;
#[path = "../../../../device/cards/dart/tests/operation_logic/interpreter.rs"]
mod interpreter;
mod ledger;
mod machine;
mod model;
mod opening;
mod packet;
mod paging;
mod receiving;
mod sending;

use crate::engine::rng::Rng;
use crate::engine::run::{Report, run};
use crate::engine::world::Course;

use self::model::Dart;

/// Runs a fabric of DART cards as a seed decides, of so many cards if that is said.
#[must_use]
pub fn simulate(seed: u64, cards: Option<u16>) -> Report {
    let mut rng = Rng::new(seed);
    let drawn = rng.range(2, 4) as u16;
    let cards = cards.unwrap_or(drawn).min(4);
    let dart = Dart::new(&mut rng, cards);
    let course = Course {
        cards,
        steps: u64::from(rng.range(300, 2000)),
        faults: u64::from(rng.range(0, 40)),
        switch_share: u64::from(rng.range(5, 40)),
        by_hand: rng.pick(&[0, 0, 50, 100]).unwrap_or(0),
        // The card asks for order.
        reorder: false,
        paths: 1,
        mesh: None,
        step_ms: 1,
        leap_ms: 100,
    };
    let (mut report, world) = run(seed, rng, course, dart);
    report.figures = world.map_or_else(Vec::new, |world| world.model.figures());
    report
}
