//! `hamlyn card`

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use hamlyn_host::rundir::{card_path, socket_path};
use hamlyn_host::single::{self, Options};
use hamlyn_switch::crossbar::MAX_PORTS;

use super::options::CardFlags;
use crate::users;

const EXAMPLES: &str = "\
Examples:
  hamlyn switch --socket $XDG_RUNTIME_DIR/s.sock &
  hamlyn card --socket $XDG_RUNTIME_DIR/c0.sock --switch $XDG_RUNTIME_DIR/s.sock
  hamlyn card --socket $XDG_RUNTIME_DIR/c1.sock --switch $XDG_RUNTIME_DIR/s.sock --packet-size 1024
  hamlyn qemu-args --socket $XDG_RUNTIME_DIR/c0.sock         what QEMU needs to load the first one

A small packet blocks the link for others for a short time, a large one costs less for each byte.
The paper's authors recommend 1 KiB for their prototype (section 4.3), where a 4 KiB packet took
50 us.

The card stays when its machine or its switch goes, and serves the next.";

/// Run a card: QEMU loads it, the switch links it with others
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CardArgs {
    /// Socket that QEMU, or a program without a machine, connects to; QEMU also uses PATH.doorbell,
    /// PATH.express or PATH.peer0 and so on, and PATH.snoop
    #[arg(long, value_name = "PATH", value_parser = card_path)]
    socket: PathBuf,
    /// Socket of the switch
    #[arg(long, value_name = "PATH", value_parser = socket_path)]
    switch: PathBuf,
    /// User whose switch the card trusts with its packets, by name or number; may be repeated
    /// [default: the card's own user and root]
    #[arg(long, value_name = "USER", value_parser = users::parse)]
    switch_user: Vec<u32>,
    /// Host id to request from the switch: a number of one of its ports [default: the first free
    /// one]
    #[arg(long, value_name = "ID", value_parser = value_parser!(u16).range(..i64::from(MAX_PORTS)))]
    host: Option<u16>,
    #[command(flatten)]
    card: CardFlags,
    /// How long to poll for work before sleeping, in microseconds. More than 0 needs a dedicated
    /// core
    #[arg(long, value_name = "US", default_value_t = 0)]
    spin: u64,
}

pub(super) fn run(args: CardArgs) -> anyhow::Result<()> {
    let trusted = match args.switch_user.is_empty() {
        true => vec![rustix::process::geteuid().as_raw(), 0],
        false => args.switch_user,
    };
    single::run(&Options {
        socket: args.socket,
        switch: args.switch,
        trusted,
        host: args.host,
        card: args.card.options(),
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
        card: CardArgs,
    }

    fn parse(host: &str) -> Result<Option<u16>, String> {
        let words = ["card", "--socket", "c.sock", "--switch", "s.sock", "--host", host];
        Program::try_parse_from(words).map(|program| program.card.host).map_err(|error| error.to_string())
    }

    #[test]
    fn host_id_out_of_range_is_refused() {
        assert_eq!(parse("1023"), Ok(Some(1023)));
        // The switch would take 65535 as any port.
        for host in ["1024", "65535"] {
            assert!(parse(host).unwrap_err().contains(&format!("{host} is not in 0..1024")));
        }
    }
}
