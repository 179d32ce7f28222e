//! Ports that record what the card does with them.

use hamlyn_card::ports::{Dma, DmaFault, Interrupt, Link, Operation, Ports, VolatileSlice, Windows};
use hamlyn_trace::record::{Kind, Record};

use super::recorder::{Tap, record};

/// A card's ports, and its recorder.
pub(crate) struct TracedPorts<'a> {
    pub(crate) ports: Ports<'a>,
    pub(crate) tap: &'a Tap,
}

impl TracedPorts<'_> {
    /// Returns ports for one call of the card.
    pub(crate) fn ports(&self) -> Ports<'_> {
        Ports { dma: self, windows: self, interrupt: self, clock: self.ports.clock }
    }

    fn dma(&self, kind: Kind, address: u64, length: u64, failed: bool, bytes: &[VolatileSlice<'_>]) {
        let failed = failed.into();
        self.tap.access(Record { failed, ..record(kind, address, length) }, bytes);
    }
}

impl Dma for TracedPorts<'_> {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        let read = self.ports.dma.read(address, into);
        self.dma(Kind::DmaRead, address, into.len() as u64, read.is_err(), &[into]);
        read
    }

    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        let lent = self.ports.dma.lend(address, length);
        self.dma(Kind::DmaLendRead, address, length as u64, lent.is_err(), lent.ok().as_slice());
        lent
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        let written = self.ports.dma.write(address, from);
        self.dma(Kind::DmaWrite, address, from.len() as u64, written.is_err(), &[from]);
        written
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        let published = self.ports.dma.publish(address, value);
        self.dma(Kind::DmaPublish, address, value.into(), published.is_err(), &[]);
        published
    }

    fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        let lent = self.ports.dma.lend_to_write(address, length);
        if !matches!(lent, Ok(None)) {
            self.dma(Kind::DmaLendWrite, address, length as u64, lent.is_err(), &[]);
        }
        lent
    }

    fn lend_to_change(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        let lent = self.ports.dma.lend_to_change(address, length);
        if !matches!(lent, Ok(None)) {
            self.dma(Kind::DmaLendWrite, address, length as u64, lent.is_err(), &[]);
        }
        lent
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        let old = self.ports.dma.fetch(address, operation);
        self.dma(Kind::DmaFetch, address, old.unwrap_or_default(), old.is_err(), &[]);
        old
    }
}

impl Windows for TracedPorts<'_> {
    fn load_from(&self, bar: u8, offset: u64) -> u32 {
        let value = self.ports.windows.load_from(bar, offset);
        self.tap.load(bar, offset, value);
        value
    }

    fn store_to(&self, bar: u8, offset: u64, value: u32) {
        self.ports.windows.store_to(bar, offset, value);
        self.tap.note(Record { bar, ..record(Kind::WindowStore, offset, value.into()) });
    }

    fn copy_out_of(&self, bar: u8, offset: u64, into: &mut [u8]) {
        self.ports.windows.copy_out_of(bar, offset, into);
        let copied = Record { bar, ..record(Kind::WindowCopy, offset, into.len() as u64) };
        self.tap.access(copied, &[VolatileSlice::from(into)]);
    }

    fn clear_in(&self, bar: u8, offset: u64, length: u64) {
        self.ports.windows.clear_in(bar, offset, length);
        self.tap.note(Record { bar, ..record(Kind::WindowClear, offset, length) });
    }
}

impl Interrupt for TracedPorts<'_> {
    fn raise(&self, vector: u16) {
        self.tap.note(record(Kind::Interrupt, vector.into(), 0));
        self.ports.interrupt.raise(vector);
    }
}

/// A link that records the packets it has sent.
pub(crate) struct TracedLink<'a> {
    pub(crate) link: &'a mut dyn Link,
    pub(crate) tap: &'a Tap,
}

impl Link for TracedLink<'_> {
    fn send(&mut self, destination: u16, packet: &[VolatileSlice<'_>]) -> bool {
        let length: usize = packet.iter().map(VolatileSlice::len).sum();
        // The receiver may have the packet before this returns.
        let time = self.tap.time();
        let sent = self.link.send(destination, packet);
        if sent {
            self.tap.packet(Record { time, ..record(Kind::Send, destination.into(), length as u64) }, packet);
        }
        sent
    }

    fn is_stopped(&self, destination: u16) -> bool {
        self.link.is_stopped(destination)
    }

    fn set_groups(&mut self, groups: u64) {
        self.link.set_groups(groups);
    }

    fn resumptions(&self) -> u64 {
        self.link.resumptions()
    }
}
