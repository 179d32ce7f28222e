//! Memory lent to the card: sealed memfds that it maps as a VMM's guest memory.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hamlyn_abi::hamlyn::command::HAMLYN_MAX_AREA;
use hamlyn_sys::{Access, Mapping};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::PAGE;
use super::client::Client;
use crate::error::{Error, Result, at_most};
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
            let file = memfd_create("hamlyn", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            ftruncate(&file, size as u64)?;
            fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
            let mapping = Mapping::of_file(&file, 0, size, Access::ReadWrite)?;
            let address = self.next.fetch_add(size as u64, Ordering::Relaxed);
            self.client.dma_map(address, size as u64, file.as_fd())?;
            let loan = Loan { client: self.client.clone(), address, size: size as u64 };
            Ok(Memory::lent(mapping, length, Some(address), Some(Box::new(loan))))
        };
        lend().map_err(Error::system(format!("lend {length} bytes to the card")))
    }
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
