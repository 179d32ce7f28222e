//! All that a process can do to another's memory, as fast as it can, until it is killed.

use hamlyn::clan::*;

use crate::common::Outcome;

/// Stores between two loads.
const STORES: u64 = 64;

/// What is refused, or finds no room, is done again.
pub(crate) fn storm<T>(dma: &Dma, window: &Window, own: &Aperture) -> Outcome<T> {
    let length = own.len().min(window.len());
    let there = window.descriptor();
    let write = Transfer::write(own, 0, there, 0, length)?.quiet();
    let read = Transfer::read(own, 0, there, 0, length)?.quiet();
    for round in 0.. {
        for store in 0..STORES {
            window.store_u64(store as usize * 8 % (length / 8 * 8), round)?;
        }
        let _ = dma.put(&write);
        let _ = dma.put(&read);
        let _ = window.load_u64(0);
    }
    Err("it has no end".into())
}
