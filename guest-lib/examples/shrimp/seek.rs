//! How one program finds the other.

use std::time::{Duration, Instant};

use hamlyn::shrimp::Card;
use hamlyn::{Connection, EndReason, Error};

use crate::common::Outcome;

/// How soon to ask all hosts again.
const AGAIN: Duration = Duration::from_millis(50);

/// Connects to whichever host has the name. A machine that is busy, or stands still for a moment,
/// may not say in time that it has: so as long as there is patience all are asked again.
pub(crate) fn seek(
    card: &Card,
    name: &str,
    private: &[u8],
    patience: Option<Duration>,
) -> Outcome<Connection> {
    let begun = Instant::now();
    let impatient = || patience.is_some_and(|patience| begun.elapsed() > patience);
    loop {
        match card.connect_any(card.hosts()?, name, private, patience) {
            Err(Error::Ended(end))
                if matches!(end.reason, EndReason::HostLost | EndReason::NoName) && !impatient() =>
            {
                std::thread::sleep(AGAIN);
            }
            found => return Ok(found?),
        }
    }
}
