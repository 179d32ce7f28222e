//! The flags of `hamlyn fabric`.

use std::path::PathBuf;

use clap::Args;

use crate::card::CardOptions;
use crate::commands::switch::RoutingArgs;
use crate::rundir::card_path;

const EXAMPLES: &str = "\
Examples:
  hamlyn fabric --socket /tmp/c0.sock --socket /tmp/c1.sock &
  hamlyn qemu-args --socket /tmp/c0.sock         what QEMU needs to load the first card

The first socket's card has host id 0, the next 1, and so on.";

/// The flags of `hamlyn fabric`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct FabricArgs {
    /// Where a card's QEMU, or a program without a machine, connects, QEMU also to PATH.doorbell; once for each card, at
    /// most 64
    #[arg(long = "socket", value_name = "PATH", value_parser = card_path, required = true)]
    pub sockets: Vec<PathBuf>,
    /// What each card is like.
    #[command(flatten)]
    pub options: CardOptions,
    /// How packets find their way.
    #[command(flatten)]
    pub routing: RoutingArgs,
    /// How long to look for work before sleeping, in microseconds. More than 0 wants a core of its own
    #[arg(long, value_name = "US", default_value_t = 0)]
    pub spin: u64,
}
