//! The card's mapped window and its interrupt lines.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn_abi::hamlyn::window::HAMLYN_WINDOW_SIZE;
use hamlyn_card::ports::{Interrupt, Window};
use hamlyn_sys::Mapping;

use crate::memory::recycled;
use crate::violation::Violation;

/// The mapped BAR: each terminus' window, then the queue control area.
#[derive(Debug)]
pub(crate) struct Pages(Vec<Arc<Mapping>>);

impl Pages {
    pub(crate) fn new(termini: u32, bytes: u64) -> Result<Self, Violation> {
        let each = u64::from(HAMLYN_WINDOW_SIZE);
        let control = bytes - u64::from(termini) * each;
        let sizes = (0..termini).map(|_| each).chain([control]);
        let pages = Self(sizes.map(recycled).collect::<Result<_, _>>()?);
        // The card itself clears a terminus' window when it opens it.
        pages.clear(bytes - control, control);
        Ok(pages)
    }

    /// A terminus' window, as its owner maps it.
    pub(crate) fn of_terminus(&self, terminus: u32) -> Arc<Mapping> {
        self.0[terminus as usize].clone()
    }

    /// A process' store into its own window.
    pub(crate) fn poke(&self, offset: u64, bytes: &[u8]) {
        let (mapping, at) = self.at(offset);
        mapping.write(at, bytes);
    }

    fn at(&self, offset: u64) -> (&Mapping, usize) {
        let each = u64::from(HAMLYN_WINDOW_SIZE);
        let index = ((offset / each) as usize).min(self.0.len() - 1);
        (&self.0[index], (offset - index as u64 * each) as usize)
    }
}

impl Window for Pages {
    fn load(&self, offset: u64) -> u32 {
        let (mapping, at) = self.at(offset);
        mapping.load_u32_acquire(at)
    }

    fn store(&self, offset: u64, value: u32) {
        let (mapping, at) = self.at(offset);
        mapping.store_u32_release(at, value);
    }

    fn copy_out(&self, offset: u64, into: &mut [u8]) {
        let (mapping, at) = self.at(offset);
        mapping.read(at, into);
    }

    fn clear(&self, mut offset: u64, length: u64) {
        let end = offset + length;
        while offset < end {
            let (mapping, at) = self.at(offset);
            let here = (end - offset).min((mapping.length() - at) as u64);
            mapping.write(at, &vec![0; here as usize]);
            offset += here;
        }
    }
}

/// Vectors raised that the driver has not seen yet.
#[derive(Debug, Default)]
pub(crate) struct Vectors(Mutex<Vec<u16>>);

impl Vectors {
    fn raised(&self) -> MutexGuard<'_, Vec<u16>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> Vec<u16> {
        std::mem::take(&mut *self.raised())
    }

    pub(crate) fn count(&self, vector: u16) -> usize {
        self.raised().iter().filter(|raised| **raised == vector).count()
    }
}

impl Interrupt for Vectors {
    fn raise(&self, vector: u16) {
        self.raised().push(vector);
    }
}
