//! Memory lent to the card: sealed memfds, which the card maps like a VMM's guest memory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn_abi::family::area::ULN_MAX_AREA;
use hamlyn_sys::{Access, Mapping};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};

use super::client::Client;
use super::{PAGE, own};
use crate::core::free::Free;
use crate::core::memory::Memory;
use crate::error::{Error, GivenBack, Result, at_most};

/// First address of lent memory in the card's address space. A PC has nothing there.
const FIRST_ADDRESS: u64 = 1 << 32;

/// Size of the first shared file in bytes; each further file is twice as long, up to the maximum.
const FIRST_FILE: usize = 1 << 20;
const LONGEST_FILE: usize = 64 << 20;

/// Lends memory to the card, each piece at its own addresses. Short pieces are parts of shared
/// files, because a card accepts only a few files: a virtual machine has one or two.
#[derive(Debug)]
pub(crate) struct Lender {
    client: Arc<Client>,
    next: AtomicU64,
    shared: Mutex<Vec<Arc<SharedFile>>>,
}

/// A file whose parts are lent separately.
#[derive(Debug)]
struct SharedFile {
    loan: Loan,
    file: OwnedFd,
    size: usize,
    free: Mutex<Free>,
}

/// A part of a shared file, until dropped.
#[derive(Debug)]
struct Part {
    of: Arc<SharedFile>,
    start: usize,
    size: usize,
}

impl Lender {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self { client, next: AtomicU64::new(FIRST_ADDRESS), shared: Mutex::default() }
    }

    /// Lends zeroed memory of `length` bytes, in whole pages.
    pub(crate) fn lend(&self, length: usize) -> Result<Memory> {
        at_most("memory length", length as u64, ULN_MAX_AREA)?;
        let size = length.max(1).next_multiple_of(PAGE);
        let lend =
            || if size < FIRST_FILE { self.lend_part(length, size) } else { self.lend_file(length, size) };
        lend().map_err(Error::system(format!("lend {length} bytes to the card")))
    }

    /// Lends a whole file.
    fn lend_file(&self, length: usize, size: usize) -> io::Result<Memory> {
        let file = sealed_file(size)?;
        let mapping = Mapping::of_file(&file, 0, size, Access::ReadWrite)?;
        let loan = self.loan(&file, size)?;
        Ok(Memory::lent(mapping, length, Some(loan.address), Some(Box::new(loan))))
    }

    /// Lends a part of a shared file.
    fn lend_part(&self, length: usize, size: usize) -> io::Result<Memory> {
        let part = self.take_part(size)?;
        let mapping = Mapping::of_file(&part.of.file, part.start as u64, size, Access::ReadWrite)?;
        let address = part.of.loan.address + part.start as u64;
        Ok(Memory::lent(mapping, length, Some(address), Some(Box::new(part))))
    }

    fn take_part(&self, size: usize) -> io::Result<Part> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = shared.iter().find_map(|file| file.take(size)) {
            return Ok(part);
        }
        let next = shared.last().map_or(FIRST_FILE, |last| (2 * last.size).min(LONGEST_FILE));
        let file = sealed_file(next)?;
        let (loan, free) = (self.loan(&file, next)?, Mutex::new(Free::all(next)));
        let file = Arc::new(SharedFile { loan, file, size: next, free });
        shared.push(file.clone());
        file.take(size).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Lends application memory. A file's pages replace its pages at the same address, until it is
    /// taken back.
    pub(crate) fn lend_own(&self, mut mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
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

    /// Maps a file into the card's address space.
    fn loan(&self, file: &OwnedFd, size: usize) -> io::Result<Loan> {
        let address = self.next.fetch_add(size as u64, Ordering::Relaxed);
        self.client.dma_map(address, size as u64, file.as_fd())?;
        Ok(Loan { client: self.client.clone(), address, size: size as u64 })
    }
}

impl SharedFile {
    fn take(self: &Arc<Self>, size: usize) -> Option<Part> {
        let start = self.free().take(size)?;
        Some(Part { of: self.clone(), start, size })
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Return the pages to the system, so that the next user finds zeros. If that fails, the
        // part is not reused.
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(&self.of.file, hole, self.start as u64, self.size as u64).is_ok() {
            self.of.free().give(self.start, self.size);
        }
    }
}

/// Creates a memory file of fixed size.
fn sealed_file(size: usize) -> io::Result<OwnedFd> {
    let file = memfd_create("hamlyn", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, size as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// Memory that the card can reach until this is dropped.
#[derive(Debug)]
struct Loan {
    client: Arc<Client>,
    address: u64,
    size: u64,
}

impl Drop for Loan {
    fn drop(&mut self) {
        // A card that is gone has released everything.
        let _ = self.client.dma_unmap(self.address, self.size);
    }
}
