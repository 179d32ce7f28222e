//! Changes the pages that a DART card reports to its driver as awaited by a message, and counts
//! what the driver does with them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use hamlyn_abi::dart::command::{
    DART_COMMAND_OPEN_ENDPOINT, DART_COMMAND_READ_MISSES, DartMisses, DartOpenEndpoint,
};
use hamlyn_abi::dart::registers::{
    DART_FRAME_NONE, DART_REG_TLB_FILL, DART_REG_TLB_PAGE, DART_REG_TLB_SPACE,
};
use hamlyn_abi::family::command::{ULN_COMMAND_BODY, ULN_COMMAND_PAGE_SIZE, UlnCommand};
use zerocopy::FromBytes;

const PAGE: u64 = 4096;

/// The command that the card is executing, the endpoints, and the page that the driver is
/// reporting.
#[derive(Default)]
pub(crate) struct Misses {
    command: Cell<(u32, u32)>,
    endpoints: RefCell<HashMap<u64, DartOpenEndpoint>>,
    space: Cell<u64>,
    page: Cell<u64>,
    /// Number of times that the driver reported the location of a page outside the endpoint.
    pub(crate) told_outside: Cell<u64>,
}

impl Misses {
    /// Records a read by the card from host memory.
    pub(crate) fn read(&self, address: u64, bytes: &[u8]) {
        if address % u64::from(ULN_COMMAND_PAGE_SIZE) == 0
            && let Ok(command) = UlnCommand::read_from_bytes(bytes)
        {
            self.command.set((command.opcode, command.index));
        }
        let (opcode, index) = self.command.get();
        if opcode == DART_COMMAND_OPEN_ENDPOINT
            && is_body(address)
            && let Ok(endpoint) = DartOpenEndpoint::read_from_bytes(bytes)
        {
            self.endpoints.borrow_mut().insert(index.into(), endpoint);
        }
    }

    /// Returns whether the card writes the pages that a message waits for to this address.
    pub(crate) fn are_at(&self, address: u64) -> bool {
        self.command.get().0 == DART_COMMAND_READ_MISSES && is_body(address)
    }

    /// Changes the number of pages, or one page: to a page next to the endpoint, or to the result
    /// of `lie`.
    pub(crate) fn change(&self, bytes: &mut [u8], random: u64, lie: impl Fn(u64, usize) -> u64) {
        let Ok(misses) = DartMisses::mut_from_bytes(bytes) else { return };
        let page = &mut misses.pages[random as usize / 8 % 4];
        let endpoints = self.endpoints.borrow();
        let endpoint = endpoints.get(&misses.space.into()).copied().unwrap_or_default();
        match random % 4 {
            0 => misses.count = lie(misses.count.into(), 4) as u32,
            1 => *page = endpoint.base.wrapping_sub(PAGE) & !(PAGE - 1),
            2 => *page = (endpoint.base + endpoint.length).next_multiple_of(PAGE),
            _ => *page = lie(*page, 8),
        }
    }

    /// Records a store by the driver to a register.
    pub(crate) fn stored(&self, offset: u64, value: u64) {
        match u32::try_from(offset) {
            Ok(DART_REG_TLB_SPACE) => self.space.set(value),
            Ok(DART_REG_TLB_PAGE) => self.page.set(value),
            Ok(DART_REG_TLB_FILL) if value & DART_FRAME_NONE == 0 => {
                let endpoints = self.endpoints.borrow();
                let inside = endpoints.get(&self.space.get()).is_some_and(|endpoint| {
                    let (page, first) = (self.page.get(), endpoint.base & !(PAGE - 1));
                    (first..endpoint.base + endpoint.length).contains(&page)
                });
                self.told_outside.set(self.told_outside.get() + u64::from(!inside));
            }
            _ => {}
        }
    }
}

fn is_body(address: u64) -> bool {
    address % u64::from(ULN_COMMAND_PAGE_SIZE) == u64::from(ULN_COMMAND_BODY)
}
