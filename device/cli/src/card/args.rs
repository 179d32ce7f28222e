//! The flags of `hamlyn card`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};
use hamlyn_bus::GuestMemory;
use hamlyn_card::card::Card;
use hamlyn_card_hamlyn::{HamlynCard, HamlynOptions};
use hamlyn_switch::crossbar::MAX_PORTS;

use crate::rundir::{card_path, socket_path};
use crate::users;

/// The cards of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Model {
    /// Sender-based memory management (OSDI '96)
    Hamlyn,
}

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

/// What a person chooses about a card, wherever it runs.
#[derive(Debug, Clone, Args)]
pub struct CardOptions {
    /// Which card
    #[arg(long, value_enum, default_value_t = Model::Hamlyn)]
    pub model: Model,
    /// The most data in a packet, in bytes: 256 to 65536, a multiple of 8
    #[arg(long, value_name = "BYTES", default_value_t = HamlynOptions::default().packet_size)]
    pub packet_size: u32,
    /// The card's memory for slots, queues and termini: 4096 to 67108864
    #[arg(long, value_name = "BYTES", default_value_t = HamlynOptions::default().sram_size)]
    pub sram: u32,
    /// Send termini: 1 to 1024
    #[arg(long, value_name = "N", default_value_t = HamlynOptions::default().termini)]
    pub termini: u32,
    /// Notification queues: 1 to 4096
    #[arg(long, value_name = "N", default_value_t = HamlynOptions::default().queues)]
    pub queues: u32,
    /// Interrupt vectors: 2 to 16
    #[arg(long, value_name = "N", default_value_t = HamlynOptions::default().vectors)]
    pub vectors: u32,
    /// How long the host may go without keeping the card's handshake before the card discards what arrives, in
    /// milliseconds: 100 to 600000, or 0 for ever
    #[arg(long, value_name = "MS", default_value_t = HamlynOptions::default().handshake_ms)]
    pub handshake: u32,
    /// The most guest memory that the card maps, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = GuestMemory::DEFAULT_LIMIT)]
    pub guest_memory: u64,
}

impl CardOptions {
    /// The card, at power-on.
    pub(crate) fn card(&self) -> anyhow::Result<Box<dyn Card + Send>> {
        match self.model {
            Model::Hamlyn => Ok(Box::new(HamlynCard::new(self.hamlyn())?)),
        }
    }

    fn hamlyn(&self) -> HamlynOptions {
        HamlynOptions {
            packet_size: self.packet_size,
            sram_size: self.sram,
            termini: self.termini,
            queues: self.queues,
            vectors: self.vectors,
            handshake_ms: self.handshake,
        }
    }
}

/// The flags of `hamlyn card`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CardArgs {
    /// Where QEMU, or a program without a machine, connects; QEMU also to PATH.doorbell
    #[arg(long, value_name = "PATH", value_parser = card_path)]
    pub socket: PathBuf,
    /// Where the switch listens
    #[arg(long, value_name = "PATH", value_parser = socket_path)]
    pub switch: PathBuf,
    /// A user whose switch the card trusts with its packets, by name or number; may be given more than once [default: the
    /// card's own user and root]
    #[arg(long, value_name = "USER", value_parser = users::parse)]
    pub switch_user: Vec<u32>,
    /// Host id to ask the switch for: a number of one of its ports [default: the first free one]
    #[arg(long, value_name = "ID", value_parser = value_parser!(u16).range(..i64::from(MAX_PORTS)))]
    pub host: Option<u16>,
    /// What it is like.
    #[command(flatten)]
    pub options: CardOptions,
    /// How long to look for work before sleeping, in microseconds. More than 0 wants a core of its own
    #[arg(long, value_name = "US", default_value_t = 0)]
    pub spin: u64,
}

impl CardArgs {
    /// Whose switch it may be.
    pub(super) fn trusted(&self) -> Vec<u32> {
        match self.switch_user.is_empty() {
            true => vec![rustix::process::geteuid().as_raw(), 0],
            false => self.switch_user.clone(),
        }
    }

    pub(super) fn spin(&self) -> Duration {
        Duration::from_micros(self.spin)
    }

    /// What `hamlyn stat` calls the process.
    pub(super) fn name(&self) -> String {
        self.socket.file_stem().map_or_else(|| "card".into(), |stem| stem.to_string_lossy().into_owned())
    }
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
    fn a_host_id_that_no_switch_has_is_refused() {
        assert_eq!(parse("1023"), Ok(Some(1023)));
        // To the switch, 65535 would mean any port.
        for host in ["1024", "65535"] {
            assert!(parse(host).unwrap_err().contains(&format!("{host} is not in 0..1024")));
        }
    }
}
