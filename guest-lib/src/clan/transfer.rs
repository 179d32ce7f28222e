//! Transfers by DMA.

use std::sync::Arc;

use hamlyn_abi::clan::dma::*;

use super::aperture::{self, Aperture};
use super::descriptor::Descriptor;
use crate::error::{Error, Result, at_most, inside};

/// A transfer between an aperture of this process and an aperture of any host.
#[derive(Debug, Clone)]
#[must_use]
pub struct Transfer {
    request: ClanRequest,
    local: Arc<aperture::Parts>,
}

impl Transfer {
    /// Writes from `offset` of this process' memory to `to_offset` of the remote memory. The local
    /// aperture may have any access rights.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::OutOfRange`] if `length` is over 1 GiB; [`Error::Invalid`] if
    /// it is 0.
    pub fn write(
        from: &Aperture,
        offset: usize,
        to: &Descriptor,
        to_offset: u64,
        length: usize,
    ) -> Result<Self> {
        Self::new(CLAN_DMA_WRITE, (from, offset), (to, to_offset), length)
    }

    /// Reads from `from_offset` of the remote memory to `offset` of this process' memory. The local
    /// aperture may have any access rights.
    ///
    /// # Errors
    /// Same as [`Transfer::write`]; [`Error::Unsupported`] if `from` is a group.
    pub fn read(
        to: &Aperture,
        offset: usize,
        from: &Descriptor,
        from_offset: u64,
        length: usize,
    ) -> Result<Self> {
        if from.is_group() {
            return Err(Error::Unsupported("a group is written to, and never read"));
        }
        Self::new(CLAN_DMA_READ, (to, offset), (from, from_offset), length)
    }

    fn new(
        opcode: u32,
        (local, local_offset): (&Aperture, usize),
        (remote, offset): (&Descriptor, u64),
        length: usize,
    ) -> Result<Self> {
        if length == 0 {
            return Err(Error::Invalid("a transfer has at least one byte"));
        }
        let bytes = length as u64;
        at_most("transfer length", bytes, CLAN_MAX_TRANSFER)?;
        inside("aperture", local_offset as u64, bytes, local.len() as u64)?;
        inside("aperture of the other host", offset, bytes, remote.length)?;
        let request = ClanRequest {
            opcode,
            flags: CLAN_DMA_NOTIFY,
            local_aperture: local.number(),
            local_offset: local_offset as u64,
            host: remote.host,
            aperture: remote.aperture,
            key: remote.key,
            offset,
            length: bytes,
            ..ClanRequest::default()
        };
        Ok(Self { request, local: local.parts().clone() })
    }

    /// Suppresses the notification of its completion, including the event. For all but the last
    /// transfer of a batch, where only the last one is waited for.
    pub fn quiet(mut self) -> Self {
        self.request.flags &= !CLAN_DMA_NOTIFY;
        self
    }

    pub(super) fn request(&self) -> ClanRequest {
        self.request
    }

    /// Returns the local memory, which must stay until the request is complete.
    pub(super) fn local(&self) -> &Arc<aperture::Parts> {
        &self.local
    }
}
