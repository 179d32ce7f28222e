//! `hamlyn record`

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use hamlyn_host::trace::Source;
use hamlyn_replay::file::RecordingWriter;
use hamlyn_replay::step::StepKind;
use hamlyn_trace::record::{Wish, split};

use super::seconds;
use super::session::{LOOK, connect};
use crate::commands::lab::stay::stop_by_signals;
use crate::commands::tell;

/// Bytes of a recording after which the user is told that it grows.
const PROGRESS: u64 = 256 << 20;

/// Record all that a card sees and does, so that hamlyn replay can make it do the same again
///
/// A recording begins when the machine boots or resets the card, and when the driver's module is
/// loaded again. It has each call of the card: accesses, packets, time, and what the card reads
/// from memory meanwhile. A card that is recorded waits for this program when that falls behind,
/// and is slower: a recording with a gap would be of no use.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn record card0 --wait -w boot.rec    from the start of the lab that is started next
  hamlyn record card0 -w reload.rec         then load the module again in its machine
  hamlyn replay boot.rec                    does the card still do the same?")]
pub(in crate::commands) struct RecordArgs {
    /// Card to record, by name: see hamlyn stat
    #[arg(value_name = "CARD")]
    card: String,
    /// File to write
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    file: PathBuf,
    /// Wait until the card runs
    #[arg(long)]
    wait: bool,
    /// End after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
}

pub(in crate::commands) fn run(args: RecordArgs) -> anyhow::Result<()> {
    let stop = stop_by_signals()?;
    let unwritable = || format!("cannot write {}", args.file.display());
    // An earlier recording stays until there is a card to record.
    let file = File::options().write(true).create(true).truncate(false).open(&args.file);
    let file = file.with_context(unwritable)?;
    let (sources, _) = connect(std::slice::from_ref(&args.card), Wish::NONE, args.wait, &stop)?;
    let (mut source, index) = source_of(sources, &args.card)?;
    file.set_len(0).with_context(unwritable)?;
    let mut writer = RecordingWriter::new(BufWriter::new(file), &source.hello.cards[index])?;
    source.readers[index].set_wish(Wish::RECORDING.to_word());
    tell(&format!("{} is recorded from the next start of its driver on, until Ctrl-C", args.card));
    let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let (mut bytes, mut told, mut is_broken) = (0_u64, 0, false);
    while !is_broken {
        let is_over = stop.load(Ordering::Relaxed)
            || end.is_some_and(|end| end <= Instant::now())
            || source.has_ended();
        while let Some(steps) = source.readers[index].take().context("the ring cannot be read")? {
            if bytes == 0 {
                tell("the recording begins");
            }
            bytes += steps.len() as u64;
            is_broken |= split(&steps).any(|(step, _)| step.kind == StepKind::Broken as u8);
            writer.push(&steps).with_context(unwritable)?;
        }
        if bytes / PROGRESS > told {
            told = bytes / PROGRESS;
            tell(&format!("{} MiB recorded", bytes >> 20));
        }
        if is_over {
            break;
        }
        sleep(LOOK);
    }
    // Until here the card waits for room in the ring.
    drop(source);
    let out = writer.finish()?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error);
    let length = file.and_then(|file| file.metadata()).map(|file| file.len());
    let length = length.with_context(unwritable)?;
    if bytes == 0 {
        bail!(
            "nothing was recorded: the driver of {} did not start meanwhile (load its module again)",
            args.card
        );
    }
    if is_broken {
        bail!("the recording ends early: this program did not keep up with the card");
    }
    tell(&format!("{bytes} bytes recorded, {length} in {}", args.file.display()));
    Ok(())
}

/// Keeps the source of a card, and ends the others.
fn source_of(sources: Vec<Source>, card: &str) -> anyhow::Result<(Source, usize)> {
    let place = |source: &Source| source.hello.cards.iter().position(|known| known.name == card);
    let found = sources.into_iter().find_map(|source| place(&source).map(|index| (source, index)));
    found.with_context(|| format!("card {card} is not running"))
}
