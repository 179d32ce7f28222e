//! `hamlyn trace`, `hamlyn capture` and `hamlyn record`

mod capture;
mod clock;
mod guest;
mod record;
mod session;
mod spool;

use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use hamlyn_trace::message::Messages;
use hamlyn_trace::perfetto::Perfetto;
use hamlyn_trace::record::{Kind, Wish};
use hamlyn_trace::text;

pub(super) use capture::CaptureArgs;
pub(super) use capture::run as run_capture;
use clock::monotonic;
pub(super) use record::RecordArgs;
pub(super) use record::run as run_record;
use session::Session;

use super::lab::stay::stop_by_signals;
use super::tell;

/// Show what cards and their machines do, as it happens, until Ctrl-C
///
/// Shows each access to a register by name, each command with its fields and its result, doorbells,
/// what the card finds in its windows, its accesses to guest memory, interrupts, packets with their
/// headers, counters that change, links and resets. Times are seconds since the trace began. What
/// happens inside another event is indented. One reader at a time can trace a process of cards; the
/// cards do not wait for it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn trace                        everything, as lines
  hamlyn trace card0 --only registers,commands,interrupts
  hamlyn trace --messages             the way of each packet, with the time of each step
  hamlyn trace --wait -o boot.txt     from the start of the lab that is started next
  hamlyn trace --guest vm0,vm1        with what the machines' drivers see
  hamlyn trace --perfetto lab.json    then open ui.perfetto.dev, and in it the file
  hamlyn trace --json --seconds 10 | jq 'select(.event == \"send\")'")]
pub(super) struct TraceArgs {
    /// Cards to trace, by name: see hamlyn stat [default: all that run]
    #[arg(value_name = "CARD")]
    cards: Vec<String>,
    /// Only these kinds of events
    #[arg(long, value_name = "KINDS", value_enum, value_delimiter = ',')]
    only: Vec<Group>,
    /// Bytes of each packet and each access to memory to record. Of packets, the headers always are
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=65536))]
    data: u32,
    /// Print JSON objects, one a line. Times are nanoseconds of the host's monotonic clock
    #[arg(long, conflicts_with_all = ["perfetto", "messages"])]
    json: bool,
    /// Print a table for each packet: its way from the doorbell to the receiver's interrupt
    #[arg(long, conflicts_with_all = ["perfetto", "only"])]
    messages: bool,
    /// Write a trace for ui.perfetto.dev and trace_processor
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    perfetto: Option<PathBuf>,
    /// Write to a file instead of standard output, when the trace ends. Until then the trace takes
    /// less of the processors' time
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also show the tracepoints of these machines' kernels, on the host's clock: commands,
    /// interrupts, links and connections, as the driver sees them
    #[arg(long, value_name = "MACHINES", value_delimiter = ',')]
    guest: Vec<String>,
    /// Wait until the cards run. So a trace has a lab's start: machines boot after their cards have
    /// started
    #[arg(long)]
    wait: bool,
    /// End after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
}

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Group {
    /// Reads and writes of registers, doorbells among them
    Registers,
    /// Commands of the driver, with their results
    Commands,
    /// What the card reads and writes in its windows
    Windows,
    /// The card's accesses to guest memory
    Memory,
    /// MSI-X
    Interrupts,
    /// Packets, links and resets
    Packets,
    /// Counters that change: notifications, refusals, misses, Tripwires that fire
    Counters,
    /// Faults by rule: see hamlyn fault
    Faults,
}

impl Group {
    /// Returns the records to ask for.
    fn kinds(self) -> &'static [Kind] {
        match self {
            Group::Registers => &[Kind::RegisterRead, Kind::LateRead, Kind::RegisterWrite, Kind::Done],
            // A command is a write of a register, and accesses to the command page.
            Group::Commands => &[Kind::RegisterWrite, Kind::Done, Kind::DmaRead, Kind::DmaWrite],
            Group::Windows => {
                &[Kind::WindowLoad, Kind::WindowStore, Kind::WindowCopy, Kind::WindowClear, Kind::Store]
            }
            Group::Memory => &[
                Kind::DmaRead,
                Kind::DmaWrite,
                Kind::DmaLendRead,
                Kind::DmaLendWrite,
                Kind::DmaPublish,
                Kind::DmaFetch,
            ],
            Group::Interrupts => &[Kind::Interrupt],
            Group::Packets => &[Kind::Send, Kind::Arrive, Kind::Link, Kind::Reset],
            Group::Counters => &[Kind::Counter],
            Group::Faults => &[Kind::Fault],
        }
    }

    /// Whether an event, of a record that was asked for, is one of these.
    fn has(self, kind: Kind, what: &str) -> bool {
        let of_command = matches!(what, "command" | "body" | "result");
        match self {
            Group::Commands => of_command,
            Group::Memory => self.kinds().contains(&kind) && !of_command,
            _ => self.kinds().contains(&kind),
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let limits = 0.001..=86_400.0;
    let number = text.parse().ok().filter(|number| limits.contains(number));
    number.ok_or_else(|| format!("{text} is not a time in seconds (0.001 to 86400)"))
}

pub(super) fn run(args: TraceArgs) -> anyhow::Result<()> {
    let mut kinds: Vec<Kind> = args.only.iter().flat_map(|group| group.kinds()).copied().collect();
    if kinds.is_empty() {
        kinds = Group::value_variants().iter().flat_map(|group| group.kinds()).copied().collect();
    }
    // A program that sees the file may send a signal at once.
    let stop = stop_by_signals()?;
    // Opened first: a file that cannot be written ends the command before a trace begins.
    let file = args.perfetto.as_ref().or(args.output.as_ref());
    let out = output(file.map(PathBuf::as_path))?;
    let exact = args.perfetto.is_some() || args.messages;
    let wish = Wish { exact, ..Wish::of(&kinds, args.data) };
    let mut session = Session::start(&args.cards, wish, args.seconds, args.wait, stop)?;
    session.add_guests(&args.guest)?;
    session.keep_for(file.map(PathBuf::as_path))?;
    let cards: Vec<String> = session.cards.iter().map(|card| card.name.clone()).collect();
    if file.is_some() {
        tell(&format!("tracing {} until Ctrl-C", cards.join(", ")));
    }
    let written = write(&args, &mut session, &cards, out);
    if session.lost > 0 {
        tell(&format!("{} events are missing: they came faster than this program reads", session.lost));
    }
    written
}

fn write(
    args: &TraceArgs,
    session: &mut Session,
    cards: &[String],
    mut out: Box<dyn Write>,
) -> anyhow::Result<()> {
    let mut messages = Messages::new(session.cards.iter().map(|card| card.host).collect());
    if args.perfetto.is_some() {
        let titles: Vec<String> =
            session.cards.iter().map(|card| format!("{} ({})", card.name, card.model)).collect();
        let mut perfetto = Perfetto::new(out, &titles)?;
        session.run(|event| {
            perfetto.event(event)?;
            Ok(messages.push(event).map_or(Ok(()), |message| perfetto.message(&message))?)
        })?;
        return Ok(perfetto.finish()?);
    }
    let start = monotonic();
    let result = session.run(|event| {
        if args.messages {
            if let Some(message) = messages.push(event) {
                writeln!(out, "{}", text::table(&message, cards))?;
            }
            return Ok(());
        }
        if !args.only.is_empty()
            && !matches!(event.kind, Kind::Lost | Kind::Guest)
            && !args.only.iter().any(|group| group.has(event.kind, event.what))
        {
            return Ok(());
        }
        let card = &cards[event.card];
        if args.json {
            text::object(event, card).map_or(Ok(()), |object| writeln!(out, "{object}"))?;
        } else {
            text::line(event, card, start).map_or(Ok(()), |line| writeln!(out, "{line}"))?;
        }
        // A person reads along, or a program in a pipe.
        if args.output.is_none() {
            out.flush()?;
        }
        Ok(())
    });
    let flushed = out.flush();
    result.and_then(|()| Ok(flushed?))
}

/// Opens a file, or standard output.
fn output(file: Option<&Path>) -> anyhow::Result<Box<dyn Write>> {
    Ok(match file {
        Some(file) => {
            let opened = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
            Box::new(BufWriter::with_capacity(1 << 20, opened))
        }
        None => Box::new(BufWriter::new(stdout())) as Box<dyn Write>,
    })
}
