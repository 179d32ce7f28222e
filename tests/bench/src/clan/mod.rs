//! Measurements of CLAN cards, compared with Hamlyn cards, SHRIMP cards and the alternatives to a
//! card (docs/performance.md). The files are listed from the bottom up; each file uses only those
//! above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `pairs` | machines with CLAN cards, and with the cards for comparison |
//! | `words` | goal 11: a word's round trip, and a load across the network |
//! | `server` | goals 12 and 13: the event-driven server's round trip (Figure 8) |
//! | `requests` | requests a second (Figure 9) |
//! | `endpoints` | reused endpoints |
//! | `raw` | raw bandwidth (Figure 7) |
//! | `transfers` | one-way bandwidth by the size of messages (Figure 10) |
//! | `joining` | the benefit of joining |
//! | `early` | the benefit of a wake-up by a message's first word |
//! | `watched` | goal 14: the cost of an access that passes armed Tripwires |
//! | `connections` | the cost of a request on the server's card by the number of connections |

mod connections;
mod early;
mod endpoints;
mod joining;
mod pairs;
mod raw;
mod requests;
mod server;
mod transfers;
mod watched;
mod words;

use crate::engine::benchmark::Benchmark;

/// The benchmark of CLAN cards.
pub const BENCHMARK: Benchmark = Benchmark {
    names: &["words", "server", "requests", "endpoints", "raw", "transfers", "joining", "early", "watched"],
    unknown: "nothing of CLAN's is called so",
    experiments: &[
        words::WORDS,
        server::SERVER,
        connections::CONNECTIONS,
        requests::REQUESTS,
        endpoints::ENDPOINTS,
        raw::RAW,
        transfers::TRANSFERS,
        joining::JOINING,
        early::EARLY,
        watched::WATCHED,
    ],
    parts: None,
};
