//! A BAR whose mapped areas are a part of somebody else's file, which others have mapped, too.

use crate::function::Description;
use rustix::fs::{OFlags, SealFlags, fcntl_get_seals, fcntl_getfl};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use thiserror::Error;
use tracing::debug;

/// The file behind the mapped areas of a BAR: what is at an offset of the BAR is at the same of the
/// file.
///
/// The client is handed all of the file, and trusted to map no more than the areas: QEMU is, its
/// guest is not. This process maps nothing of it.
#[derive(Debug, Clone)]
pub struct Backing {
    /// Which BAR of the function.
    pub bar: usize,
    /// A memfd that is sealed against shrinking, is open for reading and writing, and has all
    /// areas. Not of huge pages.
    pub file: Arc<File>,
}

/// Why a file cannot be behind a BAR.
#[derive(Debug, Error)]
pub enum BackingError {
    /// There is no such BAR.
    #[error("BAR {0}, which is to be backed by a file, does not exist")]
    Bar(usize),
    /// A page that vanished would kill who touches it.
    #[error("the file behind BAR {0} is not a memfd that is sealed against shrinking")]
    Unsealed(usize),
    /// Its pages are of no use to who maps them.
    #[error("the file behind BAR {0} is for reading only")]
    ReadOnly(usize),
    /// The same as for a page that vanished.
    #[error("the file behind BAR {bar} has {size:#x} bytes, and its mapped areas end at {end:#x}")]
    Short {
        /// Which BAR.
        bar: usize,
        /// Bytes of the file.
        size: u64,
        /// Where the last area ends.
        end: u64,
    },
    /// The kernel says nothing about it.
    #[error("the file behind BAR {bar} cannot be examined: {source}")]
    Examine {
        /// Which BAR.
        bar: usize,
        /// What the kernel says.
        source: io::Error,
    },
}

impl Backing {
    /// Whether it can be behind that BAR of a function.
    pub(crate) fn check(&self, description: &Description) -> Result<(), BackingError> {
        let bar = self.bar;
        let failed = |source: io::Error| BackingError::Examine { bar, source };
        let found = description.bars.iter().find(|found| found.index == bar).ok_or(BackingError::Bar(bar))?;
        // Only memory files have seals.
        let seals = fcntl_get_seals(&self.file).map_err(|_| BackingError::Unsealed(bar))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(BackingError::Unsealed(bar));
        }
        let mode = fcntl_getfl(&self.file).map_err(|error| failed(error.into()))? & OFlags::ACCMODE;
        if mode != OFlags::RDWR || seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE) {
            return Err(BackingError::ReadOnly(bar));
        }
        let size = self.file.metadata().map_err(failed)?.len();
        let end = found.areas.last().map_or(0, |area| area.offset + area.size);
        if size < end { Err(BackingError::Short { bar, size, end }) } else { Ok(()) }
    }

    /// The file, for a client that asks for the region.
    pub(crate) fn duplicate_fd(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// What a client reads that does not map. Of a file that has no more memory, zeros.
    pub(crate) fn read(&self, offset: u64, data: &mut [u8]) {
        if let Err(error) = self.file.read_exact_at(data, offset) {
            debug!("{} bytes at {offset:#x} of the file behind BAR {}: {error}", data.len(), self.bar);
        }
    }

    /// What a client writes that does not map. It is lost if there is no memory for it.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) {
        if let Err(error) = self.file.write_all_at(data, offset) {
            debug!("{} bytes at {offset:#x} of the file behind BAR {}: {error}", data.len(), self.bar);
        }
    }
}
