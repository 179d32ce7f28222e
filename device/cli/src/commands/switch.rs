//! `hamlyn switch`

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hamlyn_host::{rundir, switch};
use hamlyn_switch::bursts;
use hamlyn_switch::crossbar::MAX_PORTS;
use hamlyn_switch::mesh::Shape;
use hamlyn_switch::paths::MAX_PATHS;
use hamlyn_switch::{Form, Options, Part, Policy};

use crate::users;

/// Run a switch, which links cards
///
/// It forwards packets between cards by their host ids, which are its port numbers. It drops only
/// packets to a port without a card.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn switch --socket $XDG_RUNTIME_DIR/s.sock
  hamlyn switch --socket $XDG_RUNTIME_DIR/s.sock --paths 4   packets overtake each other: hamlyn stat counts them
  hamlyn switch --socket $XDG_RUNTIME_DIR/s.sock --mesh 4x4  packets come through 16 routers: hamlyn stat counts them by link")]
pub(super) struct SwitchArgs {
    /// Socket that cards connect to
    #[arg(long, value_name = "PATH", value_parser = rundir::socket_path)]
    socket: PathBuf,
    /// Number of cards that it can link [default: 64, or the number of nodes of a mesh]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    ports: Option<u16>,
    /// How long to poll for packets before sleeping, in microseconds. More than 0 needs a dedicated
    /// core
    #[arg(long, value_name = "US", default_value_t = 0)]
    spin: u64,
    /// Detach a card that accepts nothing for this time while others wait for it, in seconds; it
    /// may attach again. 0: never. With --mesh at most 4, because such a card blocks others there,
    /// and a card must take a 64th of its ring (16 KiB)
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    stall_timeout: u64,
    /// User that may attach cards, by name or number, in addition to the switch's own user and
    /// root; may be repeated
    #[arg(long, value_name = "USER", value_parser = users::parse)]
    allow_user: Vec<u32>,
    /// Largest number of ports of each user, including those reserved for it [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    user_ports: Option<u16>,
    /// How long a host id is reserved for its user after the card has left, in seconds [default: as
    /// long as the switch runs]
    ///
    /// Meanwhile no other user gets the id, because others trust a host by its id.
    #[arg(long, value_name = "SECONDS")]
    keep_ids: Option<u64>,
    #[command(flatten)]
    routing: RoutingArgs,
    #[command(flatten)]
    express: ExpressArgs,
}

impl SwitchArgs {
    fn policy(&self) -> Policy {
        let mut policy = Policy { keep: self.keep_ids.map(Duration::from_secs), ..Policy::default() };
        policy.users.extend(&self.allow_user);
        policy.ports_for_each = self.user_ports.unwrap_or(policy.ports_for_each);
        policy
    }
}

/// Routing of packets.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct RoutingArgs {
    /// Number of the switch's paths to each card; with more than one, packets of a message overtake
    /// each other
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_PATHS)))]
    pub(super) paths: u16,
    /// Route packets through a mesh of routers with this many nodes, such as 4x4. Each link carries
    /// one packet at a time; cards are assigned to nodes by their host ids, row by row
    ///
    /// It uses wormhole routing, first along the row, then along the column. A card that accepts
    /// nothing blocks others whose packets use the same links.
    #[arg(long, value_name = "COLUMNSxROWS", conflicts_with = "paths")]
    pub(super) mesh: Option<Shape>,
    /// Cut longer packets into parts of this many bytes while packets of several cards wait for
    /// one, if their protocol allows it; parts that wait alone are joined again. 0: never
    #[arg(long, value_name = "BYTES", default_value_t = bursts::QUANTUM)]
    pub(super) quantum: u32,
}

impl RoutingArgs {
    /// Returns when packets are cut and joined.
    pub(super) fn cutting(self) -> bursts::Policy {
        bursts::Policy::Quantum(self.quantum as usize)
    }
}

/// Memory that machines share in addition to messages.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct ExpressArgs {
    /// Provide memory that each pair of hosts shares with no other host: two programs communicate
    /// through it by loads and stores alone. For at most 64 ports
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Express::None)]
    pub(super) express: Express,
    /// Size of each pair's part: 64K to 256M, a power of two
    #[arg(long, value_name = "SIZE", default_value_t)]
    pub(super) express_part: Part,
}

/// How express memory is provided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Express {
    /// One file, which each machine's QEMU holds; a machine can access only its own parts
    Shared,
    /// A file for each pair, which only the QEMUs of these two machines hold. A machine has a PCI
    /// function for each other port, so configure no more ports than needed
    Isolated,
    /// There is none
    #[default]
    None,
}

impl ExpressArgs {
    /// Returns the same arguments, but with shared memory if there was none.
    pub(super) fn with_some(self) -> Self {
        match self.express {
            Express::None => Self { express: Express::Shared, ..self },
            Express::Shared | Express::Isolated => self,
        }
    }

    /// Returns the part of each pair and the form of the files.
    pub(super) fn wanted(self) -> Option<(Form, Part)> {
        let form = match self.express {
            Express::Shared => Form::Shared,
            Express::Isolated => Form::Isolated,
            Express::None => return None,
        };
        Some((form, self.express_part))
    }
}

pub(super) fn run(args: &SwitchArgs) -> anyhow::Result<()> {
    let RoutingArgs { paths, mesh, .. } = args.routing;
    let most = Options::default().ports;
    let nodes = mesh.map(|shape| shape.nodes().min(MAX_PORTS.into()) as u16);
    let ports = args.ports.or(nodes).unwrap_or(most);
    switch::run(
        &args.socket,
        Options {
            ports,
            express: args.express.wanted(),
            paths,
            mesh,
            cutting: args.routing.cutting(),
            spin: Duration::from_micros(args.spin),
            stall_timeout: Duration::from_secs(args.stall_timeout),
            policy: args.policy(),
            ..Options::default()
        },
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        express: ExpressArgs,
    }

    #[test]
    fn express_memory_exists_only_on_request() {
        let parse = |words: &[&str]| {
            Program::try_parse_from([&["switch"], words].concat()).map(|program| program.express)
        };
        let wanted = |words: &[&str]| parse(words).unwrap().wanted();
        let small = Part::new(64 << 10).unwrap();
        assert_eq!(wanted(&[]), None);
        assert_eq!(wanted(&["--express", "shared"]), Some((Form::Shared, Part::default())));
        assert_eq!(wanted(&["--express=isolated", "--express-part=64K"]), Some((Form::Isolated, small)));
        assert_eq!(wanted(&["--express", "none"]), None);
        for wrong in [["--express", "all"], ["--express-part", "3M"], ["--express-part", "1G"]] {
            assert!(parse(&wrong).is_err(), "{wrong:?}");
        }
        // A demo of express memory always has some.
        for (words, form) in [(&[][..], Form::Shared), (&["--express=isolated"], Form::Isolated)] {
            assert_eq!(parse(words).unwrap().with_some().wanted(), Some((form, Part::default())));
        }
    }
}
