//! A BAR whose mapped areas are part of a file from outside, which others also map.

use crate::description::Description;
use rustix::fs::{OFlags, SealFlags, fcntl_get_seals, fcntl_getfl};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use thiserror::Error;
use tracing::debug;

/// The file behind the mapped areas of a BAR. An offset in the BAR is the same offset in the file.
///
/// The client gets the whole file, and is trusted to map only the areas: QEMU is trusted, its guest
/// is not. This process does not map the file.
#[derive(Debug, Clone)]
pub struct Backing {
    /// Index of the function's BAR.
    pub bar: usize,
    /// A memfd that is sealed against shrinking, is open for reading and writing, and contains all
    /// areas. It does not use huge pages.
    pub file: Arc<File>,
}

/// Why a file cannot back a BAR.
#[derive(Debug, Error)]
pub enum BackingError {
    /// The BAR does not exist.
    #[error("BAR {0}, which is to be backed by a file, does not exist")]
    Bar(usize),
    /// The file can shrink, and an access to a page that is gone would kill the process.
    #[error("the file behind BAR {0} is not a memfd that is sealed against shrinking")]
    Unsealed(usize),
    /// The file is not writable, so clients cannot use its pages.
    #[error("the file behind BAR {0} is for reading only")]
    ReadOnly(usize),
    /// The file does not contain all areas. An access past its end would kill the process.
    #[error("the file behind BAR {bar} has {size:#x} bytes, and its mapped areas end at {end:#x}")]
    Short {
        /// Index of the BAR.
        bar: usize,
        /// Size of the file in bytes.
        size: u64,
        /// End of the last area.
        end: u64,
    },
    /// The kernel does not report the file's state.
    #[error("the file behind BAR {bar} cannot be examined: {source}")]
    Examine {
        /// Index of the BAR.
        bar: usize,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Backing {
    /// Checks that the file can back that BAR of a function.
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

    /// Returns the file, for a client that asks for the region.
    pub(crate) fn duplicate_fd(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Reads for a client that does not map the file. Leaves zeros if the host cannot allocate the
    /// file's pages.
    pub(crate) fn read(&self, offset: u64, data: &mut [u8]) {
        if let Err(error) = self.file.read_exact_at(data, offset) {
            debug!("{} bytes at {offset:#x} of the file behind BAR {}: {error}", data.len(), self.bar);
        }
    }

    /// Writes for a client that does not map the file. The data is lost if there is no memory for
    /// it.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) {
        if let Err(error) = self.file.write_all_at(data, offset) {
            debug!("{} bytes at {offset:#x} of the file behind BAR {}: {error}", data.len(), self.bar);
        }
    }
}
