//! Both ends of what is measured of SHRIMP cards. From the bottom up, each file knowing only those
//! above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `ends` | two processes with complementary mappings |
//! | `flags` | a flag's round trip |
//! | `updates` | bandwidth of deliberate update |
//! | `stores` | a stream of stores by automatic update |
//! | `bystander` | programs that send nothing |

mod bystander;
mod ends;
mod flags;
mod stores;
mod updates;

use clap::Subcommand;

use crate::engine::result::Outcome;

/// One end of an exchange through SHRIMP cards, or a program beside it.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Stores back what flag-ping stores
    FlagEcho(flags::Options),
    /// Measures a flag's round trip by automatic update (SHRIMP, section 4.1)
    FlagPing(flags::Options),
    /// Looks at what update-send sends
    UpdateSink(updates::Options),
    /// Measures one-way bandwidth of deliberate update (SHRIMP, section 4.3)
    UpdateSend(updates::Options),
    /// Looks at what store-send stores
    StoreSink(stores::Options),
    /// Measures a stream of stores by automatic update (SHRIMP, section 4.1)
    StoreSend(stores::Options),
    /// Has a page mapped out until a line comes on standard input
    PageHold(ends::HoldOptions),
    /// Measures a loop of a program that sends nothing
    Bystander(bystander::Options),
}

impl Role {
    /// Plays it.
    pub(crate) fn run(self) -> Outcome {
        match self {
            Role::FlagEcho(options) => flags::echo(&options),
            Role::FlagPing(options) => flags::ping(&options),
            Role::UpdateSink(options) => updates::sink(&options),
            Role::UpdateSend(options) => updates::send(&options),
            Role::StoreSink(options) => stores::sink(&options),
            Role::StoreSend(options) => stores::send(&options),
            Role::PageHold(options) => ends::hold(&options),
            Role::Bystander(options) => bystander::run(&options),
        }
    }
}
