//! `hamlyn qemu-args`

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, anyhow};
use clap::Args;
use hamlyn_host::{catalogue, rundir};

use super::options::ModelFlag;
use super::tell;
use hamlyn_lab::{
    Accel, CARD_SLOT, Functions, Memory, Snoop, Stores, card_arguments, plugin, snoop_arguments,
};

/// Print the arguments that give your own QEMU the card
///
/// They replace your own -m, and add to your own -machine: the memory must be shared, because the
/// card reads and writes it directly. QEMU must be 10.1 or newer. Start the card first.
///
/// The card has up to three PCI functions in one slot, each with its own socket. The second has the
/// doorbells, which cost the guest a tenth there; the card also works without it. The third has
/// express memory, if the running card has any. If express memory is isolated, there is such a
/// function for each other port of the switch. Functions that do not fit into the slot use the
/// following slots. An emulated machine with express memory needs -smp 1,maxcpus=2 or more. If
/// there can be only one processor, QEMU splits a fetch-and-op into a load and a store, which is
/// not atomic for other machines.
///
/// To plug the card into a running machine, start the machine with a port that reserves address
/// space for its BARs: --port prints the arguments for it. Without that port the kernel finds no
/// space for the largest BAR.
///
/// If QEMU emulates, a plugin reports the machine's stores to a card that snoops them. These
/// arguments then load the plugin, and replace your own -accel.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dir=$(mktemp -d)               of yours alone
  hamlyn switch --socket $dir/s.sock &
  hamlyn card --socket $dir/c0.sock --switch $dir/s.sock &
  eval qemu-system-x86_64 \"$(hamlyn qemu-args --socket $dir/c0.sock --memory 2G)\" disk.qcow2
  hamlyn qemu-args --port hot --model shrimp        a port for a card that is plugged in later")]
pub(super) struct QemuArgs {
    #[command(flatten)]
    model: ModelFlag,
    /// The card's socket
    #[arg(long, value_name = "PATH", value_parser = rundir::card_path, required_unless_present = "port")]
    socket: Option<PathBuf>,
    /// Print the arguments of a port of this name instead. A card of the model can be plugged into
    /// it while the machine runs. The machine's memory must be shared, as with --socket
    #[arg(long, value_name = "NAME", conflicts_with = "socket", value_parser = port_name)]
    port: Option<String>,
    /// The machine's memory
    #[arg(long, value_name = "SIZE", default_value_t = Memory::mib(512))]
    memory: Memory,
    /// Slot of the machine's PCI bus: 1 to 30. Neither it nor the following slots that a card of
    /// more than eight functions uses may have another device. A second card needs another slot
    #[arg(long, value_name = "N", default_value_t = CARD_SLOT, value_parser = clap::value_parser!(u8).range(1..=30))]
    slot: u8,
    /// Accelerator of the machine, as far as it matters to the card
    #[arg(long, value_enum, default_value_t)]
    accel: Accel,
    /// How stores reach a card that snoops them
    #[arg(long, value_enum, default_value_t)]
    snoop: Snoop,
}

/// How long a card that was just started may take to listen.
const PATIENCE: Duration = Duration::from_secs(1);

/// Waits for the card, because its functions depend on its switch.
fn wait_for(card: &Path) {
    let start = Instant::now();
    while !card.exists() {
        if start.elapsed() > PATIENCE {
            let card = card.display();
            tell(&format!(
                "no card listens at {card} yet: if it has express memory, these arguments lack it"
            ));
            return;
        }
        sleep(Duration::from_millis(10));
    }
}

/// Parses a name that QEMU accepts for a device.
fn port_name(text: &str) -> Result<String, String> {
    let good = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    if !text.starts_with(|first: char| first.is_ascii_alphabetic()) || !text.chars().all(good) {
        return Err("a letter, then letters, digits and - . _".to_owned());
    }
    Ok(text.to_owned())
}

/// Returns the arguments of a port that reserves the address space of a card of the model.
fn port(args: &QemuArgs, name: &str) -> anyhow::Result<String> {
    let [wide, narrow] = catalogue::reserve(args.model.model)
        .map_err(|reason| anyhow!("{reason}"))?
        .map(|bytes| bytes.div_ceil(1 << 20));
    // Ports of one bus need different chassis numbers.
    let slot = args.slot;
    Ok(format!(
        "-device pcie-root-port,id={name},chassis={slot},addr={slot:#x},pref64-reserve={wide}M,mem-reserve={narrow}M"
    ))
}

pub(super) fn run(args: QemuArgs) -> anyhow::Result<()> {
    if let Some(name) = &args.port {
        return Ok(writeln!(stdout(), "{}", port(&args, name)?)?);
    }
    let socket = args.socket.as_ref().context("no socket")?;
    // QEMU may be started in another directory.
    let socket = std::path::absolute(socket)?;
    let text = socket.to_str().with_context(|| format!("{} is not UTF-8", socket.display()))?;
    let socket = rundir::card_path(text).map_err(|reason| anyhow!("{text}: {reason}"))?;
    let doorbells = catalogue::has_doorbells(args.model.model);
    wait_for(&socket);
    let functions = Functions::of(&socket, args.slot, doorbells).map_err(Error::msg)?;
    let stores =
        args.snoop.decide(catalogue::is_snooped(args.model.model), args.accel.decide()?, plugin())?;
    if let Some(stores) = &stores {
        tell(&stores.to_string());
    }
    let mut arguments = card_arguments(&socket, args.memory, &functions);
    let plugin = stores.as_ref().and_then(Stores::plugin);
    arguments.extend(plugin.into_iter().flat_map(|plugin| snoop_arguments(plugin, &socket)));
    let arguments: Vec<String> = arguments
        .chunks(2)
        .map(|option| Ok(format!("{} {}", option[0], shlex::try_quote(&option[1])?)))
        .collect::<anyhow::Result<_>>()?;
    writeln!(stdout(), "{}", arguments.join(" \\\n"))?;
    Ok(())
}
