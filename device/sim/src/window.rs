//! The card's mapped window and its interrupt lines.

use std::cell::RefCell;

use hamlyn_models::ports::{Interrupt, Window};

/// The mapped BAR.
#[derive(Debug)]
pub(crate) struct Pages(RefCell<Vec<u8>>);

impl Pages {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(RefCell::new(vec![0; bytes]))
    }

    /// A process' store into its own window.
    pub(crate) fn poke(&self, offset: u64, bytes: &[u8]) {
        self.0.borrow_mut()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
}

impl Window for Pages {
    fn load(&self, offset: u64) -> u32 {
        let (bytes, at) = (self.0.borrow(), offset as usize);
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    fn store(&self, offset: u64, value: u32) {
        self.poke(offset, &value.to_le_bytes());
    }

    fn copy_out(&self, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow()[offset as usize..][..into.len()]);
    }

    fn clear(&self, offset: u64, length: u64) {
        self.0.borrow_mut()[offset as usize..][..length as usize].fill(0);
    }
}

/// Vectors raised that the driver has not seen yet.
#[derive(Debug, Default)]
pub(crate) struct Vectors(RefCell<Vec<u16>>);

impl Vectors {
    pub(crate) fn take(&self) -> Vec<u16> {
        std::mem::take(&mut self.0.borrow_mut())
    }

    pub(crate) fn count(&self, vector: u16) -> usize {
        self.0.borrow().iter().filter(|raised| **raised == vector).count()
    }
}

impl Interrupt for Vectors {
    fn raise(&self, vector: u16) {
        self.0.borrow_mut().push(vector);
    }
}
