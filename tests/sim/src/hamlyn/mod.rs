//! The simulation of Hamlyn cards: with the real user library, honest and hostile programs, and all
//! that each may expect.
//!
//! From the bottom up, each file uses only those above it in this list, and the engine:
//!
//! | file | holds |
//! |---|---|
//! | `mapping` | memory that the library has mapped, from the engine's view |
//! | `matrix` | the switch's file of express memory, and the mappings of its pages |
//! | `sram` | the used parts of a card's memory |
//! | `tables` | what a driver has opened, and the memory that its card may use |
//! | `express` | a host's areas and views of express memory |
//! | `machine`, `system` | a card's driver, and its connections |
//! | `areas` | the driver's calls for areas and views |
//! | `driver`, `room` | the driver's commands, and whether the card has memory for them |
//! | `attachment` | the library's requests for them |
//! | `judge` | the expected effects of one packet on a card, derived a second time |
//! | `fetches` | expected effects and progress of each fetch-and-op |
//! | `ledger` | the same for each honest message |
//! | `streams` | expected results and progress of each stream |
//! | `channels` | the same for each channel |
//! | `connections` | the same for each connection and each question for a name |
//! | `scenario` | the parameters of a simulation |
//! | `program` | an honest program that uses the library |
//! | `correspondent` | a program with streams, connections and channels |
//! | `intruder` | a hostile program |
//! | `process` | one of these |
//! | `world` | all of it on one fabric |
//! | `lives` | starting and ending processes |
//! | `host` | the processes of a host, and its card's interrupts |
//! | `traffic` | creating honest messages |
//! | `sending` | sending them |
//! | `receiving` | receiving them |
//! | `fetching` | fetch-and-ops |
//! | `filling` | filling a card's memory, and emptying it again |
//! | `dozing` | programs that sleep until their requests are finished |
//! | `streaming` | streams between programs |
//! | `joining`, `talking` | opening channels, and sending through them |
//! | `endings` | ends of connections, and what each side is told |
//! | `conversing` | connections between programs |
//! | `questions` | asking whether a program listens to a name |
//! | `blunders` | wrong requests |
//! | `forgery` | forged requests, packets and metadata |
//! | `standstill` | a card that takes nothing |
//! | `delivery` | a packet reaches its card |
//! | `invariants` | invariants of a fabric at rest |
//! | `faults` | faults |
//! | `model` | the engine's interface |
//! | `outcome` | a seed, and its results |
//!
//! `machine` and `system` use each other, like module and kernel.
//!
//! **What is checked, and when:**
//!
//! * At every access of a card to memory: it is inside memory that the driver has opened.
//! * At every packet: the card writes the bytes that the judge expects and no others, the
//!   notification last. One counter counts.
//! * At every packet of an honest message: it was sent, with these bytes, and arrives for the first
//!   time.
//! * At every record of a stream: it has the bytes that come next, and does not change while it is
//!   held.
//! * At every message of a channel: it is the next, and whole. At every reported end of a channel:
//!   nothing is missing.
//! * At every page of express memory that a process gets: it is mapped nowhere else.
//! * At every request for a connection, answer and end: it belongs to that connection, and is true.
//! * At every notification: its message is whole and was not notified before.
//! * At every fetch-and-op: it was asked, the word changes once, and the answer is true.
//! * At every call of the library: its result is true.
//! * While a card takes nothing: traffic that is not for it arrives.
//! * At rest: nothing accepted is lost while its ends live, every queue is empty, and counters
//!   balance. Every side of a connection knows that it is over, and no operating system remembers
//!   any.
//! * When all processes have ended: nothing is open, and no page is lost.

mod areas;
mod attachment;
mod blunders;
mod channels;
mod connections;
mod conversing;
mod correspondent;
mod delivery;
mod dozing;
mod driver;
mod endings;
mod express;
mod faults;
mod fetches;
mod fetching;
mod filling;
mod forgery;
mod host;
mod intruder;
mod invariants;
mod joining;
mod judge;
mod ledger;
mod lives;
mod machine;
mod mapping;
mod matrix;
mod model;
mod outcome;
mod process;
mod program;
mod questions;
mod receiving;
mod room;
mod scenario;
mod sending;
mod sram;
mod standstill;
mod streaming;
mod streams;
mod system;
mod tables;
mod talking;
mod traffic;
mod world;

pub use channels::CHANNEL_ENDS;
pub use outcome::{Outcome, run, run_as};
pub use scenario::Scenario;

use crate::engine::run::Report;

/// Runs the simulation of a seed. `cards` fixes the number of cards (2 to 16); otherwise the seed
/// chooses it.
pub fn simulate(seed: u64, cards: Option<u16>) -> Report {
    run(seed, cards).report
}
