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
            .write(REGION_BAR0, HAMLYN_REG_COMMAND_PAGE.into(), &address)
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
        let mut head = HamlynCommand { opcode, index, ..HamlynCommand::default() };
        page.write(0, head.as_bytes())?;
        page.write(HAMLYN_COMMAND_BODY as usize, body)?;
        self.client.write_u32(REGION_BAR0, HAMLYN_REG_COMMAND_GO, 1).map_err(Error::system(action))?;
        let mut bytes = [0; size_of::<HamlynCommand>()];
        page.read(0, &mut bytes)?;
        if let Ok(answer) = HamlynCommand::read_from_bytes(&bytes) {
            head = answer;
        }
        if head.status != HAMLYN_STATUS_OK {
            let status = status_name(head.status);
            return Err(Error::Command { action, status, value: head.value, limit: head.limit });
        }
        page.read(HAMLYN_COMMAND_BODY as usize, result)
    }
}

fn status_name(status: u32) -> &'static str {
    match status {
        HAMLYN_STATUS_BAD_OPCODE => "no such operation",
        HAMLYN_STATUS_BAD_INDEX => "index out of range",
        HAMLYN_STATUS_IN_USE => "in use",
        HAMLYN_STATUS_NOT_OPEN => "not open",
        HAMLYN_STATUS_BAD_LENGTH => "bad length",
        HAMLYN_STATUS_BAD_ADDRESS => "bad address",
        HAMLYN_STATUS_BAD_VALUE => "bad value",
        HAMLYN_STATUS_DMA_FAULT => "memory not reached",
        HAMLYN_STATUS_NO_PAGE => "no command page",
        HAMLYN_STATUS_MEMORY_FULL => MEMORY_FULL,
        _ => "unknown status",
    }
}
