//! What hamlyn-run says to this library.

use std::ffi::OsString;
use std::sync::OnceLock;
use std::time::Duration;

/// Default size of a direction's ring, and its limits.
const RING: u64 = 60 << 10;
const LEAST: u64 = 4096;
const MOST: u64 = (16 << 20) - 4096;

/// Default seconds for a step of the agreement, and their maximum.
const AGREEMENT: u64 = 5;
const LONGEST: u64 = 600;

#[derive(Debug)]
pub(crate) struct Environment {
    /// `HAMLYN_RUN_REPORT`: the file to append a report to.
    pub(crate) report: Option<OsString>,
    /// `HAMLYN_RUN_RING`: bytes of a direction's ring.
    pub(crate) ring: u64,
    /// `HAMLYN_RUN_EXPRESS=no`: all goes by card.
    pub(crate) by_card: bool,
    /// `HAMLYN_RUN_AGREEMENT`: how long the other end may take for each of its steps, in seconds.
    /// Its program has to make a call for them.
    pub(crate) agreement: Duration,
}

/// Returns what stood in the environment when the program began: some programs clear it.
pub(crate) fn get() -> &'static Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let ring = std::env::var("HAMLYN_RUN_RING").ok().and_then(|ring| ring.parse().ok());
        let agreement = std::env::var("HAMLYN_RUN_AGREEMENT").ok().and_then(|limit| limit.parse().ok());
        let express = std::env::var("HAMLYN_RUN_EXPRESS").unwrap_or_default();
        Environment {
            report: std::env::var_os("HAMLYN_RUN_REPORT"),
            ring: ring.unwrap_or(RING).clamp(LEAST, MOST),
            agreement: Duration::from_secs(agreement.unwrap_or(AGREEMENT).min(LONGEST)),
            by_card: ["no", "off", "false", "0"].contains(&express.to_lowercase().as_str()),
        }
    })
}
