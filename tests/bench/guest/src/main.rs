//! `hamlyn-bench-guest`: both ends of every exchange that the benchmark measures. Each process runs
//! one role.
//!
//! Results are JSON objects, one per line, on standard output. Input from the peer comes on
//! standard input. The prefix of a role determines the card that it needs:
//!
//! - `card-`, `raw-`: a Hamlyn card, in a guest or by its socket (`HAMLYN_CARD`)
//! - `flag-`, `update-`, `store-`, `page-`: a SHRIMP card in a guest
//! - `word-`, `arrival-`, `transfer-`, `endpoint-`: a CLAN card in a guest
//! - `deposit-`, `question-`, `paging-`, `barrier-`, `block-`, `filter-`: a DART card in a guest
//! - `channel-`: a card of any model in a guest, one with express memory, or ivshmem's memory
//!
//! The others need no card.
//!
//! `engine` has the peers and the code for all cards. Each card's own roles are in a folder next to
//! it, with a line in [`Role`].

mod channel;
mod clan;
mod dart;
mod engine;
mod hamlyn;
mod shrimp;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// One end of an exchange that the benchmark measures
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    #[command(flatten)]
    Hamlyn(crate::hamlyn::Role),
    #[command(flatten)]
    Shrimp(crate::shrimp::Role),
    #[command(flatten)]
    Clan(crate::clan::Role),
    #[command(flatten)]
    Dart(crate::dart::Role),
    #[command(flatten)]
    Channel(crate::channel::Role),
    #[command(flatten)]
    Peer(crate::engine::Role),
}

fn main() -> ExitCode {
    match run(Options::parse().role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(role: Role) -> engine::result::Outcome {
    match role {
        Role::Hamlyn(role) => role.run(),
        Role::Shrimp(role) => role.run(),
        Role::Clan(role) => role.run(),
        Role::Dart(role) => role.run(),
        Role::Channel(role) => role.run(),
        Role::Peer(role) => role.run(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
    }
}
