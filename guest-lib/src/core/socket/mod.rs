//! Attachment of a host process directly to a card's vfio-user socket, without a VM: the library
//! acts as VMM and driver. This module has the parts for any card; a card's module adds the model's
//! driver.
//!
//! Memory is lent to the card by memfd. A card serves one process at a time.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::family::command::*;
use hamlyn_abi::family::control::{ULN_CONTROL_RESET, ULN_REG_CONTROL};
use hamlyn_abi::family::identity::ULN_REG_SCRATCH;
use hamlyn_abi::family::interrupts::{ULN_MAX_VECTORS, ULN_REG_INTERRUPT_TEST};
use hamlyn_abi::family::link::{ULN_REG_HOST_ID, ULN_REG_PORTS};
use hamlyn_abi::uapi::{UlnQuery, UlnSelfTest, UlnStatistics};
use hamlyn_sys::{Access, Mapping};
use zerocopy::{FromZeros, IntoBytes};

use self::client::{Client, MappableRegion};
use self::commands::Commands;
use self::handshake::Handshake;
use self::interrupts::Interrupts;
use self::lender::Lender;
use self::message::{REGION_BAR0, REGION_CONFIG};
use self::sleeper::Control;
use crate::core::doorbell::Doorbell;
use crate::core::memory::Memory;
use crate::core::model::Model;
use crate::error::{Error, Result, inside};

pub(crate) mod area;
pub(crate) mod client;
pub(crate) mod commands;
mod handshake;
pub(crate) mod identity;
pub(crate) mod interrupts;
pub(crate) mod lender;
pub(crate) mod message;
pub(crate) mod names;
mod own;
pub(crate) mod sleeper;

/// Size of a page, in bytes.
pub(crate) const PAGE: usize = 4096;
/// Command register in configuration space, and its bits for memory accesses and bus mastering.
const CONFIG_COMMAND: u32 = 4;
const CONFIG_COMMAND_MEMORY_AND_MASTER: u16 = 6;

/// Connects to the socket of a card of model `M`, enables its memory access, and resets it.
pub(crate) fn reach<M: Model>(path: &Path) -> Result<Arc<Client>> {
    let failed = || Error::system(format!("attach to {}", path.display()));
    let client = Arc::new(Client::connect(path).map_err(failed())?);
    identity::check_card::<M, _>(&client, &path.display().to_string(), failed)?;
    let bits = CONFIG_COMMAND_MEMORY_AND_MASTER.to_le_bytes();
    client.write(REGION_CONFIG, CONFIG_COMMAND.into(), &bits).map_err(failed())?;
    client.write_u32(REGION_BAR0, ULN_REG_CONTROL, ULN_CONTROL_RESET).map_err(failed())?;
    Ok(client)
}

/// An enabled card, with the state that any card's driver holds.
#[derive(Debug)]
pub(crate) struct Seat {
    // Fields are in drop order: the threads, the command page, the connection.
    pub(crate) interrupts: Interrupts,
    _handshake: Handshake,
    pub(crate) commands: Commands,
    pub(crate) lender: Lender,
    /// Number of times that the card had started to discard packets.
    pub(crate) lapses: Arc<AtomicU32>,
    pub(crate) client: Arc<Client>,
}

impl Seat {
    /// Enables a card, serves its interrupts and keeps its handshake (section 2.8).
    pub(crate) fn take(client: Arc<Client>, control: Control, vectors: u32) -> Result<Self> {
        let failed = || Error::system("serve a card");
        let interrupts = Interrupts::start(&client, control, vectors).map_err(failed())?;
        let lender = Lender::new(client.clone());
        let commands = Commands::start(client.clone(), lender.lend(ULN_COMMAND_PAGE_SIZE as usize)?)?;
        let lapses = Arc::<AtomicU32>::default();
        let _handshake = Handshake::start(&client, lapses.clone()).map_err(failed())?;
        Ok(Self { interrupts, _handshake, commands, lender, lapses, client })
    }

    /// Updates host id and ports in the card's description.
    pub(crate) fn query(&self, description: UlnQuery) -> Result<UlnQuery> {
        let read =
            |register, action| self.client.read_u32(REGION_BAR0, register).map_err(Error::system(action));
        let host = read(ULN_REG_HOST_ID, "ask for the host id")?;
        let ports = read(ULN_REG_PORTS, "ask for the switch's ports")?;
        Ok(UlnQuery { host, ports, ..description })
    }

    /// Describes `length` bytes at `address`, which must lie in `memory`, for the card. The caller
    /// must keep the page lists for as long as the card may use them.
    pub(crate) fn area(&self, memory: &Memory, address: u64, length: u64) -> Result<(UlnArea, Memory)> {
        let offset = address.wrapping_sub(memory.card_address());
        inside("memory", offset, length, memory.len() as u64)?;
        let lists = self.lender.lend(area::list_pages(address, length) * PAGE)?;
        let (area, bytes) = area::page_lists(address, length, lists.card_address());
        lists.write(0, &bytes)?;
        Ok((area, lists))
    }

    /// Reads the card's counters; `count` is their number, at most 64.
    pub(crate) fn statistics(&self, count: u32) -> Result<UlnStatistics> {
        let mut statistics = UlnStatistics::new_zeroed();
        statistics.count = count;
        let values = &mut statistics.values[..count as usize];
        let action = "read the counters";
        self.commands.run_and_read(action, ULN_COMMAND_READ_STATISTICS, 0, &[], values.as_mut_bytes())?;
        Ok(statistics)
    }

    pub(crate) fn self_test(&self, vectors: u32) -> Result<UlnSelfTest> {
        let mut results = UlnSelfTest::default();
        let failed = || Error::system("run the self-tests");
        let pattern = 0x1234_5678;
        self.client.write_u32(REGION_BAR0, ULN_REG_SCRATCH, pattern).map_err(failed())?;
        let answer = self.client.read_u32(REGION_BAR0, ULN_REG_SCRATCH).map_err(failed())?;
        results.access = u32::from(answer != !pattern);
        results.dma = self.test_dma()?;
        for vector in 0..vectors.min(ULN_MAX_VECTORS) {
            let raise = || self.client.write_u32(REGION_BAR0, ULN_REG_INTERRUPT_TEST, vector);
            if results.interrupt == 0 && !self.interrupts.test(vector, raise).map_err(failed())? {
                results.interrupt = vector + 1;
            }
        }
        Ok(results)
    }

    /// Returns 0 if the card copies a page correctly, 1 if it refuses, 2 if the bytes are wrong.
    fn test_dma(&self) -> Result<u32> {
        let memory = self.lender.lend(2 * PAGE)?;
        let pattern: Vec<u8> = (0..PAGE).map(|index| (index * 7 + 1) as u8).collect();
        memory.write(0, &pattern)?;
        let from = memory.card_address();
        let body = UlnTestDma { from, to: from + PAGE as u64, length: PAGE as u64 };
        if self.commands.run("test DMA", ULN_COMMAND_TEST_DMA, 0, body.as_bytes()).is_err() {
            return Ok(1);
        }
        let mut copy = vec![0; PAGE];
        memory.read(PAGE, &mut copy)?;
        Ok(if copy == pattern { 0 } else { 2 })
    }

    /// Resets the card before memory is freed that the card may still write to. A card that is gone
    /// needs no reset.
    pub(crate) fn reset(&self) {
        let _ = self.client.write_u32(REGION_BAR0, ULN_REG_CONTROL, ULN_CONTROL_RESET);
    }
}

/// Rings by a message to the card, without waiting for a reply: a doorbell is only a notification.
#[derive(Debug)]
pub(crate) struct TrappedDoorbell {
    pub(crate) client: Arc<Client>,
    pub(crate) region: u32,
    pub(crate) offset: u64,
}

impl Doorbell for TrappedDoorbell {
    fn ring(&self) -> Result<()> {
        let rung = self.client.post(self.region, self.offset, &1_u32.to_le_bytes());
        rung.map_err(Error::system("ring a doorbell"))
    }
}

impl MappableRegion {
    pub(crate) fn map(&self, offset: u64, length: usize) -> io::Result<Mapping> {
        if offset + length as u64 > self.size {
            let size = self.size;
            return Err(io::Error::other(format!("{length} bytes at {offset} of a region of {size} bytes")));
        }
        Mapping::of_file(&self.file, self.offset + offset, length, Access::ReadWrite)
    }
}
