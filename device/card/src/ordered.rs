//! Writes to host memory that its processors observe in address order.
//!
//! A library's copy guarantees no order: a processor that polls the last word may see it before the
//! words in front of it.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use vm_memory::{VolatileMemory, VolatileSlice};

use crate::ports::{Dma, DmaFault, barrier_before_overwriting};

/// Writes `bytes`, which lie within one page, in address order. Each aligned word, or part of a
/// word, is one store.
pub fn write_in_order(dma: &dyn Dma, address: u64, bytes: &[u8]) -> Result<(), DmaFault> {
    let lent = dma.lend_to_write(address, bytes.len())?;
    let mut done = 0;
    while done < bytes.len() {
        let width = width(address + done as u64, bytes.len() - done);
        let piece = &bytes[done..done + width];
        match &lent {
            Some(memory) => store(memory, done, piece),
            None => {
                barrier_before_overwriting();
                dma.write(address + done as u64, VolatileSlice::from(&mut piece.to_vec()[..]))?;
            }
        }
        done += width;
    }
    Ok(())
}

/// Returns the width of the next store at `address`, with `left` bytes left.
fn width(address: u64, left: usize) -> usize {
    [8, 4, 2].into_iter().find(|width| address % *width as u64 == 0 && *width <= left).unwrap_or(1)
}

/// Stores `piece` after all earlier stores (release).
fn store(memory: &VolatileSlice<'_>, at: usize, piece: &[u8]) {
    let mut value = [0; 8];
    value[..piece.len()].copy_from_slice(piece);
    let value = u64::from_le_bytes(value);
    let order = Ordering::Release;
    // The lent memory begins at the address and has the same alignment.
    let stored = match piece.len() {
        8 => memory.get_atomic_ref::<AtomicU64>(at).map(|word| word.store(value, order)),
        4 => memory.get_atomic_ref::<AtomicU32>(at).map(|word| word.store(value as u32, order)),
        2 => memory.get_atomic_ref::<AtomicU16>(at).map(|word| word.store(value as u16, order)),
        _ => memory.get_atomic_ref::<AtomicU8>(at).map(|word| word.store(value as u8, order)),
    };
    debug_assert!(stored.is_ok(), "memory that is lent is aligned as its address is");
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::ports::Operation;

    /// Host memory that cannot be lent, and that records each write.
    #[derive(Default)]
    struct Noted(RefCell<Vec<(u64, Vec<u8>)>>);

    impl Dma for Noted {
        fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
            Err(DmaFault { address, length: into.len() as u64 })
        }

        fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
            Err(DmaFault { address, length: length as u64 })
        }

        fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
            let mut piece = vec![0; from.len()];
            from.copy_to(&mut piece[..]);
            self.0.borrow_mut().push((address, piece));
            Ok(())
        }

        fn publish(&self, address: u64, _: u32) -> Result<(), DmaFault> {
            Err(DmaFault { address, length: 4 })
        }

        fn fetch(&self, address: u64, _: Operation) -> Result<u64, DmaFault> {
            Err(DmaFault { address, length: 8 })
        }
    }

    #[test]
    fn words_are_written_in_the_order_of_addresses() {
        let bytes: Vec<u8> = (1..=27).collect();
        let noted = Noted::default();
        write_in_order(&noted, 0x1003, &bytes).unwrap();
        let places: Vec<(u64, usize)> =
            noted.0.borrow().iter().map(|(at, piece)| (*at, piece.len())).collect();
        assert_eq!(places, [(0x1003, 1), (0x1004, 4), (0x1008, 8), (0x1010, 8), (0x1018, 4), (0x101c, 2)]);
        assert_eq!(noted.0.borrow().iter().flat_map(|(_, piece)| piece.clone()).collect::<Vec<u8>>(), bytes);
    }
}
