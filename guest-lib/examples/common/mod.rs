//! Shared parts of the guest programs: one JSON object per line on standard output, one ticket per
//! line on standard input.

pub mod calls;
pub mod pages;

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hamlyn::{Card, MessageArea, Statistic, Ticket, channel};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde_json::{Map, Value, json};

/// Result of a program's parts.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Runs a program. An error is printed as JSON and makes the exit status 1.
pub fn run(program: impl FnOnce() -> Outcome) -> ExitCode {
    match program() {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has gone: use the status of SIGPIPE.
        Err(error) if is_closed_output(&*error) => ExitCode::from(128 + 13),
        Err(error) => {
            let _ = print(&json!({ "error": error.to_string() }));
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether standard output is closed. Errors of cards and peers have their own types.
fn is_closed_output(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Selects the card.
#[derive(Debug, clap::Args)]
pub struct CardOption {
    /// The card: a device, or `vfio-user:` and a socket's path; else $HAMLYN_CARD, else the
    /// machine's first
    #[arg(long, global = true)]
    card: Option<String>,
}

impl CardOption {
    /// Opens a Hamlyn card.
    pub fn open(&self) -> Outcome<Card> {
        Ok(self.card.as_deref().map_or_else(Card::open_default, Card::open)?)
    }

    /// Opens a card of any model.
    pub fn open_any(&self) -> Outcome<channel::Card> {
        let node = self.card.as_deref().map(Path::new);
        Ok(node.map_or_else(channel::Card::open_any, channel::Card::open)?)
    }
}

/// Prints one JSON object on a line of its own.
pub fn print(value: &Value) -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()?;
    Ok(())
}

/// Reads a line. Fails at the end of input.
pub fn read_line() -> Outcome<String> {
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line)? == 0 {
        return Err("standard input ended".into());
    }
    Ok(line.trim().to_owned())
}

/// Reads a ticket from a line.
pub fn read_ticket() -> Outcome<Ticket> {
    Ok(read_line()?.parse()?)
}

/// Returns a flag that becomes true when standard input ends.
pub fn input_ended() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = ended.clone();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        flag.store(true, Ordering::Release);
    });
    ended
}

/// Returns the refusals that a card has counted since `before`: the counters that rose, and by how
/// much.
pub fn refused_since(before: &[(Statistic, u64)], card: &Card) -> Outcome<Map<String, Value>> {
    let risen = before
        .iter()
        .zip(card.statistics()?)
        .filter(|((counter, before), (_, now))| counter.is_refusal() && before != now);
    Ok(risen
        .map(|((counter, before), (_, now))| (counter.name().to_owned(), now.wrapping_sub(*before).into()))
        .collect())
}

/// Returns one of a card's counters.
pub fn counter(card: &Card, which: Statistic) -> Outcome<u64> {
    let found = card.statistics()?.into_iter().find(|(counter, _)| *counter == which);
    Ok(found.ok_or_else(|| format!("the card has no counter {}", which.name()))?.1)
}

/// Reads a word of a message area that fetch-and-ops change: 8 bytes at a multiple of 8.
pub fn word_at(area: &MessageArea, offset: usize) -> Outcome<u64> {
    let mut bytes = [0; 8];
    area.read(offset, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Returns whether the card was reset or removed.
pub fn is_gone(error: &(dyn Error + 'static)) -> bool {
    let error = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => inner.downcast_ref(),
        None => error.downcast_ref(),
    };
    let gone = Errno::NODEV.raw_os_error();
    matches!(error, Some(hamlyn::Error::System { source, .. }) if source.raw_os_error() == Some(gone))
}

/// Sleeps until one of these files is readable or the time is up.
pub fn sleep(files: &[BorrowedFd<'_>], limit: Duration) -> Outcome {
    let mut polled: Vec<_> =
        files.iter().map(|file| PollFd::from_borrowed_fd(*file, PollFlags::IN)).collect();
    match poll(&mut polled, Some(&limit.try_into()?)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the rest of a timeout that began at `begun`.
pub fn left(begun: Instant, timeout: Duration) -> Duration {
    timeout.saturating_sub(begun.elapsed())
}

/// Converts seconds from the options.
pub fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Fills `bytes`, which lie `offset` bytes into a stream, with the stream's pattern (SplitMix64
/// over 8-byte words).
pub fn fill_pattern(seed: u64, offset: usize, bytes: &mut [u8]) {
    for (index, byte) in bytes.iter_mut().enumerate() {
        let at = offset + index;
        *byte = (word(seed, at as u64 / 8) >> (at % 8 * 8)) as u8;
    }
}

/// Returns the index of the first byte of `bytes` that differs from the stream's pattern.
pub fn find_difference(seed: u64, offset: usize, bytes: &[u8]) -> Option<usize> {
    let mut expected = vec![0; bytes.len()];
    fill_pattern(seed, offset, &mut expected);
    bytes.iter().zip(&expected).position(|(byte, other)| byte != other)
}

/// Returns word `index` of the generator: the seed advanced by `index` steps.
fn word(seed: u64, index: u64) -> u64 {
    let state = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    SplitMix64::seed_from_u64(state).next_u64()
}
