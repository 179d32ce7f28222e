//! Both ends of what is measured of channels over express memory, hosts 0 and 1, and of the same
//! ring in memory that QEMU's ivshmem-plain shows to both machines. From the bottom up, each file
//! knowing only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `ends` | what both ways can do |
//! | `channel` | by a channel of the library |
//! | `bare` | by the same ring alone, in ivshmem's memory |
//! | `trips` | round trips |
//! | `streams` | messages one way |
//! | `idle` | a receiver that sleeps |

mod bare;
mod channel;
mod ends;
mod idle;
mod streams;
mod trips;

use clap::Subcommand;

use crate::engine::result::Outcome;

/// One end of an exchange through memory that two machines share.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Sends back what express-ping sends
    #[command(name = "express-echo")]
    Echo(trips::Options),
    /// Measures round trips through a channel, or the same ring in ivshmem's memory
    #[command(name = "express-ping")]
    Ping(trips::Options),
    /// Takes what express-send sends
    #[command(name = "express-sink")]
    Sink(streams::Options),
    /// Measures messages one way
    #[command(name = "express-send")]
    Send(streams::Options),
    /// Sleeps at a channel until a message that never comes; tells how much processor time that
    /// took
    #[command(name = "express-doze")]
    Doze(idle::Options),
}

impl Role {
    /// Plays it.
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
