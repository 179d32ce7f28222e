//! Measurements of Hamlyn cards: figures 7 to 10 and Table 4 of the paper, and goals 1 to 9
//! (docs/performance.md). The files are listed from the bottom up; each file uses only those above
//! it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `streams` | one-way streams through cards |
//! | `crossover` | from which size on large packets are as fast |
//! | `paper` | the paper's measurements, as curves |
//! | `figures` | figures 7 to 10 |
//! | `between` | goals 1 to 6: two machines |
//! | `scale` | goal 7: with unused objects |
//! | `all_to_all` | every process to every other |
//! | `one_process` | the library and two cards in one thread |
//! | `on_host` | goal 8: programs of the host |
//! | `parts` | the card's logic alone |
//! | `turns` | goal 9: the card's logic compared with copies |
//! | `paths` | the paths whose instructions are counted |
//! | `table4` | the components of a short message's time |
//! | `server` | a whole program |
//! | `choice` | the names that `--figure` accepts |
//! | `run` | runs all of it, in a good order |

pub mod all_to_all;
pub mod between;
mod choice;
mod crossover;
pub mod figures;
pub mod on_host;
pub mod one_process;
mod paper;
pub mod parts;
mod paths;
mod run;
pub mod scale;
pub mod server;
mod streams;
pub mod table4;
pub mod turns;

use crate::engine::run::{Benchmark, Parts};

/// The benchmark of Hamlyn cards.
pub const BENCHMARK: Benchmark = Benchmark {
    figures: "a figure of the paper (7, 8, 9, 10), or machines, scale, all-to-all, host, parts, table-4, server",
    check: choice::check,
    measure: run::measure,
    parts: Some(Parts { benchmark: parts::benchmark, walk: paths::walk }),
};
