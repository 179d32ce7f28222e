//! One end of two processes' memory.

use std::sync::Arc;
use std::time::Duration;

use super::super::aperture::Aperture;
use super::super::connection::{Connection, Request};
use super::super::descriptor::Descriptor;
use super::super::endpoint::{Address, Endpoint};
use super::super::tripwire::{Tripwire, Watch};
use super::super::window::Window;
use super::DATA;
use crate::error::{Error, Result, at_most, inside};

/// Bytes of the other's memory that are mapped for anybody who asks.
const MAPPED: usize = 64 << 10;

/// One end: memory of this process that the other stores to, a window to the other's memory, and
/// the connection by which each hears of the other's end. Programs share it.
#[derive(Debug)]
pub struct End {
    // Dropped first: nothing is sent once the other cannot answer any more.
    out: Window,
    own: Aperture,
    connection: Connection,
    timeout: Option<Duration>,
}

impl End {
    /// Asks for a connection, tells the other of `own`, which it may write to, and maps what it
    /// tells of. Who waits longer than `timeout` for the other, now or later, is told so; `None`
    /// waits for as long as that is there.
    ///
    /// # Errors
    /// Those of [`Endpoint::connect`] and [`Endpoint::map`]; [`Error::Descriptor`] or
    /// [`Error::Malformed`] if the other tells nonsense; [`Error::OutOfRange`] over 8 MiB.
    pub fn connect(
        endpoint: &Endpoint,
        own: Aperture,
        to: Address,
        timeout: Option<Duration>,
    ) -> Result<Self> {
        let connection = endpoint.connect(to, &own.descriptor()?.to_bytes(), timeout)?;
        let out = map(endpoint, connection.told(), connection.peer())?;
        Self::new(connection, own, out, timeout)
    }

    /// Accepts a connection that was asked for by [`End::connect`]; the end is that of `endpoint`.
    /// What the other has may be as large as `own`, or 64 KiB: window pages are a user's share, and
    /// who asks must not take them all. [`End::accept_up_to`] allows more. Whoever cannot be
    /// accepted is refused.
    ///
    /// # Errors
    /// Those of [`Request::accept`] and [`Endpoint::map`]; [`Error::Descriptor`] or
    /// [`Error::Malformed`] if the other tells nonsense; [`Error::OutOfRange`] if it has more
    /// memory than that.
    pub fn accept(
        request: Request,
        endpoint: &Endpoint,
        own: Aperture,
        timeout: Option<Duration>,
    ) -> Result<Self> {
        let most = own.len().max(MAPPED);
        Self::accept_up_to(request, endpoint, own, most, timeout)
    }

    /// The same, of memory of at most `most` bytes.
    ///
    /// # Errors
    /// Those of [`End::accept`].
    pub fn accept_up_to(
        request: Request,
        endpoint: &Endpoint,
        own: Aperture,
        most: usize,
        timeout: Option<Duration>,
    ) -> Result<Self> {
        let mapped = request.descriptor().and_then(|descriptor| {
            at_most("length of the asker's aperture", descriptor.len(), most as u64)?;
            inside("asker's aperture", 0, DATA as u64, descriptor.len())?;
            endpoint.map(&descriptor, 0, descriptor.len() as usize)
        });
        match mapped {
            Ok(out) => Self::new(request.accept(endpoint, &own.descriptor()?.to_bytes())?, own, out, timeout),
            Err(error) => {
                // If it cannot be told either, its host is lost.
                let _ = request.refuse(b"its memory cannot be mapped");
                Err(error)
            }
        }
    }

    /// Of a connection whose two sides have found each other's memory in another way.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if there is no room for the control words.
    pub fn new(
        connection: Connection,
        own: Aperture,
        out: Window,
        timeout: Option<Duration>,
    ) -> Result<Self> {
        inside("aperture", 0, DATA as u64, own.len() as u64)?;
        inside("window", 0, DATA as u64, out.len() as u64)?;
        Ok(Self { out, own, connection, timeout })
    }

    /// The memory that the other stores to.
    #[must_use]
    pub fn own(&self) -> &Aperture {
        &self.own
    }

    /// The window to the other's.
    #[must_use]
    pub fn out(&self) -> &Window {
        &self.out
    }

    /// The connection.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Closes the connection, behind all that was stored. Gives back what another connection may
    /// use ([`super::super::EndpointCache`]). The programs on it must be dropped before.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a program is on it; [`Error::System`].
    pub fn close(self: Arc<Self>) -> Result<(Endpoint, Aperture)> {
        let end = Arc::try_unwrap(self).map_err(|_| Error::Invalid("a program still uses the end"))?;
        let Self { out, own, connection, .. } = end;
        let endpoint = connection.close(&[])?;
        drop(out);
        Ok((endpoint, own))
    }

    /// A Tripwire over one of the control words.
    pub(super) fn tripwire(&self, word: usize) -> Result<Tripwire> {
        self.connection.endpoint().tripwire(&Watch::local(&self.own, word..word + 8)?)
    }

    /// Waits until `look` finds something in this end's memory: it looks again when one of the bits
    /// is set, and when the other ends.
    pub(super) fn wait_until<T>(
        &self,
        bits: u64,
        what: &'static str,
        look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.connection.wait_until(bits, self.timeout, what, look)
    }

    /// Bytes for messages in this end's memory.
    pub(super) fn own_room(&self) -> usize {
        (self.own.len() - DATA) & !7
    }

    /// Bytes for messages in the other's.
    pub(super) fn out_room(&self) -> usize {
        (self.out.len() - DATA) & !7
    }

    /// What `rx_ready` says, which the other stores: the length of a message, if there is one.
    pub(super) fn rx_ready(&self, capacity: usize) -> Result<Option<usize>> {
        let Some(length) = self.own.load_u64(super::RX_READY)?.checked_sub(1) else { return Ok(None) };
        at_most("length of a message in rx_ready", length, capacity as u64)?;
        Ok(Some(length as usize))
    }
}

/// A window to all of the memory that a peer tells of.
fn map(endpoint: &Endpoint, told: &[u8], peer: Address) -> Result<Window> {
    let descriptor = Descriptor::from_bytes(told)?;
    if descriptor.host() != Some(peer.host) {
        return Err(Error::Malformed("a descriptor of memory that is not at its host"));
    }
    let length = usize::try_from(descriptor.len()).unwrap_or(usize::MAX);
    endpoint.map(&descriptor, 0, length)
}
