//! Handling of Ctrl-C: a tool that is asked to stop prints its summary first.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Outcome;

/// Whether the user or the system has asked for a stop. A second signal ends the process at once.
#[derive(Debug)]
pub(crate) struct Stop {
    asked: Receiver<()>,
}

impl Stop {
    /// Starts to catch the signals.
    pub(crate) fn catch() -> Outcome<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let (ask, asked) = channel();
        std::thread::spawn(move || {
            for (number, signal) in signals.forever().enumerate() {
                if number > 0 {
                    std::process::exit(128 + signal);
                }
                // Fails if the receiver is gone: then the process is about to end.
                let _ = ask.send(());
            }
        });
        Ok(Self { asked })
    }

    /// Sleeps for `time`, or until a stop is requested. Returns `true` in that case, once.
    pub(crate) fn rest(&self, time: Duration) -> bool {
        self.asked.recv_timeout(time).is_ok()
    }
}
