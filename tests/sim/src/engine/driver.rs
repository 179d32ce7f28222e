//! Driver operations on a station that all card models share: power-on, and commands.

use std::fmt::{Arguments, Debug};

use hamlyn_test_host::{Commands, Refusal};
use zerocopy::{Immutable, IntoBytes};

use crate::engine::memory::{PAGE, Right};
use crate::engine::station::Station;
use crate::engine::violation::Violation;

/// A driver and its command page.
#[derive(Debug)]
pub(crate) struct Driver<'a> {
    station: &'a Station,
    page: u64,
}

impl<'a> Driver<'a> {
    /// Allows the card to use the command page.
    pub(crate) fn permit_page(station: &Station, page: u64) {
        for right in [Right::Read, Right::Write] {
            station.memory.permit(right, page, PAGE, true);
        }
    }

    pub(crate) fn new(station: &'a Station, page: u64) -> Self {
        Self { station, page }
    }

    /// Runs a command that must succeed.
    pub(crate) fn run(
        self,
        opcode: u32,
        index: u32,
        body: &(impl IntoBytes + Immutable),
    ) -> Result<(), Violation> {
        self.must(format_args!("command {opcode} on {index}"), |driver| driver.command(opcode, index, body))
    }

    /// Runs a named command of a model. The command must succeed.
    pub(crate) fn must(
        mut self,
        what: Arguments<'_>,
        act: impl FnOnce(&mut Self) -> Result<Result<(), Refusal>, Violation>,
    ) -> Result<(), Violation> {
        let id = self.station.id;
        let refused = |refusal| Violation::new(format!("host {id}: {what} was refused: {refusal:?}"));
        act(&mut self)?.map_err(refused)
    }
}

impl Commands for Driver<'_> {
    type Error = Violation;

    fn command_page(&self) -> u64 {
        self.page
    }

    fn put(&self, address: u64, bytes: &[u8]) {
        self.station.memory.poke(address, bytes);
    }

    fn get(&self, address: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.station.memory.peek(address, into.len()));
    }

    fn store(&mut self, register: u32, width: u8, value: u64) -> Result<(), Violation> {
        self.station.store(0, register.into(), width, value)
    }
}
