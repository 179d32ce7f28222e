//! `hamlyn fabric`

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use hamlyn_host::ensemble::{self, Options};
use hamlyn_host::rundir::card_path;
use rustix::thread::CpuSet;

use super::options::CardsFlags;
use super::switch::{ExpressArgs, RoutingArgs};

const EXAMPLES: &str = "\
Examples:
  hamlyn fabric --socket $XDG_RUNTIME_DIR/c0.sock --socket $XDG_RUNTIME_DIR/c1.sock &
  hamlyn qemu-args --socket $XDG_RUNTIME_DIR/c0.sock         what QEMU needs to load the first card
  hamlyn fabric --socket $XDG_RUNTIME_DIR/c0.sock --socket $XDG_RUNTIME_DIR/c1.sock --cores 0,1 &
  taskset -c 0 nice -n 10 qemu-system-x86_64 ...    the first card's machine, on the core of its thread

The first socket's card has host id 0, the next 1, and so on. A setting of the cards has one value
for all, or one for each: --packet-size 1024,4096.";

/// Core numbers are below this.
pub(super) const MOST_CORES: i64 = CpuSet::MAX_CPU as i64;

/// Run cards and the switch between them in one process: a message takes one wake-up on its way
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct FabricArgs {
    /// Socket that a card's QEMU, or a program without a machine, connects to; QEMU also uses
    /// PATH.doorbell, PATH.express or PATH.peer0 and so on, and PATH.snoop. Once for each card, at
    /// most 64
    #[arg(long = "socket", value_name = "PATH", value_parser = card_path, required = true)]
    sockets: Vec<PathBuf>,
    #[command(flatten)]
    cards: CardsFlags,
    #[command(flatten)]
    routing: RoutingArgs,
    #[command(flatten)]
    express: ExpressArgs,
    /// Cores that the machines are pinned to, starting with the first card's; reused from the first
    /// for more cards. A separate thread, pinned to the same core, receives a machine's messages
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "spin")]
    #[arg(value_parser = value_parser!(u16).range(..MOST_CORES))]
    cores: Vec<u16>,
    /// Accept guest memory that is not sealed against shrinking, such as Cloud Hypervisor's. A
    /// machine that truncates its memory ends this process, and with it the cards of all others
    #[arg(long)]
    trust_memory: bool,
    /// How long to poll for work before sleeping, in microseconds. More than 0 needs a dedicated
    /// core
    #[arg(long, value_name = "US", default_value_t = 0)]
    spin: u64,
}

pub(super) fn run(args: FabricArgs) -> anyhow::Result<()> {
    let mut cards = args.cards.options(args.sockets.len())?;
    if let Some(shape) = args.routing.mesh {
        // Cards derive their coordinates from it.
        cards.iter_mut().for_each(|card| card.choice.suggest("columns", shape.columns.into()));
    }
    ensemble::run(&Options {
        express: args.express.wanted(),
        cards: cards.into_iter().zip(args.sockets).collect(),
        paths: args.routing.paths,
        mesh: args.routing.mesh,
        cutting: args.routing.cutting(),
        cores: args.cores,
        trust_memory: args.trust_memory,
        spin: Duration::from_micros(args.spin),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        fabric: FabricArgs,
    }

    fn parse(flags: &[&str]) -> Result<Vec<u16>, String> {
        let words = ["fabric", "--socket", "c.sock"].iter().chain(flags);
        Program::try_parse_from(words).map(|program| program.fabric.cores).map_err(|error| error.to_string())
    }

    #[test]
    fn cores_are_a_list_and_exclude_spinning() {
        assert_eq!(parse(&[]), Ok(Vec::new()));
        assert_eq!(parse(&["--cores", "1,0,1023"]), Ok(vec![1, 0, 1023]));
        assert!(parse(&["--cores", "0,1024"]).unwrap_err().contains("1024 is not in 0..1024"));
        assert!(parse(&["--cores", "0", "--spin", "1"]).unwrap_err().contains("cannot be used with"));
    }
}
