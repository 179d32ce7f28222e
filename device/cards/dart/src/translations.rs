//! Pages as the driver reports them (section 3). It does so by registers, because it must report
//! them where it cannot wait.

use hamlyn_abi::dart::fifo::DART_FIFO_MISSES;
use hamlyn_abi::dart::registers::{DART_FRAME_NONE, DART_FRAME_WRITABLE};
use hamlyn_card::ports::Ports;

use crate::DartCard;
use crate::endpoints::{Endpoint, PAGE, Wait};
use crate::tlb::{Frame, Page};

/// The page that the driver reports on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Told {
    pub(crate) space: u32,
    /// Virtual address, in pages.
    pub(crate) page: u64,
}

impl DartCard {
    /// Handles the driver's report that a page is there, or nowhere.
    pub(super) fn fill(&mut self, ports: &Ports<'_>, frame: u64) {
        let page = Page { space: self.told.space, number: self.told.page };
        let writable = frame & DART_FRAME_WRITABLE != 0;
        let found =
            (frame & DART_FRAME_NONE == 0).then_some(Frame { address: frame & !(PAGE - 1), writable });
        if let Some(frame) = found {
            self.tlb.fill(page, frame);
        }
        // There may be a page for reading, but none for writing. Waiting readers are then answered
        // separately.
        let writers_alone = found.is_none() && writable;
        for index in self.fill_waits(page, found, writers_alone) {
            if !self.busy.contains(&index) {
                self.busy.push_back(index);
            }
        }
        self.run_busy(ports);
    }

    /// Passes the report to the connections that wait for the page. Returns these connections.
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

    /// Handles the driver's report that `count` pages have moved or gone.
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
