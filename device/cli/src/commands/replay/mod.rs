//! `hamlyn replay`

mod calls;
mod prompt;

use std::fs::File;
use std::io::{BufReader, BufWriter, Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use hamlyn_replay::compare::{DriverView, difference};
use hamlyn_replay::file::{Call, RecordingReader, RecordingWriter};
use hamlyn_trace::perfetto::Perfetto;
use hamlyn_trace::text;

use super::tell;
use calls::{Made, Replay};

/// Differences that are shown.
const SHOWN: u64 = 10;

/// Make a card do again what hamlyn record has recorded, without a machine
///
/// The card of this program gets the recorded calls, and sees what the recorded card saw. What it
/// does is compared: writes to memory and windows, packets, interrupts, and what each call returns.
/// The command fails if anything differs. So a recording of a failure shows it again, and later
/// that it stays mended.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn replay boot.rec                              does the card still do the same?
  hamlyn replay boot.rec --text | less                all that happened, as hamlyn trace shows it
  hamlyn replay boot.rec --break COMMAND_GO           stop at each command, then step on
  hamlyn replay before.rec --diff after.rec           what another driver does differently
  hamlyn replay boot.rec --until 2000 -o short.rec    the first calls alone
  hamlyn replay boot.rec -o boot.rec.new              the same calls, with what the card does now")]
pub(super) struct ReplayArgs {
    /// Recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print all events
    #[arg(long)]
    text: bool,
    /// Print all events as JSON objects, one a line
    #[arg(long, conflicts_with = "text")]
    json: bool,
    /// Write a trace for ui.perfetto.dev and trace_processor
    #[arg(long, value_name = "TRACE")]
    perfetto: Option<PathBuf>,
    /// Stop after each call in which an event's text has this word: a register's name, a command's,
    /// an address. Then take commands from standard input; h shows which there are
    #[arg(long = "break", value_name = "WORD")]
    breaks: Vec<String>,
    /// Stop after each call
    #[arg(long)]
    step: bool,
    /// Compare with another recording, as their drivers saw the card: registers, commands,
    /// interrupts, resets. Neither is replayed
    #[arg(long, value_name = "OTHER", conflicts_with_all = ["text", "json", "perfetto", "breaks", "step", "output"])]
    diff: Option<PathBuf>,
    /// End after this call
    #[arg(long, value_name = "CALL", default_value_t = u64::MAX, hide_default_value = true)]
    until: u64,
    /// Write the recording again, with what the card does now. Differences are no failure then
    #[arg(short, long, value_name = "NEW", conflicts_with_all = ["breaks", "step"])]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &ReplayArgs) -> anyhow::Result<()> {
    if let Some(other) = &args.diff {
        return compare(&args.file, other, args.until);
    }
    let mut replay = Replay::open(&args.file)?;
    if args.step || !args.breaks.is_empty() {
        return prompt::run(&mut replay, &args.breaks, args.step, args.until);
    }
    let mut sinks = Sinks::open(args, &replay)?;
    let mut differing = 0_u64;
    while replay.number() < args.until {
        let Some(made) = replay.step()? else { break };
        sinks.call(args, &replay, &made)?;
        if !made.differences.is_empty() {
            differing += 1;
            if differing <= SHOWN {
                tell(&describe(&replay, &made));
            }
        }
    }
    sinks.finish(&replay)?;
    let (calls, seconds) = (replay.number(), replay.seconds());
    tell(&format!("{}: {calls} calls in {seconds:.3} s of recorded time", replay.title()));
    if replay.is_cut() {
        tell("the recording ends in the middle of a call");
    }
    if replay.unforeseen() > 0 {
        tell(&format!(
            "the card looked at {} things that the recording does not have, and found there what it has last",
            replay.unforeseen()
        ));
    }
    ensure!(differing == 0 || args.output.is_some(), "{differing} calls differ from the recording");
    tell(if differing == 0 {
        "each call did what the recording has"
    } else {
        "written with the differences"
    });
    Ok(())
}

/// Returns the text of a call that differs.
fn describe(replay: &Replay, made: &Made) -> String {
    let (number, at) = (made.call.number, replay.seconds());
    let mut text = format!("call {number} at {at:.6} s, {}:", made.call.step);
    for difference in &made.differences {
        text.push_str(&format!("\n  {difference}"));
    }
    text
}

/// Where events and calls go.
struct Sinks {
    out: BufWriter<std::io::Stdout>,
    perfetto: Option<Perfetto<BufWriter<File>>>,
    recording: Option<RecordingWriter<BufWriter<File>>>,
}

impl Sinks {
    fn open(args: &ReplayArgs, replay: &Replay) -> anyhow::Result<Self> {
        let open = |path: &PathBuf| {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            Ok::<_, anyhow::Error>(BufWriter::new(file))
        };
        for output in args.output.iter().chain(&args.perfetto) {
            ensure!(!is_same(output, &args.file), "{} cannot be its own output", args.file.display());
        }
        let perfetto = args.perfetto.as_ref().map(open).transpose()?;
        let recording = args.output.as_ref().map(open).transpose()?;
        Ok(Self {
            out: BufWriter::new(stdout()),
            perfetto: perfetto.map(|file| Perfetto::new(file, &[replay.title()])).transpose()?,
            recording: recording.map(|file| RecordingWriter::new(file, replay.card())).transpose()?,
        })
    }

    fn call(&mut self, args: &ReplayArgs, replay: &Replay, made: &Made) -> anyhow::Result<()> {
        for event in &made.events {
            if args.text {
                let line = text::line(event, &replay.card().name, replay.start());
                line.map_or(Ok(()), |line| writeln!(self.out, "{line}"))?;
            } else if args.json {
                let object = text::object(event, &replay.card().name);
                object.map_or(Ok(()), |object| writeln!(self.out, "{object}"))?;
            }
            if let Some(perfetto) = &mut self.perfetto {
                perfetto.event(event)?;
            }
        }
        if let Some(recording) = &mut self.recording {
            recording.push_call(&made.as_now())?;
        }
        Ok(())
    }

    fn finish(mut self, replay: &Replay) -> anyhow::Result<()> {
        self.out.flush()?;
        if let Some(perfetto) = self.perfetto {
            perfetto.finish()?;
        }
        if let Some(recording) = self.recording {
            ensure!(replay.number() > 0, "the recording has no calls");
            recording.finish()?.flush()?;
        }
        Ok(())
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok().is_some_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Prints how two recordings differ.
fn compare(before: &Path, after: &Path, until: u64) -> anyhow::Result<()> {
    let [old, new] = [before, after].map(|path| view(path, until));
    let (old, new) = (old?, new?);
    let [before, after] = [before, after].map(|path| path.display().to_string());
    let text = difference(&old, &new, [&before, &after]);
    if text.is_empty() {
        tell(&format!("the drivers do the same: {} accesses, commands and interrupts", old.len()));
        return Ok(());
    }
    stdout().write_all(text.as_bytes())?;
    bail!("the drivers differ");
}

fn view(path: &Path, until: u64) -> anyhow::Result<DriverView> {
    let mut reader = calls::reader(path)?;
    let mut namer = calls::namer(reader.card())?;
    let mut view = DriverView::default();
    while let Some(call) = next(&mut reader, path)?.filter(|call| call.number <= until) {
        namer.events(&call, &[]).iter().for_each(|event| view.push(event));
    }
    Ok(view)
}

fn next(reader: &mut RecordingReader<BufReader<File>>, path: &Path) -> anyhow::Result<Option<Call>> {
    reader.next_call().with_context(|| path.display().to_string())
}
