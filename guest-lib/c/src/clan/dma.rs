//! DMA requests.

use std::ffi::c_int;

use hamlyn::clan::{Requested, Transfer};

use super::aperture::clan_aperture;
use super::descriptor::clan_descriptor;
use super::endpoint::clan_endpoint;
use crate::call::{Failure, unused, waited};
use crate::exported::{Out, exported};
use crate::memory::items;

/// Transfers from the other host's memory to this process' memory, instead of the other way.
pub const CLAN_TRANSFER_READ: u32 = 1;
/// Reports no completion, neither by an event nor otherwise: for a request in a series of which
/// only the last is waited for.
pub const CLAN_TRANSFER_QUIET: u32 = 2;

/// A transfer between an aperture of this process and one of any host (section 3.4).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_transfer {
    /// An aperture of this process, regardless of the rights that it gives to others. It may be
    /// destroyed before the transfer is complete.
    pub local: *const clan_aperture,
    /// The other host's aperture.
    pub remote: clan_descriptor,
    /// Offset of the first byte in this process' memory.
    pub local_offset: u64,
    /// Offset of the first byte in the other host's memory.
    pub remote_offset: u64,
    /// Number of bytes, 1 byte to 1 GiB.
    pub length: u64,
    /// CLAN_TRANSFER_READ and CLAN_TRANSFER_QUIET; 0 writes to the other host's memory.
    pub flags: u32,
    /// Must be 0.
    pub reserved: [u32; 3],
}

impl clan_transfer {
    fn read(&self) -> Result<Transfer, Failure> {
        unused(&self.reserved)?;
        if self.flags & !(CLAN_TRANSFER_READ | CLAN_TRANSFER_QUIET) != 0 {
            return Err(Failure::argument(format!("transfer flags {:#x} are unknown", self.flags)));
        }
        let local = items(self.local, 1, "local aperture of a transfer")?;
        let (local, remote) = (&local[0].0, self.remote.read()?);
        let number = |value| usize::try_from(value).unwrap_or(usize::MAX);
        let (offset, length) = (number(self.local_offset), number(self.length));
        let transfer = if self.flags & CLAN_TRANSFER_READ != 0 {
            Transfer::read(local, offset, &remote, self.remote_offset, length)?
        } else {
            Transfer::write(local, offset, &remote, self.remote_offset, length)?
        };
        Ok(if self.flags & CLAN_TRANSFER_QUIET != 0 { transfer.quiet() } else { transfer })
    }
}

exported! {
/// Enqueues a chain of `count` requests, at least one, at an endpoint. If one fails, those after it
/// are skipped. Makes no system call if there is room. Stores the number of the last request in
/// `request`.
///
/// An endpoint's requests are executed in order. A write is complete when all of it has been sent;
/// if the other host refuses it, the endpoint gets a fault. A read is complete when its bytes have
/// arrived. Stores through a window may overtake requests that are not complete.
fn clan_dma_put(
    endpoint: &clan_endpoint,
    transfers: *const clan_transfer,
    count: usize,
    request: Out<u64>,
    timeout_ms: c_int,
) {
    let transfers = items(transfers, count, "transfers")?;
    let transfers: Vec<_> = transfers.iter().map(clan_transfer::read).collect::<Result<_, _>>()?;
    let dma = endpoint.0.dma();
    request.store(waited!(timeout_ms, dma => try_put_chain / put_chain / put_chain_timeout(&transfers))?.0)
}

/// Returns 1 if a request is complete, else 0. Fails if the request has failed: with -EPERM if the
/// other host refuses a read, and with -EHOSTDOWN if it does not answer in time. Makes no system
/// call.
fn clan_dma_is_done(endpoint: &clan_endpoint, request: u64) {
    endpoint.0.dma().is_done(Requested(request))?
}

/// Waits until a request is complete. Fails like clan_dma_is_done.
fn clan_dma_wait(endpoint: &clan_endpoint, request: u64, timeout_ms: c_int) {
    let dma = endpoint.0.dma();
    waited!(timeout_ms, dma => wait / wait_timeout(Requested(request)))?
}

/// Returns the number of requests of an endpoint that were enqueued and are not complete.
fn clan_dma_in_flight(endpoint: &clan_endpoint) {
    endpoint.0.dma().in_flight()
}
}
