//! A sleeping receiver uses no processor time.

use std::time::Duration;

use hamlyn::Polling;
use serde_json::json;

use crate::channel::library::meet;
use crate::engine::result::{Meter, Outcome, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds to sleep
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

/// Sleeps at a channel. Both machines' processes run this at the same time, and neither sends
/// anything.
pub(crate) fn doze(options: &Options) -> Outcome {
    let mut channel = meet()?;
    channel.receiver.set_polling(Polling::NEVER);
    let time = Duration::from_secs(options.seconds);
    say(&json!({ "ready": channel.is_express() }))?;
    let meter = Meter::start();
    match channel.receiver.recv_timeout(time) {
        Err(error) if error.is_timed_out() => {}
        // The other process started a little earlier, and has finished.
        Err(hamlyn::Error::PeerLost(_)) => {}
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("an unexpected message arrived".into()),
    }
    let (ns, cpu_ns) = meter.stop();
    say(&json!({ "ns": ns, "cpu_ns": cpu_ns }))
}
