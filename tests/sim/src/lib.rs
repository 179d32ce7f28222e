//! Seeded simulation of whole fabrics in one thread: real cards, real links, a real switch, the
//! real user library.
//!
//! A seed decides everything: the fabric, its traffic, every interleaving of cards, switch and
//! processes, and all faults. So a failing run can be reproduced.
//!
//! [`engine`](crate) holds what all card models need. Each model has its own folder beside it, and
//! one line in this file.

pub mod clan;
pub mod dart;
pub mod echo;
mod engine;
pub mod hamlyn;
pub mod shrimp;

use hamlyn_host::catalogue::PerModel;

pub use crate::engine::run::Report;
pub use crate::engine::violation::Violation;

/// Runs a fabric as the seed decides. The second argument overrides the number of cards.
pub type Simulation = fn(u64, Option<u16>) -> Report;

/// The available simulations, one line per model.
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
