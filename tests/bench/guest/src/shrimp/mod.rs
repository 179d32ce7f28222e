//! Both ends of the SHRIMP card measurements. The files are listed from the bottom up; each file
//! uses only those above it in this list:
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

/// One end of an exchange through SHRIMP cards, or a program that runs at the same time.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Stores back the flags of flag-ping
    FlagEcho(flags::Options),
    /// Measures a flag's round trip by automatic update (SHRIMP, section 4.1)
    FlagPing(flags::Options),
    /// Checks the data that update-send sends
    UpdateSink(updates::Options),
    /// Measures one-way bandwidth of deliberate update (SHRIMP, section 4.3)
    UpdateSend(updates::Options),
    /// Checks the data that store-send stores
    StoreSink(stores::Options),
    /// Measures a stream of stores by automatic update (SHRIMP, section 4.1)
    StoreSend(stores::Options),
    /// Holds a page mapped out until a line arrives on standard input
    PageHold(ends::HoldOptions),
    /// Measures a loop of a program that sends nothing
    Bystander(bystander::Options),
}

impl Role {
    /// Runs this role.
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
