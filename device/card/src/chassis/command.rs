//! The command page (section 3.1): where the driver says what it wants, and the card what came of
//! it.
//!
//! Each command is carried out whole, or refused and changes nothing. What the operations are is
//! the model's, but for the two that all cards have.

use hamlyn_abi::family::command::*;
use zerocopy::{FromBytes, IntoBytes};

use super::refusal::Refusal;
use crate::ports::{Dma, VolatileSlice, read_value, write_value};

/// Where the page is, and the status of the last command.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommandPage {
    address: u64,
    status: u32,
}

impl CommandPage {
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn status(&self) -> u32 {
        self.status
    }

    /// Misaligned bits cannot be set.
    pub(super) fn set_address(&mut self, address: u64) {
        self.address = address & !u64::from(HAMLYN_COMMAND_PAGE_SIZE - 1);
    }

    /// The command that is to be carried out. `None`: there is no such page, and the status says
    /// so.
    pub fn take(&mut self, dma: &dyn Dma) -> Option<HamlynCommand> {
        let command = read_value(dma, self.address);
        if command.is_err() {
            self.status = HAMLYN_STATUS_NO_PAGE;
        }
        command.ok()
    }

    /// Says what came of the command, in the page and in the register.
    pub fn answer(&mut self, dma: &dyn Dma, mut command: HamlynCommand, result: Result<(), Refusal>) {
        let said = result.err().unwrap_or(Refusal::new(HAMLYN_STATUS_OK, 0_u32, 0_u32));
        (command.status, command.value, command.limit) = (said.status, said.value, said.limit);
        if command.status != HAMLYN_STATUS_OK {
            tracing::debug!(?command, "command refused");
        }
        self.status = match write_value(dma, self.address, command) {
            Ok(()) => command.status,
            Err(_) => HAMLYN_STATUS_NO_PAGE,
        };
    }

    /// The operation's own structure.
    pub fn body<T: FromBytes + IntoBytes>(&self, dma: &dyn Dma) -> Result<T, Refusal> {
        Ok(read_value(dma, self.body_address())?)
    }

    /// [`HAMLYN_COMMAND_READ_STATISTICS`]: writes the counters to the body.
    pub fn write_counters<const N: usize>(&self, dma: &dyn Dma, counters: [u64; N]) -> Result<(), Refusal> {
        self.write_body(dma, counters)
    }

    /// Writes what an operation has to answer to the body.
    pub fn write_body<T: FromBytes + IntoBytes>(&self, dma: &dyn Dma, answer: T) -> Result<(), Refusal> {
        Ok(write_value(dma, self.body_address(), answer)?)
    }

    /// [`HAMLYN_COMMAND_TEST_DMA`].
    pub fn test_dma(&self, dma: &dyn Dma) -> Result<(), Refusal> {
        let test: HamlynTestDma = self.body(dma)?;
        if test.length == 0 || test.length > 4096 {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_LENGTH, test.length, 4096_u32));
        }
        let mut page = [0; 4096];
        let bytes = &mut page[..test.length as usize];
        dma.read(test.from, VolatileSlice::from(&mut *bytes))?;
        Ok(dma.write(test.to, VolatileSlice::from(bytes))?)
    }

    fn body_address(&self) -> u64 {
        self.address + u64::from(HAMLYN_COMMAND_BODY)
    }
}
