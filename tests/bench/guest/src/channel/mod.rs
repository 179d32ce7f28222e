//! Both ends of the measurements of channels over express memory, on hosts 0 and 1. The same ring
//! is also measured in memory that QEMU's ivshmem-plain maps into both machines. The files are
//! listed from the bottom up; each file uses only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `ends` | the common interface of both rings |
//! | `channel` | an end that uses a channel of the library |
//! | `bare` | an end that uses the same ring alone, in ivshmem's memory |
//! | `either` | actions on an end of either ring |
//! | `trips` | round trips |
//! | `streams` | messages one way |
//! | `idle` | a sleeping receiver |

mod bare;
mod channel;
mod either;
mod ends;
mod idle;
mod streams;
mod trips;

use clap::Subcommand;

use crate::engine::result::Outcome;

/// One end of an exchange through memory that two machines share.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Sends back the messages of express-ping
    #[command(name = "express-echo")]
    Echo(trips::Options),
    /// Measures round trips through a channel, or the same ring in ivshmem's memory
    #[command(name = "express-ping")]
    Ping(trips::Options),
    /// Receives the messages of express-send
    #[command(name = "express-sink")]
    Sink(streams::Options),
    /// Measures messages one way
    #[command(name = "express-send")]
    Send(streams::Options),
    /// Sleeps at a channel for a message that never comes, and prints the processor time that this
    /// took
    #[command(name = "express-doze")]
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
