//! The command page (section 3.1): the driver writes a command there, and the card its result.
//!
//! A command is carried out completely, or refused without any effect. The operations belong to the
//! model, except for the two that all cards have.

use hamlyn_abi::family::command::*;
use zerocopy::{FromBytes, IntoBytes};

use super::refusal::Refusal;
use crate::ports::{Dma, VolatileSlice, read_value, write_value};

/// The address of the page and the status of the last command.
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

    /// Sets the address. The bits below the page's alignment are cleared.
    pub(super) fn set_address(&mut self, address: u64) {
        self.address = address & !u64::from(ULN_COMMAND_PAGE_SIZE - 1);
    }

    /// Reads the command to carry out. Returns `None` and sets the status if the page is not
    /// readable.
    pub fn take(&mut self, dma: &dyn Dma) -> Option<UlnCommand> {
        let command = read_value(dma, self.address);
        if command.is_err() {
            self.status = ULN_STATUS_NO_PAGE;
        }
        command.ok()
    }

    /// Writes the result of the command to the page and to the status register.
    pub fn answer(&mut self, dma: &dyn Dma, mut command: UlnCommand, result: Result<(), Refusal>) {
        let said = result.err().unwrap_or(Refusal::new(ULN_STATUS_OK, 0_u32, 0_u32));
        (command.status, command.value, command.limit) = (said.status, said.value, said.limit);
        if command.status != ULN_STATUS_OK {
            tracing::debug!(?command, "command refused");
        }
        self.status = match write_value(dma, self.address, command) {
            Ok(()) => command.status,
            Err(_) => ULN_STATUS_NO_PAGE,
        };
    }

    /// Reads the operation's own structure.
    pub fn body<T: FromBytes + IntoBytes>(&self, dma: &dyn Dma) -> Result<T, Refusal> {
        Ok(read_value(dma, self.body_address())?)
    }

    /// [`ULN_COMMAND_READ_STATISTICS`]: writes the counters to the body.
    pub fn write_counters<const N: usize>(&self, dma: &dyn Dma, counters: [u64; N]) -> Result<(), Refusal> {
        self.write_body(dma, counters)
    }

    /// Writes an operation's result to the body.
    pub fn write_body<T: FromBytes + IntoBytes>(&self, dma: &dyn Dma, answer: T) -> Result<(), Refusal> {
        Ok(write_value(dma, self.body_address(), answer)?)
    }

    /// [`ULN_COMMAND_TEST_DMA`].
    pub fn test_dma(&self, dma: &dyn Dma) -> Result<(), Refusal> {
        let test: UlnTestDma = self.body(dma)?;
        if test.length == 0 || test.length > 4096 {
            return Err(Refusal::new(ULN_STATUS_BAD_LENGTH, test.length, 4096_u32));
        }
        let mut page = [0; 4096];
        let bytes = &mut page[..test.length as usize];
        dma.read(test.from, VolatileSlice::from(&mut *bytes))?;
        Ok(dma.write(test.to, VolatileSlice::from(bytes))?)
    }

    fn body_address(&self) -> u64 {
        self.address + u64::from(ULN_COMMAND_BODY)
    }
}
