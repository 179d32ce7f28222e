//! Ports that fail by rule.

use std::cell::RefCell;

use hamlyn_card::ports::{Clock, Dma, DmaFault, Interrupt, Operation, Ports, VolatileSlice};
use hamlyn_faults::{Faults, Raise};

use crate::clock::SystemClock;

/// A card's ports, and its faults.
pub(crate) struct FaultyPorts<'a> {
    pub(crate) ports: Ports<'a>,
    pub(crate) faults: &'a RefCell<Faults>,
}

impl FaultyPorts<'_> {
    /// Returns ports for one call of the card.
    pub(crate) fn ports(&self) -> Ports<'_> {
        Ports { dma: self, interrupt: self, ..self.ports }
    }

    fn check(&self, address: u64, length: usize, writes: bool) -> Result<(), DmaFault> {
        let length = length as u64;
        match self.faults.borrow_mut().fails(address, length, writes) {
            true => Err(DmaFault { address, length }),
            false => Ok(()),
        }
    }
}

impl Dma for FaultyPorts<'_> {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.check(address, into.len(), false)?;
        self.ports.dma.read(address, into)
    }

    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        self.check(address, length, false)?;
        self.ports.dma.lend(address, length)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.check(address, from.len(), true)?;
        self.ports.dma.write(address, from)
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        self.check(address, 4, true)?;
        self.ports.dma.publish(address, value)
    }

    fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        self.check(address, length, true)?;
        self.ports.dma.lend_to_write(address, length)
    }

    fn lend_to_change(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        self.check(address, length, true)?;
        self.ports.dma.lend_to_change(address, length)
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        self.check(address, 8, true)?;
        self.ports.dma.fetch(address, operation)
    }
}

impl Interrupt for FaultyPorts<'_> {
    fn raise(&self, vector: u16) {
        if let Raise::Now(times) = self.faults.borrow_mut().raise(vector, SystemClock.now()) {
            (0..times).for_each(|_| self.ports.interrupt.raise(vector));
        }
    }
}
