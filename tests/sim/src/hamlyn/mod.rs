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
//! | `access` | a card's station, and a driver's access to it |
//! | `room` | whether the card has memory for an object |
//! | `driver` | the driver's commands: what it opens for processes |
//! | `kernel` | its operating system, which sets up connections (sections 6.3 and 6.4) |
//! | `areas` | the driver's calls for areas and views |
//! | `machine` | power, timers and interrupts of all these |
//! | `handles` | the library's handles of connections and listeners |
//! | `attachment` | the library's requests for them |
//! | `judge` | the expected effects of one packet on a card, derived a second time |
//! | `fetches` | expected effects and progress of each fetch-and-op |
//! | `ledger` | the same for each honest message |
//! | `streams` | expected results and progress of each stream |
//! | `channels` | the same for each channel |
//! | `connections` | the same for each connection and each question for a name |
//! | `scenario` | the parameters of a simulation |
//! | `outlet` | what an honest program sends with |
//! | `program` | an honest program that uses the library |
//! | `correspondent` | a program with streams, connections and channels |
//! | `intruder` | a hostile program |
//! | `process` | one of these |
//! | `numbers`, `tally` | unique numbers, and counters |
//! | `world` | all of it on one fabric |
//! | `host` | the processes of a host, how they end and sleep, and its card's interrupts |
//! | `around` | what every action uses: the seed, the hosts, time, events |
//! | `traffic` | creating honest messages |
//! | `sending` | sending them |
//! | `receiving` | receiving them |
//! | `fetching` | fetch-and-ops |
//! | `filling` | filling a card's memory, and emptying it again |
//! | `dozing` | programs that sleep until their requests are finished |
//! | `streaming` | streams between programs |
//! | `questions` | asking whether a program listens to a name |
//! | `endings` | ends of connections, and what each side is told |
//! | `joining`, `talking` | opening channels, and sending through them |
//! | `conversing` | connections between programs |
//! | `lives` | starting and ending processes |
//! | `blunders` | wrong requests |
//! | `forgery` | forged requests, packets and metadata |
//! | `delivery` | a packet reaches its card |
//! | `standstill` | what must go on while a card takes nothing |
//! | `invariants` | invariants of a fabric at rest |
//! | `model` | the engine's interface: it gives each action its parts of the world |
//! | `outcome` | a seed, and its results |
//!
//! A machine derefs to its `Kernel`, that to its `Objects`, and so on down to the station. No file
//! but `model` has the whole world.
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

mod access;
mod areas;
mod around;
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
mod fetches;
mod fetching;
mod filling;
mod forgery;
mod handles;
mod host;
mod intruder;
mod invariants;
mod joining;
mod judge;
mod kernel;
mod ledger;
mod lives;
mod machine;
mod mapping;
mod matrix;
mod model;
mod numbers;
mod outcome;
mod outlet;
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
mod tables;
mod talking;
mod tally;
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
