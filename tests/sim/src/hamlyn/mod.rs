//! The simulation of Hamlyn cards: with the real user library, honest and hostile programs, and all
//! that each may expect.
//!
//! From the bottom up, each file knowing only those above it in this list, and the engine:
//!
//! | file | holds |
//! |---|---|
//! | `mapping` | memory that the library has mapped, as the engine sees it |
//! | `matrix` | the switch's file of express memory, and who sees which page of it |
//! | `sram` | what of a card's memory is in use |
//! | `tables` | what a driver has opened, and what of memory its card may use |
//! | `machine`, `system`, `express` | a card's station and its driver; the operating system, as far as it sets connections up and watches over them; the driver's areas and views of express memory. They know each other, as module and kernel do |
//! | `driver`, `room` | the driver's commands: termini, queues and slots; whether the card has memory for them |
//! | `attachment` | how the library asks for them |
//! | `judge` | what a card must do with one packet, worked out a second time |
//! | `fetches` | what each fetch-and-op should do, and has done |
//! | `ledger` | the same of each honest message |
//! | `streams` | what each stream should do, and has done |
//! | `channels` | the same of each channel |
//! | `connections` | the same of each connection and each question for a name |
//! | `scenario` | what a simulation is to be like |
//! | `program` | an honest program, by the library |
//! | `correspondent` | a program of the library's upper layer |
//! | `intruder` | a hostile program |
//! | `process` | one of these |
//! | `world` | all of it on one fabric |
//! | `lives` | processes start and end |
//! | `host` | what is on a host, and its card's interrupts |
//! | `traffic` | honest messages come up |
//! | `sending` | they are sent |
//! | `receiving` | and received |
//! | `fetching` | fetch-and-ops |
//! | `filling` | a card's memory is filled, and emptied again |
//! | `dozing` | programs that sleep until their requests are finished |
//! | `streaming` | programs stream to each other |
//! | `joining`, `talking` | programs open channels, and talk by them |
//! | `endings` | connections end, and each side is told so |
//! | `conversing` | programs connect to each other |
//! | `questions` | programs ask whether a name is listened to |
//! | `blunders` | wrong requests |
//! | `forgery` | forged requests, packets and metadata |
//! | `standstill` | a card that takes nothing |
//! | `delivery` | a packet reaches its card |
//! | `invariants` | what holds when everything has come to rest |
//! | `faults` | misfortunes |
//! | `model` | what the engine asks of all this |
//! | `outcome` | a seed, and what is told of it |
//!
//! **What is checked, and when.** At every access of a card to memory: it lies in what the driver
//! has opened. At every packet: the card writes what the judge says and no other byte, the
//! notification last; one counter counts. At every packet of an honest message: it is one that was
//! sent, with the right bytes, for the first time. At every record of a stream: it has the bytes
//! that come next, and does not change while it is held. At every message of a channel: it is the
//! next, and whole; and at every end that it tells of nothing is missing. At every page of express
//! memory that a process gets: nobody else sees it. At every request for a connection, answer and
//! end: it is of that connection, and so. At every notification: its message is whole and was not
//! notified before. At every fetch-and-op: it was asked, the word changes once, and the answer is
//! true. At every call of the library: what it says is so. While a card takes nothing: what is not
//! for it arrives. At rest: nothing accepted is lost while its ends live, every queue is empty,
//! counters balance; every side of a connection knows that it is over, and no operating system
//! remembers any. When all processes have ended: nothing is open, and no page is lost.

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

pub use outcome::{Outcome, run, run_as};
pub use scenario::Scenario;

use crate::engine::run::Report;

/// Runs the simulation of a seed. `cards` fixes the number of cards (2 to 16), else the seed
/// chooses.
pub fn simulate(seed: u64, cards: Option<u16>) -> Report {
    run(seed, cards).report
}
