//! How one program finds the other.

use std::time::{Duration, Instant};

use hamlyn::shrimp::Card;
use hamlyn::{Connection, EndReason, Error};

use crate::common::Outcome;

/// Delay before all hosts are asked again.
const AGAIN: Duration = Duration::from_millis(50);

/// Connects to any host that has the name. A busy or paused machine may not answer in time that it
/// has the name. So all hosts are asked again until `patience` runs out.
pub(crate) fn seek(card: &Card, name: &str, private: &[u8], patience: Duration) -> Outcome<Connection> {
    let begun = Instant::now();
    let impatient = || begun.elapsed() > patience;
    loop {
        match card.connect_any_timeout(card.hosts()?, name, private, patience) {
            Err(Error::Ended(end))
                if matches!(end.reason, EndReason::HostLost | EndReason::NoName) && !impatient() =>
            {
                std::thread::sleep(AGAIN);
            }
            found => return Ok(found?),
        }
    }
}
