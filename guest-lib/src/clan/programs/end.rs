//! One end of a connection with shared memory in both directions.

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

/// Maximum size of a requester's memory that is mapped by default, in bytes.
const MAPPED: usize = 64 << 10;

/// One end of a connection: memory of this process that the peer stores to, a window to the peer's
/// memory, and the connection itself. The connection notifies each side when the other ends.
/// Several programs can share an end.
#[derive(Debug)]
pub struct End {
    // Dropped first: nothing is sent after the peer can no longer answer.
    out: Window,
    own: Aperture,
    connection: Connection,
    timeout: Option<Duration>,
}

impl End {
    /// Requests a connection, sends the descriptor of `own`, which the peer may write to, and maps
    /// the peer's memory. Blocks until the peer answers.
    ///
    /// # Errors
    /// Same as [`Endpoint::connect`] and [`Endpoint::map`]; [`crate::clan::DescriptorError`] or
    /// [`Error::Malformed`] if the peer's data is not a valid descriptor; [`Error::OutOfRange`] if
    /// its memory is over 8 MiB.
    pub fn connect(endpoint: &Endpoint, own: Aperture, to: Address) -> Result<Self> {
        let connection = endpoint.connect(to, &own.descriptor()?.to_bytes())?;
        Self::connected(endpoint, own, connection)
    }

    /// As [`End::connect`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`End::connect`].
    pub fn connect_timeout(
        endpoint: &Endpoint,
        own: Aperture,
        to: Address,
        timeout: Duration,
    ) -> Result<Self> {
        let connection = endpoint.connect_timeout(to, &own.descriptor()?.to_bytes(), timeout)?;
        Self::connected(endpoint, own, connection)
    }

    fn connected(endpoint: &Endpoint, own: Aperture, connection: Connection) -> Result<Self> {
        let out = map(endpoint, connection.told(), connection.peer())?;
        Self::new(connection, own, out)
    }

    /// Limits each later wait for the peer: it fails with [`Error::TimedOut`] after `timeout`. By
    /// default a wait lasts until the peer is gone.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Accepts a request of [`End::connect`] on `endpoint`, or refuses it on failure.
    ///
    /// The peer's memory may be as large as `own`, or 64 KiB if that is more. Window pages are
    /// limited for each user, so a requester must not be able to take all of them.
    /// [`End::accept_up_to`] allows more.
    ///
    /// # Errors
    /// Same as [`Request::accept`] and [`Endpoint::map`]; [`crate::clan::DescriptorError`] or
    /// [`Error::Malformed`] if the peer's data is not a valid descriptor; [`Error::OutOfRange`] if
    /// its memory is larger than allowed.
    pub fn accept(request: Request, endpoint: &Endpoint, own: Aperture) -> Result<Self> {
        let most = own.len().max(MAPPED);
        Self::accept_up_to(request, endpoint, own, most)
    }

    /// Accepts a request like [`End::accept`], if the peer's memory has at most `most` bytes.
    ///
    /// # Errors
    /// Same as [`End::accept`].
    pub fn accept_up_to(request: Request, endpoint: &Endpoint, own: Aperture, most: usize) -> Result<Self> {
        let mapped = request.descriptor().and_then(|descriptor| {
            at_most("length of the asker's aperture", descriptor.len(), most as u64)?;
            inside("asker's aperture", 0, DATA as u64, descriptor.len())?;
            endpoint.map(&descriptor, 0, descriptor.len() as usize)
        });
        match mapped {
            Ok(out) => Self::new(request.accept(endpoint, &own.descriptor()?.to_bytes())?, own, out),
            Err(error) => {
                // If the refusal cannot be sent either, the requester's host is lost.
                let _ = request.refuse(b"its memory cannot be mapped");
                Err(error)
            }
        }
    }

    /// Creates an end from a connection whose two sides have exchanged their memory in another way.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if there is no room for the control words.
    pub fn new(connection: Connection, own: Aperture, out: Window) -> Result<Self> {
        inside("aperture", 0, DATA as u64, own.len() as u64)?;
        inside("window", 0, DATA as u64, out.len() as u64)?;
        Ok(Self { out, own, connection, timeout: None })
    }

    /// Returns the memory that the peer stores to.
    #[must_use]
    pub fn own(&self) -> &Aperture {
        &self.own
    }

    /// Returns the window to the peer's memory.
    #[must_use]
    pub fn out(&self) -> &Window {
        &self.out
    }

    /// Returns the connection.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Closes the connection after everything that was stored. Returns the resources for reuse by
    /// another connection ([`super::super::EndpointCache`]). All programs on this end must be
    /// dropped before.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a program still uses the end; [`Error::System`].
    pub fn close(self: Arc<Self>) -> Result<(Endpoint, Aperture)> {
        let end = Arc::try_unwrap(self).map_err(|_| Error::Invalid("a program still uses the end"))?;
        let Self { out, own, connection, .. } = end;
        let endpoint = connection.close(&[])?;
        drop(out);
        Ok((endpoint, own))
    }

    /// Sets a Tripwire over one of the control words.
    pub(super) fn tripwire(&self, word: usize) -> Result<Tripwire> {
        self.connection.endpoint().tripwire(&Watch::local(&self.own, word..word + 8)?)
    }

    /// Blocks until `look` finds something in this end's memory. It is called again when one of the
    /// bits is set, and when the peer ends.
    pub(super) fn wait_until<T>(
        &self,
        bits: u64,
        what: &'static str,
        look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.connection.wait_until(bits, self.timeout, what, look)
    }

    /// Returns the number of bytes for messages in this end's memory.
    pub(super) fn own_room(&self) -> usize {
        (self.own.len() - DATA) & !7
    }

    /// Returns the number of bytes for messages in the peer's memory.
    pub(super) fn out_room(&self) -> usize {
        (self.out.len() - DATA) & !7
    }

    /// Loads `rx_ready`, which the peer stores: the length of a message, if there is one.
    pub(super) fn rx_ready(&self, capacity: usize) -> Result<Option<usize>> {
        let Some(length) = self.own.load_u64(super::RX_READY)?.checked_sub(1) else { return Ok(None) };
        at_most("length of a message in rx_ready", length, capacity as u64)?;
        Ok(Some(length as usize))
    }
}

/// Maps all of the memory in a peer's descriptor.
fn map(endpoint: &Endpoint, told: &[u8], peer: Address) -> Result<Window> {
    let descriptor = Descriptor::from_bytes(told)?;
    if descriptor.host() != Some(peer.host) {
        return Err(Error::Malformed("a descriptor of memory that is not at its host"));
    }
    let length = usize::try_from(descriptor.len()).unwrap_or(usize::MAX);
    endpoint.map(&descriptor, 0, length)
}
