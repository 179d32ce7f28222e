//! The mutation check: deliberate breaks of card, link and switch. The tests must detect each of
//! them.
//!
//! | module | holds |
//! |---|---|
//! | `list` | the lists of breaks, in the format in which they are written |
//! | `tree` | the copy of the repository in which they are made |
//! | `packages` | the packages whose tests can detect a break |
//! | `suite` | the test programs: building, running, and the verdict |
//! | `machines` | the same for the driver, whose breaks only machines detect |
//! | `mechanical` | the breaks that cargo-mutants makes |
//! | `group` | a child program that is killed together with all its own children |
//!
//! A break is made in the copy and built there, so the checkout never contains one. Third-party
//! code is built once for both. The first test that fails ends the check of a break.

mod group;
mod list;
mod machines;
mod mechanical;
mod packages;
mod suite;
mod tree;

pub use group::Interrupted;
pub use list::{Mutant, load};
pub use machines::Machines;
pub use mechanical::Mechanical;
pub use suite::{Suites, Verdict};
pub use tree::Tree;
