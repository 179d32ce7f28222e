//! The command page, through which the driver's part makes the card change its tables.

use std::sync::{Arc, Mutex, PoisonError};

use hamlyn_abi::family::command::*;
use zerocopy::{FromBytes, IntoBytes};

use super::client::Client;
use super::message::REGION_BAR0;
use crate::core::memory::Memory;
use crate::error::{Error, Result};

/// Status in [`Error::Command`] of a card whose memory is full.
pub(crate) const MEMORY_FULL: &str = "card memory full";

/// The command page. Commands run one at a time.
#[derive(Debug)]
pub(crate) struct Commands {
    client: Arc<Client>,
    page: Mutex<Memory>,
}

impl Commands {
    /// Registers the page with the card.
    pub(crate) fn start(client: Arc<Client>, page: Memory) -> Result<Self> {
        let address = page.card_address().to_le_bytes();
        client
            .write(REGION_BAR0, ULN_REG_COMMAND_PAGE.into(), &address)
            .map_err(Error::system("set the command page"))?;
        Ok(Self { client, page: Mutex::new(page) })
    }

    /// Runs a command.
    pub(crate) fn run(&self, action: &'static str, opcode: u32, index: u32, body: &[u8]) -> Result<()> {
        self.run_and_read(action, opcode, index, body, &mut [])
    }

    /// Runs a command and reads the body that the card leaves.
    pub(crate) fn run_and_read(
        &self,
        action: &'static str,
        opcode: u32,
        index: u32,
        body: &[u8],
        result: &mut [u8],
    ) -> Result<()> {
        let page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        let mut head = UlnCommand { opcode, index, ..UlnCommand::default() };
        page.write(0, head.as_bytes())?;
        page.write(ULN_COMMAND_BODY as usize, body)?;
        self.client.write_u32(REGION_BAR0, ULN_REG_COMMAND_GO, 1).map_err(Error::system(action))?;
        let mut bytes = [0; size_of::<UlnCommand>()];
        page.read(0, &mut bytes)?;
        if let Ok(answer) = UlnCommand::read_from_bytes(&bytes) {
            head = answer;
        }
        if head.status != ULN_STATUS_OK {
            let status = status_name(head.status);
            return Err(Error::Command { action, status, value: head.value, limit: head.limit });
        }
        page.read(ULN_COMMAND_BODY as usize, result)
    }
}

fn status_name(status: u32) -> &'static str {
    match status {
        ULN_STATUS_BAD_OPCODE => "no such operation",
        ULN_STATUS_BAD_INDEX => "index out of range",
        ULN_STATUS_IN_USE => "in use",
        ULN_STATUS_NOT_OPEN => "not open",
        ULN_STATUS_BAD_LENGTH => "bad length",
        ULN_STATUS_BAD_ADDRESS => "bad address",
        ULN_STATUS_BAD_VALUE => "bad value",
        ULN_STATUS_DMA_FAULT => "memory not reached",
        ULN_STATUS_NO_PAGE => "no command page",
        ULN_STATUS_MEMORY_FULL => MEMORY_FULL,
        _ => "unknown status",
    }
}
