//! Accesses of a message to the memory of its endpoint (section 3).
//!
//! The bytes that a message reaches lie in one span of the endpoint. So its pages are looked up
//! once, however many words the mask deselects among them.

use std::ops::Range;

use hamlyn_abi::dart::trap::*;
use hamlyn_card::ports::{Dma, DmaFault, VolatileSlice};

use crate::blocks::{WORD, runs, selected, span};
use crate::connections::Connection;
use crate::endpoints::{Absent, Piece};
use crate::memory::Memory;
use crate::task::{Pause, Task};

/// The bytes of a message's data that it reads or writes, and where they are.
pub(crate) struct Access {
    mask: u8,
    /// Number of data bytes, including those that the mask deselects.
    length: usize,
    /// The range from the first selected byte to behind the last.
    span: Range<usize>,
    /// The place of the span, page by page.
    pieces: Vec<Piece>,
}

impl Access {
    /// Returns the memory that a message accesses, or `None` if it uses none. All checks have been
    /// done if this succeeds.
    pub(crate) fn find(
        dma: &dyn Dma,
        connection: &mut Connection,
        memory: &mut Memory,
        task: &Task,
        (address, length): (u64, usize),
    ) -> Result<Option<Self>, Pause> {
        let Some(writes) = task.opcode.main.writes() else { return Ok(None) };
        // An answer does what its question requested, and the question was this end's own.
        if !task.is_answer && !(if writes { connection.may_write } else { connection.may_read }) {
            return Err(Pause::Trap(DART_TRAP_RIGHT));
        }
        if address % 4 != 0 {
            return Err(Pause::Trap(DART_TRAP_MISALIGNED));
        }
        let Some(endpoint) = memory.endpoint(connection.endpoint) else { return Err(Pause::Pages(0)) };
        let span = span(task.control.mask, length);
        let bounds = address.checked_add(span.start as u64).zip(address.checked_add(span.end as u64));
        let inside = |(start, end): &(u64, u64)| {
            let part = connection.part();
            endpoint.contains(*start, end - start) && part.start <= *start && *end <= part.end
        };
        let whole = match bounds.filter(inside) {
            Some((start, end)) => start..end,
            None if span.is_empty() => 0..0,
            None => return Err(Pause::Trap(DART_TRAP_BOUNDS)),
        };
        // The registers may have changed since, and with them the pages that the message needs.
        connection.receiving.wait.keep(&endpoint.pages(&whole));
        match memory.find(dma, (connection.endpoint, whole), &mut connection.receiving.wait, writes) {
            Ok(pieces) => Ok(Some(Self { mask: task.control.mask, length, span, pieces })),
            Err(Absent::NoMemory) => Err(Pause::Trap(DART_TRAP_NO_MEMORY)),
            Err(Absent::Missing(_)) if connection.is_system => Err(Pause::Pages(0)),
            Err(Absent::Missing(new)) => Err(Pause::Pages(new)),
        }
    }

    /// Returns the number of bytes that are written or read.
    pub(crate) fn bytes(&self) -> u64 {
        selected(self.mask, self.length) as u64
    }

    /// Writes the data, its last word after all others. So a process that sees the last word sees
    /// all of them.
    pub(crate) fn write(&self, dma: &dyn Dma, data: &[u8]) -> Result<(), DmaFault> {
        // A frame that the driver named and that does not exist is found before the first byte is
        // written.
        let lend = |piece: &Piece| dma.lend_to_write(piece.address, piece.length);
        let lent: Vec<_> = self.pieces.iter().map(lend).collect::<Result<_, _>>()?;
        let last = self.span.end.saturating_sub(1) / WORD * WORD;
        let mut start = self.span.start;
        for (piece, lent) in self.pieces.iter().zip(&lent) {
            for run in runs(self.mask, start..(start + piece.length).min(last)) {
                write_run(dma, lent.as_ref(), (piece.address, run.start - start), &data[run])?;
            }
            start += piece.length;
        }
        self.write_last(dma, last, data)
    }

    /// Writes the last selected word, or the part of it that there is.
    fn write_last(&self, dma: &dyn Dma, last: usize, data: &[u8]) -> Result<(), DmaFault> {
        let Some(piece) = self.pieces.last() else { return Ok(()) };
        let address = piece.address + piece.length as u64 - (self.span.end - last) as u64;
        match data[last..self.span.end] {
            [a, b, c, d] => dma.publish(address, u32::from_le_bytes([a, b, c, d])),
            ref part => {
                std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
                dma.write(address, VolatileSlice::from(&mut part.to_vec()[..]))
            }
        }
    }

    /// Reads the data. Deselected bytes are 0.
    pub(crate) fn read(&self, dma: &dyn Dma) -> Result<Vec<u8>, DmaFault> {
        let mut found = vec![0; self.span.len()];
        let mut rest = &mut found[..];
        for piece in &self.pieces {
            let (now, later) = rest.split_at_mut(piece.length);
            dma.read(piece.address, VolatileSlice::from(now))?;
            rest = later;
        }
        let mut data = vec![0; self.length];
        for run in runs(self.mask, self.span.clone()) {
            let there = run.start - self.span.start..run.end - self.span.start;
            data[run].copy_from_slice(&found[there]);
        }
        Ok(data)
    }
}

/// Writes bytes at a place of a piece. The piece may have been lent.
fn write_run(
    dma: &dyn Dma,
    lent: Option<&VolatileSlice<'_>>,
    (address, place): (u64, usize),
    bytes: &[u8],
) -> Result<(), DmaFault> {
    match lent.map(|lent| lent.subslice(place, bytes.len())) {
        Some(Ok(slice)) => {
            slice.copy_from(bytes);
            Ok(())
        }
        _ => dma.write(address + place as u64, VolatileSlice::from(&mut bytes.to_vec()[..])),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use hamlyn_card::ports::Operation;

    use super::*;

    const PAGE: usize = 4096;

    /// Memory that counts look-ups and records the order of writes. It may lend.
    struct Noted<'a> {
        memory: VolatileSlice<'a>,
        lends: bool,
        look_ups: Cell<usize>,
        /// Address and number of bytes, in order.
        writes: RefCell<Vec<(u64, usize)>>,
    }

    impl<'a> Noted<'a> {
        fn new(memory: &'a mut [u8], lends: bool) -> Self {
            Self { memory: memory.into(), lends, look_ups: Cell::new(0), writes: RefCell::default() }
        }

        fn at(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
            self.look_ups.set(self.look_ups.get() + 1);
            let fault = DmaFault { address, length: length as u64 };
            self.memory.subslice(address as usize, length).map_err(|_| fault)
        }
    }

    impl Dma for Noted<'_> {
        fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
            self.at(address, into.len())?.copy_to_volatile_slice(into);
            Ok(())
        }

        fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
            self.at(address, length)
        }

        fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
            self.writes.borrow_mut().push((address, from.len()));
            from.copy_to_volatile_slice(self.at(address, from.len())?);
            Ok(())
        }

        fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
            self.write(address, VolatileSlice::from(&mut value.to_le_bytes()[..]))
        }

        fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
            self.at(address, length).map(|slice| self.lends.then_some(slice))
        }

        fn fetch(&self, address: u64, _: Operation) -> Result<u64, DmaFault> {
            Err(DmaFault { address, length: 8 })
        }
    }

    /// Returns an access to all of `length` bytes, from address 0 on.
    fn whole(mask: u8, length: usize) -> Access {
        let pages = (0..length).step_by(PAGE);
        let pieces = pages.map(|at| Piece { address: at as u64, length: PAGE.min(length - at) });
        Access { mask, length, span: 0..length, pieces: pieces.collect() }
    }

    #[test]
    fn last_word_is_written_last() {
        for (length, last) in [(PAGE + 100, 4), (PAGE + 98, 2), (4, 4), (3, 3)] {
            let (mut memory, data) = (vec![0; 2 * PAGE], vec![7; length]);
            let dma = Noted::new(&mut memory, false);
            whole(0, length).write(&dma, &data).unwrap();
            let mut writes = dma.writes.take();
            assert_eq!(writes.pop(), Some(((length - last) as u64, last)));
            assert!(writes.iter().all(|(address, bytes)| *address as usize + bytes <= length - last));
            assert_eq!(memory[..=length], [data, vec![0]].concat());
        }
    }

    #[test]
    fn pages_are_looked_up_once_whatever_the_mask() {
        // The last word of each block is selected, so that the span is the whole.
        let (mut memory, data) = (vec![0; 16 * PAGE], vec![7; 16 * PAGE]);
        let dma = Noted::new(&mut memory, true);
        whole(0x55, data.len()).write(&dma, &data).unwrap();
        assert_eq!(dma.look_ups.get(), 16 + 1);
        let is_written = |at: usize| at / 4 % 2 == 1;
        assert!(memory.iter().enumerate().all(|(at, byte)| *byte == if is_written(at) { 7 } else { 0 }));
    }
}
