//! `hamlyn capture`

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use hamlyn_host::catalogue::{self, MODELS};
use hamlyn_trace::capture::{Capture, Dissected, Interface, dissector};
use hamlyn_trace::record::{Kind, Wish};

use super::clock::epoch;
use super::session::Session;
use super::{output, seconds};
use crate::commands::lab::stay::stop_by_signals;
use crate::commands::tell;

/// Capture the packets of running cards, for Wireshark and tshark, until Ctrl-C
///
/// The file is pcapng. Each card is an interface, so a packet between two cards is there twice, as
/// sent and as arrived. A packet begins with the fabric's header. The dissector shows it, and the
/// header of the card's model.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn capture --dissector > ~/.local/lib/wireshark/plugins/hamlyn.lua    once
  hamlyn capture -w lab.pcapng
  hamlyn capture card0 -w - | wireshark -k -i -
  tshark -X lua_script:hamlyn.lua -r lab.pcapng")]
pub(in crate::commands) struct CaptureArgs {
    /// Cards whose packets are captured, by name [default: all that run]
    #[arg(value_name = "CARD")]
    cards: Vec<String>,
    /// File to write; - is standard output
    #[arg(short = 'w', long = "write", value_name = "FILE", required_unless_present = "dissector")]
    file: Option<PathBuf>,
    /// Capture at most this much of each packet, without the fabric's header
    #[arg(short = 's', long, value_name = "BYTES", default_value_t = 131_072)]
    #[arg(value_parser = clap::value_parser!(u32).range(96..=131_072))]
    snaplen: u32,
    /// Wait until the cards run. So a capture has a lab's start
    #[arg(long)]
    wait: bool,
    /// End after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    /// Print the dissector for Wireshark, in Lua, and end
    #[arg(long, exclusive = true)]
    dissector: bool,
}

pub(in crate::commands) fn run(args: CaptureArgs) -> anyhow::Result<()> {
    if args.dissector {
        return print_dissector();
    }
    let stop = stop_by_signals()?;
    let file = args.file.filter(|file| file != Path::new("-"));
    let out = output(file.as_deref())?;
    let wish = Wish::of(&[Kind::Send, Kind::Arrive, Kind::Link], args.snaplen);
    let mut session = Session::start(&args.cards, wish, args.seconds, args.wait, stop)?;
    session.keep_for(file.as_deref())?;
    let interfaces = session.cards.iter().map(|card| {
        let (name, host) = (card.name.clone(), card.host);
        let model = catalogue::find(&card.model)?;
        let (protocol, _) = catalogue::packets(model).context("the model has no packets")?;
        Ok(Interface { name, host, protocol })
    });
    let interfaces = interfaces.collect::<anyhow::Result<Vec<_>>>()?;
    let live = file.is_none();
    if !live {
        tell(&format!("capturing the packets of {} cards until Ctrl-C", interfaces.len()));
    }
    let mut packets = 0_u64;
    let mut capture = Capture::new(out, interfaces, epoch())?;
    let captured = session.run(|event| {
        packets += u64::from(matches!(event.kind, Kind::Send | Kind::Arrive));
        capture.event(event)?;
        Ok(if live { capture.flush() } else { Ok(()) }?)
    });
    let captured = captured.and_then(|()| Ok(capture.flush()?));
    tell(&format!("{packets} packets captured, {} missing", session.lost));
    captured
}

fn print_dissector() -> anyhow::Result<()> {
    let models = MODELS.iter().filter_map(|model| {
        let (protocol, fields) = catalogue::packets(model)?;
        Some(Dissected { model: model.name, protocol: protocol.number(), fields })
    });
    let models: Vec<_> = models.collect();
    Ok(std::io::stdout().write_all(dissector(&models).as_bytes())?)
}
