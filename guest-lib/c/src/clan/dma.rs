//! DMA requests.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use hamlyn::clan::{Requested, Transfer};

use super::aperture::clan_aperture;
use super::descriptor::clan_descriptor;
use super::endpoint::clan_endpoint;
use crate::call::{Failure, at_once, call, count, given, store, timeout, unused, wait};
use crate::memory::items;

/// A transfer from the other host's memory to this process', and not the other way.
pub const CLAN_TRANSFER_READ: u32 = 1;
/// Nobody is told of its end, by an event or otherwise: for one of many, whose last one is waited
/// for.
pub const CLAN_TRANSFER_QUIET: u32 = 2;

/// A transfer between an aperture of this process and one of any host (section 3.4).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_transfer {
    /// Memory of this process, whatever that allows others. It may be destroyed before the transfer
    /// is done.
    pub local: *const clan_aperture,
    /// The other's.
    pub remote: clan_descriptor,
    /// The first byte of this process' memory.
    pub local_offset: u64,
    /// That of the other's.
    pub remote_offset: u64,
    /// How many bytes, 1 byte to 1 GiB.
    pub length: u64,
    /// CLAN_TRANSFER_READ and CLAN_TRANSFER_QUIET; 0 writes to the other's memory.
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

/// Puts `count` requests, at least one, that belong together into an endpoint's queue; if one fails
/// those behind it are skipped. That is no system call if there is room. `request` is the number of
/// the last. Requests of an endpoint are carried out in their order. A write is done when all of it
/// has left; that the other host refused it is a fault of the endpoint. A read is done when its
/// bytes have come. Stores by a window may overtake what is not done yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_dma_put(
    endpoint: Option<&clan_endpoint>,
    transfers: *const clan_transfer,
    count: usize,
    request: Option<&mut MaybeUninit<u64>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (endpoint, to) = (&given(endpoint, "endpoint")?.0, given(request, "request")?);
        let transfers = items(transfers, count, "transfers")?;
        let transfers: Vec<_> = transfers.iter().map(clan_transfer::read).collect::<Result<_, _>>()?;
        let dma = endpoint.dma();
        let put = || dma.put_chain(&transfers);
        let last = wait(timeout_ms, put, |limit| dma.put_wait(&transfers, limit))?;
        store(to, last.0)
    })
}

/// Returns 1 if a request is done, else 0; fails if it has failed: -EPERM if the other host refuses
/// a read, -EHOSTDOWN if it does not answer in time. No system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_dma_is_done(endpoint: Option<&clan_endpoint>, request: u64) -> c_int {
    call(|| Ok(given(endpoint, "endpoint")?.0.dma().is_done(Requested(request))?.into()))
}

/// Waits until a request is done; fails as clan_dma_is_done does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_dma_wait(
    endpoint: Option<&clan_endpoint>,
    request: u64,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let dma = given(endpoint, "endpoint")?.0.dma();
        at_once(timeout_ms, dma.wait(Requested(request), timeout(timeout_ms)).map(|()| 0))
    })
}

/// How many requests of an endpoint have been put and are not done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_dma_in_flight(endpoint: Option<&clan_endpoint>) -> c_int {
    call(|| Ok(count(given(endpoint, "endpoint")?.0.dma().in_flight())))
}
