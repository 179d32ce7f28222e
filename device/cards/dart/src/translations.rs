//! What the driver says of pages (section 3). It does so by registers, as it has to say it where it
//! can wait for nothing.

use hamlyn_abi::dart::fifo::DART_FIFO_MISSES;
use hamlyn_abi::dart::registers::{DART_FRAME_NONE, DART_FRAME_WRITABLE};
use hamlyn_card::ports::Ports;

use crate::DartCard;
use crate::endpoints::{Endpoint, PAGE, Wait};
use crate::tlb::{Frame, Page};

/// Which page the driver speaks of.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Told {
    pub(crate) space: u32,
    /// Virtual address, in pages.
    pub(crate) page: u64,
}

impl DartCard {
    /// The page is there, or nowhere.
    pub(super) fn fill(&mut self, ports: &Ports<'_>, frame: u64) {
        let page = Page { space: self.told.space, number: self.told.page };
        let writable = frame & DART_FRAME_WRITABLE != 0;
        let found =
            (frame & DART_FRAME_NONE == 0).then_some(Frame { address: frame & !(PAGE - 1), writable });
        if let Some(frame) = found {
            self.tlb.fill(page, frame);
        }
        // There may be a page for reading, though none for writing: who reads is answered for
        // himself.
        let writers_alone = found.is_none() && writable;
        for index in self.fill_waits(page, found, writers_alone) {
            if !self.busy.contains(&index) {
                self.busy.push_back(index);
            }
        }
        self.run_busy(ports);
    }

    /// Those connections that waited for a page.
    fn fill_waits(&mut self, page: Page, frame: Option<Frame>, writers_alone: bool) -> Vec<u32> {
        let mut ready = Vec::new();
        for (index, connection) in self.connections.iter_mut().enumerate() {
            let Some(connection) = connection else { continue };
            let endpoint = self.endpoints.get(connection.endpoint as usize).and_then(Option::as_ref);
            if endpoint.and_then(Endpoint::space) != Some(page.space) {
                continue;
            }
            let waits = [&mut connection.receiving.wait, &mut connection.sending.wait];
            let is_meant = |wait: &Wait| !writers_alone || wait.missing.get(&page.number) == Some(&true);
            let filled = waits.map(|wait| is_meant(wait) && wait.fill(page.number, frame));
            if filled.contains(&true) {
                ready.push(index as u32);
            }
        }
        ready
    }

    pub(super) fn ask_again(&mut self, ports: &Ports<'_>, index: u32) {
        let connection = self.connections.get(index as usize).and_then(Option::as_ref);
        let waits = connection.is_some_and(|connection| {
            !connection.receiving.wait.missing.is_empty() || !connection.sending.wait.missing.is_empty()
        });
        if waits {
            self.tell(ports, DART_FIFO_MISSES | index);
        }
    }

    /// So many pages are no longer where they were.
    pub(super) fn invalidate(&mut self, count: u64) {
        let Told { space, page } = self.told;
        let numbers = page..page.saturating_add(count);
        self.tlb.invalidate(space, numbers.clone());
        for connection in self.connections.iter_mut().flatten() {
            let endpoint = self.endpoints.get(connection.endpoint as usize).and_then(Option::as_ref);
            if endpoint.and_then(Endpoint::space) == Some(space) {
                connection.receiving.wait.invalidate(&numbers);
                connection.sending.wait.invalidate(&numbers);
            }
        }
    }
}
