//! The mutation check: deliberate breaks of card, link and switch, each of which the tests must
//! notice.
//!
//! | module | holds |
//! |---|---|
//! | `list` | the breaks, as a person writes them down |
//! | `tree` | the copy of the repository in which they are made |
//! | `packages` | whose tests can notice a break |
//! | `suite` | the test programs: built, run, and who noticed |
//! | `machines` | the same for the driver, whose breaks only machines notice |
//! | `group` | a program that ends, with all its children, when we are done with it |
//!
//! A break is made in the copy and built there, so the checkout never holds one. What others have
//! written is built once for both. The first test that fails ends the matter.

mod group;
mod list;
mod machines;
mod packages;
mod suite;
mod tree;

pub use group::Interrupted;
pub use list::{Mutant, parse};
pub use machines::Machines;
pub use suite::{Suites, Verdict};
pub use tree::Tree;
