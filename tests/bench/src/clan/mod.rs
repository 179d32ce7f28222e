//! What is measured of CLAN cards, beside Hamlyn's, SHRIMP's and what people would use instead
//! (docs/performance.md). From the bottom up, each file knowing only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `labs` | machines with CLAN cards, and with those that they stand beside |
//! | `words` | goal 11: a word's round trip, and a load across the network |
//! | `server` | goals 12 and 13: the event-driven server's round trip (Figure 8) |
//! | `requests` | requests a second (Figure 9) |
//! | `endpoints` | endpoints that are used again |
//! | `raw` | raw bandwidth (Figure 7) |
//! | `transfers` | one-way bandwidth by the size of messages (Figure 10) |
//! | `joining` | what joining saves |
//! | `early` | what it saves to be woken by a message's first word |
//! | `watched` | goal 14: what an access costs that passes armed Tripwires |
//! | `connections` | what a request costs the server's card by the number of connections |
//! | `choice` | what `--figure` may name |
//! | `run` | all of it |

mod choice;
mod connections;
mod early;
mod endpoints;
mod joining;
mod labs;
mod raw;
mod requests;
mod run;
mod server;
mod transfers;
mod watched;
mod words;

use crate::engine::run::Benchmark;

/// What CLAN cards bring.
pub const BENCHMARK: Benchmark = Benchmark {
    figures: "words, server, requests, endpoints, raw, transfers, joining, early, watched",
    check: choice::check,
    measure: run::measure,
    parts: None,
};
