//! Accesses another process' memory in every possible way, as fast as it can, until it is killed.

use hamlyn::clan::*;

use crate::common::Outcome;

/// Number of stores between two loads.
const STORES: u64 = 64;

/// Retries operations that are refused or find no room.
pub(crate) fn storm<T>(dma: &Dma, window: &Window, own: &Aperture) -> Outcome<T> {
    let length = own.len().min(window.len());
    let there = window.descriptor();
    let write = Transfer::write(own, 0, there, 0, length)?.quiet();
    let read = Transfer::read(own, 0, there, 0, length)?.quiet();
    for round in 0.. {
        for store in 0..STORES {
            window.store_u64(store as usize * 8 % (length / 8 * 8), round)?;
        }
        let _ = dma.try_put(&write);
        let _ = dma.try_put(&read);
        let _ = window.load_u64(0);
    }
    Err("it has no end".into())
}
