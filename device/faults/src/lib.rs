//! Faults by rule: a card that misbehaves, so that its driver can be tested.
//!
//! Nothing here knows a card or a host. [`Rules`] says what goes wrong and when, and [`Faults`]
//! decides for each event, from the rules and a seed. The same events with the same seed have the
//! same faults. docs/faults.md describes the rules.
//!
//! | file | holds |
//! |---|---|
//! | `rule` | a rule's parts |
//! | `parse` | rules as text |
//! | `engine` | the decisions |
//! | `packets` | packets that wait to be delivered |
//! | `talk` | what a program and a card's process say to each other |

mod engine;
mod packets;
mod parse;
mod rule;
pub mod talk;

pub use engine::{Command, Due, Faults, Raise, Tally};
pub use packets::Waiting;
pub use parse::{RuleError, Rules};
pub use rule::State;
