//! Both ends of the measurements of channels, on hosts 0 and 1, over express memory and over cards
//! of any model. The same ring is also measured in memory that QEMU's ivshmem-plain maps into both
//! machines. The files are
//! listed from the bottom up; each file uses only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `end` | the common interface of all ways |
//! | `library` | an end that uses a channel of the library |
//! | `bare` | an end that uses the same ring alone, in ivshmem's memory |
//! | `either` | actions on an end of either type |
//! | `trips` | round trips |
//! | `streams` | messages one way |
//! | `idle` | a sleeping receiver |

mod bare;
mod either;
mod end;
mod idle;
mod library;
mod streams;
mod trips;

use clap::Subcommand;

use crate::engine::result::Outcome;

/// One end of an exchange by a channel, or by its ring alone.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Sends back the messages of channel-ping
    #[command(name = "channel-echo")]
    Echo(trips::Options),
    /// Measures round trips through a channel, or the same ring in ivshmem's memory
    #[command(name = "channel-ping")]
    Ping(trips::Options),
    /// Receives the messages of channel-send
    #[command(name = "channel-sink")]
    Sink(streams::Options),
    /// Measures messages one way
    #[command(name = "channel-send")]
    Send(streams::Options),
    /// Sleeps at a channel for a message that never comes, and prints the processor time that this
    /// took
    #[command(name = "channel-doze")]
    Doze(idle::Options),
}

impl Role {
    /// Runs this role.
    pub(crate) fn run(self) -> Outcome {
        match self {
            Role::Echo(options) => trips::echo(&options),
            Role::Ping(options) => trips::ping(&options),
            Role::Sink(options) => streams::sink(&options),
            Role::Send(options) => streams::send(&options),
            Role::Doze(options) => idle::doze(&options),
        }
    }
}
