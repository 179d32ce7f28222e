//! Simulation of the DART card, and the invariants. Processes send each other messages with any
//! operation, operating systems move and remove their pages meanwhile, and some hosts are hostile.
//!
//! * The effects of a message on registers, memory and queues match the interpreter, which is based
//!   only on `docs/dart.md`. Each message takes effect at one moment, at most once, in the order of
//!   its connection. One order of all messages of a card explains everything, overlapping windows
//!   included. So fetch-and-increment, compare-and-swap and barriers are linearisable for all
//!   connections that use them. Half of the windows share their registers, so that many connections
//!   do.
//! * A message that misses a page halfway, or finds an inaccessible frame halfway, has written
//!   nothing. All registers are checked, including those in no window, so no message has an effect
//!   outside its window.
//! * A card sends the stored message or the owed answer, with the credits that are due. It never
//!   sends more than its credits allow.
//! * The card no longer touches a page after its invalidation. A message that waits for pages waits
//!   for some that the driver is asked for.
//! * A full queue makes messages wait, and loses none. No process sleeps while there is a record,
//!   or when messages have left. The driver is notified only of events that a process waits for.
//! * A host may have both ends of a connection, and an end may be its own peer.
//! * A packet of another host, with another key, or damaged, has no effect. An invalid packet
//!   breaks only its own connection.
//! * After a link failure, a BREAK or a reset, nothing accesses memory. In the end nothing waits,
//!   and no credit is missing.
//!
//! The simulation checks all this against its own ledger. It asks the card only which pages a
//! message waits for, by READ_MISSES, like the driver. They must be pages that the message needs,
//! or needed when the card last looked at it. If no order of the messages explains the card's
//! effects that way, any page that it names is accepted. The reason is that registers may have had
//! other values in between. The number of messages with each outcome comes from the card's
//! counters, and each must be explained.
//!
//! The ledger, the interpreter, the reference of the card's tests and the card have one author.
//! They share one reading of `docs/dart.md` and of the paper's Figure 2. So their agreement finds
//! coding errors, but not a wrong reading of the paper.
//!
//! The fabric is made of parts, each a type with private fields. Those of one card meet in
//! `account`, and the accounts in `model`.
//!
//! | file | holds |
//! |---|---|
//! | `machine` | a card's station, its driver's pages, and the ranges that the card may access |
//! | `packet` | the packet format |
//! | `terms`, `end` | one end of a connection: its parameters, and its messages |
//! | `pages` | the pages of a host, and their translations in the card |
//! | `queue`, `notices` | records for processes, and the FIFO of the driver |
//! | `effects` | the effects of a message on memory, and its traps |
//! | `trial`, `explaining` | the messages that a card has executed, and their order |
//! | `account` | the account of a card, in which these parts meet |
//! | `controls` | random controls of messages |
//! | `driving`, `paging` | drivers: they open objects, reset cards, and serve misses |
//! | `acting` | processes |
//! | `forgery` | packets of hostile hosts |
//! | `model` | the engine's interface, and connections between two accounts |

mod account;
mod acting;
mod controls;
mod driving;
mod effects;
mod end;
mod explaining;
mod forgery;
mod machine;
mod model;
mod notices;
mod packet;
mod pages;
mod paging;
mod queue;
mod terms;
mod trial;

use hamlyn_test_host::dart::{calling, interpreter};

use crate::engine::rng::Rng;
use crate::engine::run::{Report, run};
use crate::engine::world::Course;

use self::model::Dart;

/// Runs a fabric of DART cards as the seed decides. `cards` overrides the number of cards.
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
        // The card requires ordered delivery.
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
