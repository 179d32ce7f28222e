//! What the benchmark of any card is made of: machines and the programs that run in them, rounds
//! and their statistics, goals, plots, the report, and what people would use instead of a card.
//!
//! No card is named here. A model brings a [`run::Benchmark`]: what its figures and goals are, and
//! its parts. From the bottom up, each file knowing only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `effort` | how much is measured |
//! | `stats` | percentiles and medians |
//! | `progress` | what people see meanwhile |
//! | `scratch` | folders that go when the run ends |
//! | `processes` | processor time of cards, switch and machines |
//! | `site` | where a program runs |
//! | `exchange` | two programs that meet, and what that showed |
//! | `vsock` | a device of others between two machines |
//! | `machines` | the two machines, with what people would use instead |
//! | `track` | a quantity that is measured in rounds |
//! | `goals` | a figure to reach, and whether it is |
//! | `plot` | figures and curves |
//! | `foreign` | programs of others: UCX, libfabric |
//! | `report` | all that a run showed, as a page and for programs |
//! | `tcp` | TCP between the machines |
//! | `extras` | trapped accesses and system calls of a message |
//! | `idle` | what costs nothing |
//! | `copies` | bytes in laps, and copies of them |
//! | `rings` | the rings and the switch alone |
//! | `estimates` | the parts by themselves, by criterion |
//! | `paths` | instructions and cache lines, by callgrind |
//! | `run` | one run, and what a model brings to it |

pub mod copies;
pub mod effort;
pub mod estimates;
pub mod exchange;
pub mod extras;
pub mod foreign;
pub mod goals;
pub mod idle;
pub mod machines;
pub mod paths;
pub mod plot;
pub mod processes;
pub mod progress;
pub mod report;
pub mod rings;
pub mod run;
pub mod scratch;
pub mod site;
pub mod stats;
pub mod tcp;
pub mod track;
pub mod vsock;
