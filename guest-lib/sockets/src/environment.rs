//! What hamlyn-run says to this library.

use std::ffi::OsString;
use std::sync::OnceLock;

/// Default size of a direction's ring, and its limits.
const RING: u64 = 60 << 10;
const LEAST: u64 = 4096;
const MOST: u64 = (16 << 20) - 4096;

#[derive(Debug)]
pub(crate) struct Environment {
    /// `HAMLYN_RUN_REPORT`: the file to append a report to.
    pub(crate) report: Option<OsString>,
    /// `HAMLYN_RUN_RING`: bytes of a direction's ring.
    pub(crate) ring: u64,
    /// `HAMLYN_RUN_EXPRESS=no`: all goes by card.
    pub(crate) by_card: bool,
}

/// Returns what stood in the environment when the program began: some programs clear it.
pub(crate) fn get() -> &'static Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let ring = std::env::var("HAMLYN_RUN_RING").ok().and_then(|ring| ring.parse().ok());
        let express = std::env::var("HAMLYN_RUN_EXPRESS").unwrap_or_default();
        Environment {
            report: std::env::var_os("HAMLYN_RUN_REPORT"),
            ring: ring.unwrap_or(RING).clamp(LEAST, MOST),
            by_card: ["no", "off", "false", "0"].contains(&express.to_lowercase().as_str()),
        }
    })
}
