//! Pages as the driver reports them (section 3). It does so by registers, because it must report
//! them where it cannot wait.

use std::ops::Range;

use hamlyn_abi::dart::registers::{DART_FRAME_NONE, DART_FRAME_WRITABLE};

use crate::endpoints::{PAGE, Wait};
use crate::tlb::{Frame, Page};

/// The registers in which the driver names the page that it reports on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FillRegisters {
    space: u32,
    /// Virtual address, in pages.
    page: u64,
}

/// The driver's report that a page is there, or nowhere.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) page: Page,
    pub(crate) frame: Option<Frame>,
    /// There may be a page for reading, but none for writing. Waiting readers are then answered
    /// separately.
    writers_alone: bool,
}

impl FillRegisters {
    pub(crate) fn set_space(&mut self, space: u32) {
        self.space = space;
    }

    pub(crate) fn set_page(&mut self, address: u64) {
        self.page = address / PAGE;
    }

    /// Returns the report in the register for frames.
    pub(crate) fn report(&self, frame: u64) -> Report {
        let writable = frame & DART_FRAME_WRITABLE != 0;
        let found =
            (frame & DART_FRAME_NONE == 0).then_some(Frame { address: frame & !(PAGE - 1), writable });
        let writers_alone = found.is_none() && writable;
        Report { page: Page { space: self.space, number: self.page }, frame: found, writers_alone }
    }

    /// Returns the address space and the numbers of `count` pages from the told one on.
    pub(crate) fn range(&self, count: u64) -> (u32, Range<u64>) {
        let Self { space, page } = *self;
        (space, page..page.saturating_add(count))
    }
}

impl Report {
    /// Passes the report to a message that may wait for the page. Returns whether it did.
    pub(crate) fn fill(&self, wait: &mut Wait) -> bool {
        let is_meant = !self.writers_alone || wait.missing.get(&self.page.number) == Some(&true);
        is_meant && wait.fill(self.page.number, self.frame)
    }
}
