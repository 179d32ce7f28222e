//! The benchmark: the card between real machines, beside what people would use instead, in one run on one host.

pub mod all_to_all;
pub mod between;
pub mod effort;
pub mod estimates;
pub mod exchange;
mod fabric_parts;
pub mod figures;
pub mod goals;
pub mod host;
pub mod idle;
pub mod machines;
pub mod one_process;
mod paper;
pub mod parts;
pub mod paths;
pub mod plot;
pub mod processes;
pub mod progress;
mod quiet;
pub mod report;
pub mod run;
pub mod scale;
pub mod scratch;
pub mod site;
pub mod stats;
pub mod track;
pub mod vsock;
