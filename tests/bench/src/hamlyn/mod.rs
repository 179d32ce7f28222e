//! Measurements of Hamlyn cards: figures 7 to 10 and Table 4 of the paper, and goals 1 to 9
//! (docs/performance.md). The files are listed from the bottom up; each file uses only those above
//! it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `pairs` | the machines, and cards for programs of the host |
//! | `crossover` | from which size on large packets are as fast |
//! | `paper` | the paper's measurements, as curves |
//! | `figures` | figures 7 to 10 |
//! | `between` | goals 1 to 6: two machines |
//! | `scale` | goal 7: with unused objects |
//! | `all_to_all` | every process to every other |
//! | `one_process` | the library and two cards in one thread |
//! | `on_host` | goal 8: programs of the host |
//! | `parts` | the card's logic alone |
//! | `paths` | the paths whose instructions are counted |
//! | `turns` | goal 9: the card's logic compared with copies |
//! | `table4` | the components of a short message's time |
//! | `server` | a whole program |

mod all_to_all;
mod between;
mod crossover;
mod figures;
mod on_host;
pub mod one_process;
mod pairs;
mod paper;
pub mod parts;
mod paths;
mod scale;
mod server;
mod table4;
mod turns;

use crate::engine::benchmark::{Benchmark, Parts};

/// The benchmark of Hamlyn cards.
pub const BENCHMARK: Benchmark = Benchmark {
    names: &["7", "8", "9", "10", "machines", "scale", "all-to-all", "host", "parts", "table-4", "server"],
    unknown: "the paper has no measured figure of this name",
    experiments: &[
        between::TRIPS,
        between::BANDWIDTH,
        between::COSTS,
        table4::TRIPS,
        table4::SOFTWARE,
        server::SERVER,
        figures::EIGHT,
        figures::nine::<4096>(),
        figures::TEN,
        scale::CARDS,
        scale::OBJECTS,
        all_to_all::ALL_TO_ALL,
        on_host::HOST,
        turns::PARTS,
        table4::TABLE_4,
        figures::SEVEN,
        figures::nine::<256>(),
        figures::nine::<512>(),
        figures::nine::<1024>(),
        figures::nine::<2048>(),
        figures::nine::<8192>(),
        figures::nine::<16384>(),
        figures::nine::<32768>(),
        figures::nine::<65536>(),
    ],
    parts: Some(Parts { benchmark: parts::benchmark, walk: paths::walk }),
};
