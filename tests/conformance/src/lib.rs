//! What a channel promises, as cases. They run for every carrier and every way to attach to a card:
//! between machines (`tests/tests/vm/channel.rs`, by the program `channel-check`), at the sockets
//! of cards (`tests/tests/host`), and between cards in memory (`guest-lib/tests/library`).
//!
//! One end calls [`serve`], the other end [`run`]. The first message of a channel names the case to
//! the server.

mod cases;
mod messages;
mod serving;

use std::error::Error;
use std::io;
use std::process::Child;
use std::time::Duration;

use hamlyn::PeerLoss;
use hamlyn::channel::Card;

pub use crate::serving::{die, serve};

/// The result of a case.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Name of the server's listener, and of that of a process that dies.
pub const NAME: &str = "channel-check";
const DYING: &str = "channel-check-dies";
/// Number of messages in the long cases, and number of bytes in the stream.
const MESSAGES: u64 = 5_000;
const STREAM: usize = 1 << 20;
/// Longest message of the case with a large ring: several operations of any card.
const LARGE: u64 = 100_000;
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(60);

/// Where the cases run.
#[derive(Debug)]
pub struct Place {
    /// The card of the end that connects.
    pub card: Card,
    /// The server's host.
    pub host: u32,
    /// Starts a process on this host that calls [`die`]. `None`: a second process cannot use the
    /// card, and the cases with one are left out.
    pub second: Option<fn() -> io::Result<Child>>,
}

/// Runs the cases whose name contains `word`, and calls `kept` with the name of each that passes.
///
/// # Errors
/// That of the first case that fails, with its name.
pub fn run(at: &Place, word: &str, mut kept: impl FnMut(&'static str)) -> Outcome {
    let with_process = at.second.map_or(&[][..], |_| cases::WITH_PROCESS);
    for (name, case) in cases::CASES.iter().chain(with_process).filter(|(name, _)| name.contains(word)) {
        case(at).map_err(|error| format!("{name}: {error}"))?;
        kept(name);
    }
    Ok(())
}

/// Returns whether a channel uses express memory.
///
/// # Errors
/// Those of [`hamlyn::channel::Channel::connect`].
pub fn is_express(at: &Place) -> Outcome<bool> {
    Ok(cases::open(at, "echo")?.is_express())
}

/// Opens a channel, calls `opened`, and waits until the peer is lost. Returns how both halves
/// report that. The server reports it, too.
///
/// # Errors
/// Any other end of the channel.
pub fn hold(at: &Place, opened: impl FnOnce()) -> Outcome<[PeerLoss; 2]> {
    let mut channel = cases::open(at, "hold")?;
    let held = channel.receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()?;
    if held != b"held" {
        return Err(format!("the server answers {held:?}").into());
    }
    opened();
    serving::losses(channel)
}
