//! How two programs find each other: one opens a port, the other asks each host for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use hamlyn::clan::programs::End;
use hamlyn::clan::{Address, Card, Endpoint, EndpointBuilder, Rights};
use hamlyn::{EndReason, Error, ErrorKind};
use serde_json::json;

use crate::common::{Outcome, print};

/// Time a host has to answer, and delay before all hosts are asked again.
const ANSWER: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The listener's port
    #[arg(long, default_value_t = 1500, global = true)]
    port: u32,
    /// The host to ask; else all hosts
    #[arg(long, global = true)]
    host: Option<u32>,
    /// Seconds to wait for anything
    #[arg(long, default_value_t = 30, global = true)]
    timeout: u64,
}

impl Options {
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// Opens the port and prints it.
    pub(crate) fn listen(&self, card: &Card) -> Outcome<Endpoint> {
        let listener = card.endpoint_builder().port(self.port).open()?;
        print(&json!({ "listening": self.port, "host": card.host()? }))?;
        Ok(listener)
    }

    /// Waits for a connection request, with `length` bytes of own memory.
    pub(crate) fn accept(&self, card: &Card, listener: &Endpoint, length: usize) -> Outcome<Arc<End>> {
        let request = listener.accept_timeout(self.patience())?;
        let (endpoint, own) = (card.endpoint()?, card.aperture(length, Rights::ReadWrite)?);
        Ok(Arc::new(End::accept(request, &endpoint, own)?.with_timeout(self.patience())))
    }

    /// Asks the hosts, with `length` bytes of own memory, until one has the port open.
    pub(crate) fn connect(&self, card: &Card, length: usize) -> Outcome<Arc<End>> {
        self.connect_by(card, &card.endpoint_builder(), length)
    }

    /// Like `connect`, with an endpoint from `builder`.
    pub(crate) fn connect_by(
        &self,
        card: &Card,
        builder: &EndpointBuilder,
        length: usize,
    ) -> Outcome<Arc<End>> {
        let begun = Instant::now();
        loop {
            let hosts = self.host.map_or(card.hosts()?, |host| host..host + 1);
            for host in hosts {
                if let Some(end) = self.ask(card, builder, Address { host, port: self.port }, length)? {
                    return Ok(Arc::new(end));
                }
            }
            if begun.elapsed() > Duration::from_secs(self.timeout) {
                return Err(format!("no host has port {}", self.port).into());
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn ask(
        &self,
        card: &Card,
        builder: &EndpointBuilder,
        to: Address,
        length: usize,
    ) -> Outcome<Option<End>> {
        let (endpoint, own) = (builder.open()?, card.aperture(length, Rights::ReadWrite)?);
        let patience = if self.host.is_some() { self.patience() } else { ANSWER };
        match End::connect_timeout(&endpoint, own, to, patience) {
            Ok(end) => Ok(Some(end.with_timeout(patience))),
            Err(error) if is_passing(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns whether a later attempt may succeed: the port is not open yet, or too many messages wait
/// for its host. A rejection is final.
fn is_passing(error: &Error) -> bool {
    let is_refused = matches!(error, Error::Ended(end) if end.reason == EndReason::Rejected);
    !is_refused && matches!(error.kind(), ErrorKind::PeerLost | ErrorKind::TimedOut | ErrorKind::WouldBlock)
}
