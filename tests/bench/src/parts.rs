//! Goal 9: the card's logic alone, on ports of memory, in one thread.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use anyhow::{Context, ensure};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::hamlyn::registers::*;
use hamlyn_abi::hamlyn::request::HamlynRequest;
use hamlyn_abi::hamlyn::window::*;
use hamlyn_models::card::{Card, Progress};
use hamlyn_models::hamlyn::{HamlynCard, HamlynOptions};
use hamlyn_models::ports::{Dma, DmaFault, Operation, Packet, Ports, VolatileSlice, Window};
use zerocopy::IntoBytes;

use crate::effort::Effort;
use crate::exchange::Exchange;
use crate::goals::{Goal, Need};
use crate::progress;
use crate::quiet::{Silent, Stopped, Wire};
use crate::site::Site;
use crate::stats::median;

/// What the card does in a second on one core.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parts {
    /// Packets of 64 bytes delivered, each with its notification.
    pub delivered: Option<f64>,
    /// Bytes delivered, in packets of 4 KiB.
    pub bytes: Option<f64>,
    /// Bytes that `memcpy` copies, 4 KiB at a time.
    pub copied: Option<f64>,
}

/// Measures all of them in turn.
pub fn measure(effort: Effort, progress: &progress::Progress) -> anyhow::Result<Parts> {
    let (mut delivered, mut sent, mut bytes, mut copied) = (vec![], vec![], vec![], vec![]);
    let copy = Exchange::alone(Site::Host(None), "memcpy --size 4096 --total 1073741824");
    let rounds = effort.rounds();
    for round in 1..=rounds {
        progress.step(&format!("the card's logic (round {round} of {rounds})"));
        delivered.push(deliver(64, effort.pick(1_000_000, 5_000_000))?);
        sent.push(send(effort.pick(500_000, 2_000_000))?);
        bytes.push(deliver(4096, effort.pick(200_000, 1_000_000))? * 4096.0);
        copied.push(copy.run()?.rate());
    }
    if let Some(sent) = median(sent) {
        progress
            .note(&format!("the card makes {:.1} million packets a second of 64-byte requests", sent / 1e6));
    }
    Ok(Parts { delivered: median(delivered), bytes: median(bytes), copied: median(copied) })
}

/// Goal 9.
pub fn goals(parts: Parts) -> Vec<Goal> {
    let millions = |rate: Option<f64>| rate.map(|rate| rate / 1e6);
    let least = Need::AtLeast(10.0);
    let copied = ("memcpy", millions(parts.copied));
    vec![
        Goal::own(9, "card logic: 64-byte packets delivered", "million/s", millions(parts.delivered), least),
        Goal::beside(
            9,
            "card logic: 4 KiB packets",
            "MB/s",
            millions(parts.bytes),
            copied,
            Need::RatioAtLeast(0.8),
        ),
    ]
}

const KEY: u64 = 0x1234_5678_9abc_def0;
const QUEUE_ENTRIES: u32 = 1024;

/// Packets a second that a card delivers.
fn deliver(size: u32, count: u32) -> anyhow::Result<f64> {
    let mut packet = one_packet()?;
    // The packet's length (the datasheet's packet header), and so much data behind its header.
    let header = packet.len() - 64;
    packet[0x14..0x18].copy_from_slice(&size.to_le_bytes());
    packet.resize(header + size as usize, 0x5a);
    let mut host = Host::create()?;
    host.open_slot()?;
    let start = Instant::now();
    for _ in 0..count {
        let arrived = Packet { source: 0, bytes: VolatileSlice::from(&mut packet[..]) };
        host.with_card(|card, ports, _| card.packet_arrived(ports, arrived));
    }
    let time = start.elapsed();
    host.counted("notifications", count.into())?;
    Ok(f64::from(count) / time.as_secs_f64())
}

/// Requests a second that a card makes into packets.
fn send(count: u32) -> anyhow::Result<f64> {
    const BATCH: u32 = 32;
    let mut host = Host::create()?;
    host.open_terminus()?;
    let start = Instant::now();
    for _ in 0..count / BATCH {
        for _ in 0..BATCH {
            host.post();
        }
        host.transmit();
    }
    let time = start.elapsed();
    host.counted("packets_sent", (count / BATCH * BATCH).into())?;
    Ok(f64::from(count) / time.as_secs_f64())
}

/// A packet of 64 bytes as a card sends it.
fn one_packet() -> anyhow::Result<Vec<u8>> {
    let mut host = Host::create()?;
    host.open_terminus()?;
    host.post();
    host.transmit();
    host.counted("packets_sent", 1)?;
    Ok(host.wire.bytes)
}

/// A host in memory: a card with its ports, and the little that a driver and a library do.
struct Host {
    card: HamlynCard,
    memory: Memory,
    window: Pages,
    wire: Wire,
    free: Cell<u64>,
    tail: u32,
}

const COMMAND_PAGE: u64 = 4096;
const PAGE: u64 = 4096;

impl Host {
    fn create() -> anyhow::Result<Self> {
        let card = HamlynCard::new(HamlynOptions::default()).context("no card")?;
        let used = card.identity().bars.iter().map(|bar| bar.size).max().unwrap_or_default();
        let mut host = Self {
            card,
            memory: Memory(RefCell::new(vec![0; 1 << 20])),
            window: Pages(RefCell::new(vec![0; used as usize])),
            wire: Wire::default(),
            free: Cell::new(2 * PAGE),
            tail: 0,
        };
        host.with_card(|card, ports, _| card.link_changed(ports, Some(0)));
        host.write_register(HAMLYN_REG_COMMAND_PAGE, 8, COMMAND_PAGE);
        host.write_register(HAMLYN_REG_CONTROL, 4, HAMLYN_CONTROL_ENABLE.into());
        Ok(host)
    }

    fn with_card<T>(&mut self, verb: impl FnOnce(&mut HamlynCard, &Ports<'_>, &mut Wire) -> T) -> T {
        let ports = Ports { dma: &self.memory, window: &self.window, interrupt: &Silent, clock: &Stopped };
        verb(&mut self.card, &ports, &mut self.wire)
    }

    fn write_register(&mut self, register: u32, width: u8, value: u64) {
        self.with_card(|card, ports, _| card.register_write(ports, 0, register.into(), width, value));
    }

    fn command(&mut self, opcode: u32, body: &[u8]) -> anyhow::Result<()> {
        let command = HamlynCommand { opcode, index: 0, ..Default::default() };
        self.memory.put(COMMAND_PAGE, command.as_bytes());
        self.memory.put(COMMAND_PAGE + u64::from(HAMLYN_COMMAND_BODY), body);
        self.write_register(HAMLYN_REG_COMMAND_GO, 4, 1);
        let status = HAMLYN_REG_COMMAND_STATUS.into();
        let status = self.with_card(|card, ports, _| card.register_read(ports, 0, status, 4));
        ensure!(status == u64::from(HAMLYN_STATUS_OK), "the card refused command {opcode} (status {status})");
        Ok(())
    }

    fn pages(&self, count: u64) -> u64 {
        let first = self.free.get();
        self.free.set(first + count * PAGE);
        first
    }

    fn area(&self, length: u64) -> HamlynArea {
        let (directory, list) = (self.pages(1), self.pages(1));
        self.memory.put(directory, &list.to_le_bytes());
        for index in 0..length.div_ceil(PAGE) {
            self.memory.put(list + index * 8, &self.pages(1).to_le_bytes());
        }
        HamlynArea { directory, length, first: 0, reserved: 0 }
    }

    fn open_terminus(&mut self) -> anyhow::Result<()> {
        let body = HamlynOpenTerminus { status: self.pages(1), weight: 1, reserved: 0 };
        self.command(HAMLYN_COMMAND_OPEN_TERMINUS, body.as_bytes())
    }

    fn open_slot(&mut self) -> anyhow::Result<()> {
        let entries = self.area(u64::from(QUEUE_ENTRIES * HAMLYN_NOTIFICATION_SIZE));
        let queue = HamlynOpenQueue { area: entries, entries: QUEUE_ENTRIES, vector: 1 };
        self.command(HAMLYN_COMMAND_OPEN_QUEUE, queue.as_bytes())?;
        let slot = HamlynOpenSlot {
            area: self.area(PAGE),
            metadata: self.area(HAMLYN_METADATA_SIZE.into()),
            key: KEY,
            metadata_entries: 1,
            mode: HAMLYN_MODE_NORMAL,
            ..Default::default()
        };
        self.command(HAMLYN_COMMAND_OPEN_SLOT, slot.as_bytes())
    }

    /// Posts a message of 64 bytes by direct I/O.
    fn post(&mut self) {
        let request = HamlynRequest { key: KEY, length: 64, ..Default::default() };
        let entry = HAMLYN_WINDOW_WORK_QUEUE + self.tail % HAMLYN_WORK_QUEUE_ENTRIES * HAMLYN_ENTRY_SIZE;
        let head = request.as_bytes();
        self.window.put(entry as usize, head);
        self.window.put(entry as usize + head.len(), &[0x5a; 64]);
        self.tail = self.tail.wrapping_add(1);
        self.window.store(HAMLYN_WINDOW_TAIL.into(), self.tail);
        if self.window.load(HAMLYN_WINDOW_AWAKE.into()) == 0 {
            self.with_card(|card, ports, _| card.register_write(ports, 4, 0, 4, 1));
        }
    }

    fn transmit(&mut self) {
        while self.with_card(|card, ports, wire| card.transmit(ports, wire)) == Progress::Worked {}
    }

    /// Fails unless the card has counted so many: what it refused took no time worth measuring.
    fn counted(&self, name: &str, expected: u64) -> anyhow::Result<()> {
        let counters = self.card.counters();
        let count = counters.iter().find(|counter| counter.0 == name).map(|counter| counter.1);
        ensure!(count == Some(expected), "the card counted {count:?} {name} (not {expected}): {counters:?}");
        Ok(())
    }
}

/// Host memory, from address 0.
struct Memory(RefCell<Vec<u8>>);

impl Memory {
    fn put(&self, address: u64, bytes: &[u8]) {
        self.0.borrow_mut()[address as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn range(&self, address: u64, length: usize) -> Result<Range<usize>, DmaFault> {
        let fault = DmaFault { address, length: length as u64 };
        let end = address.checked_add(length as u64).filter(|end| *end <= self.0.borrow().len() as u64);
        end.map(|end| address as usize..end as usize).ok_or(fault)
    }
}

impl Dma for Memory {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        let range = self.range(address, into.len())?;
        into.copy_from(&self.0.borrow()[range]);
        Ok(())
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        let range = self.range(address, from.len())?;
        from.copy_to(&mut self.0.borrow_mut()[range]);
        Ok(())
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        let range = self.range(address, 4)?;
        self.0.borrow_mut()[range].copy_from_slice(&value.to_le_bytes());
        Ok(())
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        let range = self.range(address, 8)?;
        let mut word = [0; 8];
        word.copy_from_slice(&self.0.borrow()[range.clone()]);
        let word = AtomicU64::new(u64::from_le_bytes(word));
        let found = operation.apply(&word);
        self.0.borrow_mut()[range].copy_from_slice(&word.into_inner().to_le_bytes());
        Ok(found)
    }
}

/// The mapped window.
struct Pages(RefCell<Vec<u8>>);

impl Pages {
    fn put(&self, offset: usize, bytes: &[u8]) {
        self.0.borrow_mut()[offset..][..bytes.len()].copy_from_slice(bytes);
    }
}

impl Window for Pages {
    fn load(&self, offset: u64) -> u32 {
        let mut word = [0; 4];
        self.copy_out(offset, &mut word);
        u32::from_le_bytes(word)
    }

    fn store(&self, offset: u64, value: u32) {
        self.put(offset as usize, &value.to_le_bytes());
    }

    fn copy_out(&self, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow()[offset as usize..][..into.len()]);
    }

    fn clear(&self, offset: u64, length: u64) {
        self.0.borrow_mut()[offset as usize..][..length as usize].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_timed_is_done() {
        assert!(deliver(64, 100).unwrap() > 0.0);
        assert!(deliver(4096, 10).unwrap() > 0.0);
        assert!(send(64).unwrap() > 0.0);
    }
}
