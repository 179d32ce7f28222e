//! What the driver says of pages (section 3). It does so by registers, as it has to say it where it can wait for nothing.

use hamlyn_abi::dart::fifo::DART_FIFO_MISSES;
use hamlyn_abi::dart::registers::{DART_FRAME_NONE, DART_FRAME_WRITABLE};
use hamlyn_card::ports::Ports;

use crate::DartCard;
use crate::endpoints::{Endpoint, PAGE};
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
        let frame = (frame & DART_FRAME_NONE == 0)
            .then_some(Frame { address: frame & !(PAGE - 1), writable: frame & DART_FRAME_WRITABLE != 0 });
        if let Some(frame) = frame {
            self.tlb.fill(page, frame);
        }
        for index in self.fill_waits(ports, page, frame) {
            self.run(ports, index);
            self.stir(index);
            // Those that were filled before may have been taken back meanwhile.
            self.ask_again(ports, index);
        }
    }

    /// Those connections that waited for a page.
    fn fill_waits(&mut self, ports: &Ports<'_>, page: Page, frame: Option<Frame>) -> Vec<u32> {
        let (mut ready, mut passed) = (Vec::new(), Vec::new());
        let is_written = frame.is_none() && self.is_to_be_written(page);
        for (index, connection) in self.connections.iter_mut().enumerate() {
            let Some(connection) = connection else { continue };
            let endpoint = self.endpoints.get(connection.endpoint as usize).and_then(Option::as_ref);
            if endpoint.and_then(Endpoint::space) != Some(page.space) {
                continue;
            }
            let waits = [&mut connection.receiving.wait, &mut connection.sending.wait];
            for wait in waits {
                // There may be a page for reading, though none for writing: who reads asks again.
                if is_written && wait.missing.get(&page.number) == Some(&false) {
                    passed.push(index as u32);
                } else if wait.fill(page.number, frame) {
                    ready.push(index as u32);
                }
            }
        }
        for index in passed {
            self.tell(ports, DART_FIFO_MISSES | index);
        }
        ready
    }

    /// Whether somebody waits for the page to write to it.
    fn is_to_be_written(&self, page: Page) -> bool {
        self.connections.iter().flatten().any(|connection| {
            let endpoint = self.endpoints.get(connection.endpoint as usize).and_then(Option::as_ref);
            let mut waits = [&connection.receiving.wait, &connection.sending.wait].into_iter();
            endpoint.and_then(Endpoint::space) == Some(page.space)
                && waits.any(|wait| wait.missing.get(&page.number) == Some(&true))
        })
    }

    fn ask_again(&mut self, ports: &Ports<'_>, index: u32) {
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
