//! Memory lent to the card: sealed memfds that it maps as a VMM's guest memory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hamlyn_abi::hamlyn::command::HAMLYN_MAX_AREA;
use hamlyn_sys::{Access, Mapping};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::client::Client;
use super::{PAGE, own};
use crate::error::{Error, GivenBack, Result, at_most};
use crate::memory::Memory;

/// Where the addresses begin that the card knows our memory by: nothing of a PC lies there.
const FIRST_ADDRESS: u64 = 1 << 32;

/// Lends memory to the card, each piece at addresses of its own.
#[derive(Debug)]
pub(super) struct Lender {
    client: Arc<Client>,
    next: AtomicU64,
}

impl Lender {
    pub(super) fn new(client: Arc<Client>) -> Self {
        Self { client, next: AtomicU64::new(FIRST_ADDRESS) }
    }

    /// Zeroed memory of `length` bytes, in whole pages.
    pub(super) fn lend(&self, length: usize) -> Result<Memory> {
        at_most("memory length", length as u64, HAMLYN_MAX_AREA)?;
        let lend = || -> io::Result<Memory> {
            let size = length.max(1).next_multiple_of(PAGE);
            let file = sealed_file(size)?;
            let mapping = Mapping::of_file(&file, 0, size, Access::ReadWrite)?;
            let loan = self.loan(&file, size)?;
            Ok(Memory::lent(mapping, length, Some(loan.address), Some(Box::new(loan))))
        };
        lend().map_err(Error::system(format!("lend {length} bytes to the card")))
    }

    /// Memory of the application's own: its pages become a file's, at the same place, until it is taken back.
    pub(super) fn lend_own(&self, mut mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
        let length = mapping.length();
        if mapping.address() % PAGE as u64 != 0 || length % PAGE != 0 {
            let error =
                "a card that is attached to by its socket reaches memory in whole pages of 4096 bytes";
            return Err(GivenBack::new(Error::Unsupported(error), mapping));
        }
        let lend = |mapping: &mut Mapping| -> io::Result<Loan> {
            if !own::is_private(mapping.address(), length as u64)? {
                return Err(io::Error::other("it is mapped from a file that others see"));
            }
            let file = sealed_file(length)?;
            let loan = self.loan(&file, length)?;
            mapping.share(&file)?;
            Ok(loan)
        };
        match lend(&mut mapping) {
            Ok(loan) => Ok(Memory::lent(mapping, length, Some(loan.address), Some(Box::new(loan)))),
            Err(error) => {
                let error = Error::system(format!("lend {length} bytes of one's own to the card"))(error);
                Err(GivenBack::new(error, mapping))
            }
        }
    }

    /// Maps a file for the card.
    fn loan(&self, file: &OwnedFd, size: usize) -> io::Result<Loan> {
        let address = self.next.fetch_add(size as u64, Ordering::Relaxed);
        self.client.dma_map(address, size as u64, file.as_fd())?;
        Ok(Loan { client: self.client.clone(), address, size: size as u64 })
    }
}

/// A file in memory whose length stays.
fn sealed_file(size: usize) -> io::Result<OwnedFd> {
    let file = memfd_create("hamlyn", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, size as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// Memory that the card may reach until this is dropped.
#[derive(Debug)]
struct Loan {
    client: Arc<Client>,
    address: u64,
    size: u64,
}

impl Drop for Loan {
    fn drop(&mut self) {
        // A card that is gone has given everything back.
        let _ = self.client.dma_unmap(self.address, self.size);
    }
}
