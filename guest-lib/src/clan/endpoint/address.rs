//! Addresses of endpoints.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result, at_most};

/// The address of an endpoint, for sending and receiving messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The host id.
    pub host: u32,
    /// The port at that host, 1 to 65,535.
    pub port: u32,
}

/// `host:port`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers =
            text.split_once(':').and_then(|(host, port)| Some((host.parse().ok()?, port.parse().ok()?)));
        let (host, port) = numbers.ok_or(Error::Invalid("an address is a host id, a colon, and a port"))?;
        at_most("port", u64::from(port), 0xffff)?;
        Ok(Self { host, port })
    }
}
