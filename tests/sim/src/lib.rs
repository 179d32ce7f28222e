//! Seeded simulation of whole fabrics in one thread: real cards, real links, a real switch, the
//! real user library.
//!
//! A seed decides everything: the fabric, its traffic, every interleaving of cards, switch and
//! processes, and all misfortunes. So a run that goes wrong can be run again.
//!
//! [`engine`](crate) has what all cards need; each card's own part is a folder beside it, and a
//! line here.

pub mod clan;
pub mod dart;
pub mod echo;
mod engine;
pub mod hamlyn;
pub mod shrimp;

use hamlyn_host::catalogue::PerModel;

pub use crate::engine::run::Report;
pub use crate::engine::violation::Violation;

/// Runs a fabric as a seed decides, of so many cards if that is said.
pub type Simulation = fn(u64, Option<u16>) -> Report;

/// The simulations that there are: a line for each model that has one.
pub static SIMULATIONS: PerModel<Simulation> = PerModel::new(
    "simulation",
    &[
        ("hamlyn", crate::hamlyn::simulate),
        ("echo", crate::echo::simulate),
        ("shrimp", crate::shrimp::simulate),
        ("clan", crate::clan::simulate),
        ("dart", crate::dart::simulate),
    ],
);
