//! A host in memory with a Hamlyn card and its open objects.

use anyhow::{Context, anyhow, ensure};
use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_NORMAL, HamlynOpenSlot, HamlynOpenTerminus};
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HAMLYN_REQUEST_DMA, HamlynGather, HamlynRequest};
use hamlyn_card::card::Progress;
use hamlyn_card::ports::VolatileSlice;
use hamlyn_card_hamlyn::{HamlynCard, HamlynOptions};
use hamlyn_test_host::hamlyn::{Done, HamlynCommands, HamlynProgram};
use hamlyn_test_host::{Commands, Memory, list_pages};
use zerocopy::IntoBytes;

use super::{FAST_BYTES, KEY, QUEUE_ENTRIES};
use crate::engine::copies::PACKETS;

type InMemory = hamlyn_test_host::Host<HamlynCard>;

/// The host, whose terminus, queue and slot have number 0.
pub(super) struct Host {
    host: InMemory,
    /// Start of the open slot's area.
    pub(super) place: u64,
}

const PAGE: u64 = 4096;

impl Host {
    pub(super) fn create() -> anyhow::Result<Self> {
        let card = HamlynCard::new(HamlynOptions::default()).context("no card")?;
        Ok(Self { host: InMemory::new(0, card).context("no memory")?, place: 0 })
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.host.memory
    }

    /// Allocates an area. Returns it with the start of its pages, which are consecutive.
    fn area(&self, length: u64) -> (UlnArea, u64) {
        let (start, list) = (self.host.pages(length.div_ceil(PAGE)), || self.host.pages(1));
        let put = |address, bytes: &[u8]| self.host.put(address, bytes);
        (list_pages(length, 0, list, |index| start + index * PAGE, put), start)
    }

    pub(super) fn open_terminus(&mut self) -> anyhow::Result<()> {
        let body = HamlynOpenTerminus { status: self.host.pages(1), weight: 1, ..Default::default() };
        done(self.host.open_terminus(0, &body))
    }

    pub(super) fn set_send_buffer(&mut self, length: u32) -> anyhow::Result<()> {
        let (area, _) = self.area(length.into());
        done(self.host.set_send_buffer(0, 0, area))
    }

    pub(super) fn open_slot(&mut self) -> anyhow::Result<()> {
        let (entries, _) = self.area(u64::from(QUEUE_ENTRIES * HAMLYN_NOTIFICATION_SIZE));
        done(self.host.open_queue(0, entries, QUEUE_ENTRIES, 1))?;
        let (area, place) = self.area(PACKETS as u64 * PAGE);
        self.place = place;
        let slot = HamlynOpenSlot {
            area,
            metadata: self.area(HAMLYN_METADATA_SIZE.into()).0,
            key: KEY,
            metadata_entries: 1,
            mode: HAMLYN_MODE_NORMAL,
            ..Default::default()
        };
        done(self.host.open_slot(0, &slot))
    }

    /// Posts a message of 64 bytes by direct I/O.
    pub(super) fn post(&mut self) {
        self.post_request(HamlynRequest { key: KEY, length: 64, ..Default::default() }, &[0x5a; 64]);
    }

    /// Posts a message of Table 4.
    pub(super) fn post_fast(&mut self) {
        let (metadata_index, length) = (HAMLYN_FAST_MODE, FAST_BYTES);
        let request = HamlynRequest { key: KEY, metadata_index, length, ..Default::default() };
        self.post_request(request, &[0x5a; FAST_BYTES as usize]);
    }

    /// Posts a message from the send buffer.
    pub(super) fn post_gather(&mut self, length: u32) {
        let request = HamlynRequest {
            key: KEY,
            length,
            flags: HAMLYN_REQUEST_DMA,
            gather_count: 1,
            ..Default::default()
        };
        let gather = HamlynGather { length, ..Default::default() };
        self.post_request(request, gather.as_bytes());
    }

    pub(super) fn post_request(&mut self, request: HamlynRequest, body: &[u8]) {
        self.host.post(0, &request, body);
    }

    /// Makes the card send all pending packets. Each packet reuses the memory of the previous one.
    pub(super) fn transmit(&mut self) {
        while self.host.transmit() == Progress::Worked {
            self.host.wire.forget();
        }
    }

    /// Makes the card send all pending packets, and returns the bytes of the last one.
    pub(super) fn sent(&mut self) -> anyhow::Result<Vec<u8>> {
        while self.host.transmit() == Progress::Worked {}
        let last = self.host.wire.sent.pop().context("the card sent nothing")?;
        Ok(last.1)
    }

    pub(super) fn deliver(&mut self, packet: &[VolatileSlice<'_>]) {
        self.host.deliver(0, packet);
    }

    /// Fails unless the card's counter has the expected value, because refused packets take almost
    /// no time.
    pub(super) fn counted(&self, name: &str, expected: u64) -> anyhow::Result<()> {
        let count = self.host.counted(name);
        ensure!(count == Some(expected), "the card counted {count:?} {name} (not {expected})");
        Ok(())
    }
}

/// Fails if the card refused a command.
fn done(done: Done<InMemory>) -> anyhow::Result<()> {
    let Ok(done) = done;
    done.map_err(|refusal| anyhow!("the card refused a command: {refusal:?}"))
}
