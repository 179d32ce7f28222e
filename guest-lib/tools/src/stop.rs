//! Ctrl-C: who is asked to stop sums up first.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Outcome;

/// Whether the user, or the system, wants an end. A second signal ends the process at once.
#[derive(Debug)]
pub(crate) struct Stop {
    asked: Receiver<()>,
}

impl Stop {
    /// Catches the signals from here on.
    pub(crate) fn catch() -> Outcome<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let (ask, asked) = channel();
        std::thread::spawn(move || {
            for (number, signal) in signals.forever().enumerate() {
                if number > 0 {
                    std::process::exit(128 + signal);
                }
                // Nobody listens any more: then the end is near.
                let _ = ask.send(());
            }
        });
        Ok(Self { asked })
    }

    /// Rests for so long, or until an end is wanted: then it is true, once.
    pub(crate) fn rest(&self, time: Duration) -> bool {
        self.asked.recv_timeout(time).is_ok()
    }
}
