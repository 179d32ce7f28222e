//! The common part of every card's benchmark: machines and the programs in them, rounds and their
//! statistics, goals, plots, the report, and the alternatives to a card.
//!
//! No card is named here. A model provides a [`benchmark::Benchmark`]: its figures, goals and
//! components. A figure is an [`experiment::Experiment`].
//! The files are listed from the bottom up; each file uses only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `effort` | how much is measured |
//! | `stats` | percentiles and medians |
//! | `progress` | progress on standard error |
//! | `scratch` | folders that are removed when the run ends |
//! | `processes` | processor time of cards, switch and machines |
//! | `site` | where a program runs |
//! | `exchange` | two programs that exchange messages, and the result |
//! | `vsock` | a third-party device between two machines |
//! | `machines` | the two machines, with the alternatives to a card |
//! | `track` | a quantity that is measured in rounds |
//! | `plan` | the exchanges of an experiment |
//! | `goals` | a target figure, and whether it is met |
//! | `plot` | figures and curves |
//! | `foreign` | third-party programs: UCX, libfabric |
//! | `report` | all results of a run, as a page and for programs |
//! | `tcp` | TCP between the machines |
//! | `extras` | trapped accesses and system calls of a message |
//! | `idle` | things that cost nothing |
//! | `copies` | bytes in laps, and copies of them |
//! | `rings` | the rings and the switch alone |
//! | `estimates` | the components alone, measured by criterion |
//! | `paths` | instructions and cache lines, counted by callgrind |
//! | `run` | one run: its request and its results |
//! | `experiment` | what is exchanged, and how the report shows it |
//! | `benchmark` | the interface that a model provides |

pub mod benchmark;
pub mod copies;
pub mod effort;
pub mod estimates;
pub mod exchange;
pub mod experiment;
pub mod extras;
pub mod foreign;
pub mod goals;
pub mod idle;
pub mod machines;
pub mod paths;
pub mod plan;
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
