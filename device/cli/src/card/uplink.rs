//! The link to the switch. When the switch goes the card stays, and asks for its port again until it has it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use hamlyn_fabric::{Header, HostId, Link, Protocol, Record, connect};
use hamlyn_models::ports::{self, VolatileSlice};

/// How long the switch may take to answer. The machine waits meanwhile: far below its time-out.
const HANDSHAKE: Duration = Duration::from_millis(250);

/// The card's end of its link to the switch.
pub(super) struct Uplink {
    switch: PathBuf,
    /// The largest packet that the card sends.
    largest: usize,
    /// The host id that it asks for: what a person chose, then what it had.
    wanted: Option<HostId>,
    link: Option<Link>,
    /// The switch hung up, or scribbled on the rings.
    lost: bool,
}

impl Uplink {
    pub(super) fn new(switch: PathBuf, wanted: Option<u16>, largest: usize) -> Self {
        Self { switch, largest, wanted: wanted.map(HostId), link: None, lost: false }
    }

    /// Asks the switch for a port.
    pub(super) fn connect(&mut self) -> anyhow::Result<HostId> {
        let attached = connect(&self.switch, self.wanted, HANDSHAKE)
            .with_context(|| format!("cannot link to the switch at {}", self.switch.display()))?;
        let most = attached.link.max_packet();
        ensure!(
            self.largest <= most,
            "a packet of {} bytes is over the switch's limit of {most}",
            self.largest
        );
        self.wanted = Some(attached.host);
        self.lost = false;
        self.link = Some(attached.link);
        Ok(attached.host)
    }

    pub(super) fn host(&self) -> Option<u16> {
        self.link.as_ref().and(self.wanted).map(|host| host.0)
    }

    pub(super) fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    /// The switch has hung up, or broken the link.
    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// The link, if it is of no use any more.
    pub(super) fn take_lost(&mut self) -> Option<Link> {
        std::mem::take(&mut self.lost).then(|| self.link.take()).flatten()
    }

    /// The next packet that has arrived.
    pub(super) fn peek(&mut self) -> Option<Record<'_>> {
        match self.link.as_mut()?.peek() {
            Ok(record) => record,
            Err(error) => {
                tracing::error!("the switch broke the link: {error}");
                self.lost = true;
                None
            }
        }
    }

    pub(super) fn consume(&mut self) {
        if let Some(link) = &mut self.link {
            link.consume();
        }
    }

    /// Declares the card asleep on its link; `false` if something came meanwhile.
    pub(super) fn sleep(&mut self, for_room: bool) -> bool {
        let Some(link) = &mut self.link else { return true };
        let slept = match for_room {
            true => link.sleep_for_room().and_then(|room| Ok(room && link.sleep_for_records()?)),
            false => link.sleep_for_records(),
        };
        slept.unwrap_or_else(|error| {
            tracing::error!("the switch broke the link: {error}");
            self.lost = true;
            false
        })
    }
}

impl ports::Link for Uplink {
    fn reserve(&mut self, destination: u16, length: usize) -> Option<VolatileSlice<'_>> {
        let host = self.host()?;
        // The switch writes the source itself.
        let header =
            Header { destination: HostId(destination), source: HostId(host), protocol: Protocol::Hamlyn };
        match self.link.as_mut()?.reserve(header, length) {
            Ok(room) => room,
            Err(error) => {
                tracing::error!("the switch broke the link: {error}");
                self.lost = true;
                None
            }
        }
    }

    fn commit(&mut self) {
        if let Some(link) = &mut self.link {
            link.commit();
        }
    }
}
