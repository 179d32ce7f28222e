//! What a card says of itself, and whether it is one that this library knows.

use std::io;

use hamlyn_abi::family::identity::*;
use hamlyn_abi::family::interrupts::HAMLYN_REG_VECTORS;
use hamlyn_abi::family::link::HAMLYN_NO_HOST;
use hamlyn_abi::hamlyn::identity::{HAMLYN_ABI_VERSION, HAMLYN_MODEL_HAMLYN};
use hamlyn_abi::hamlyn::registers::*;
use hamlyn_abi::hamlyn::window::{
    HAMLYN_QUEUE_CONTROL_SIZE, HAMLYN_TERMINUS_CONTROL_SIZE, HAMLYN_WINDOW_SIZE,
};
use hamlyn_abi::uapi::{HAMLYN_UAPI_VERSION, HamlynQuery};

use super::client::{Client, MappableRegion};
use super::message::REGION_BAR0;
use super::sleeper::Control;
use crate::error::{Error, Result};

/// The first version of the card's ABI with a terminus control area.
const WAKES_SENDERS: u32 = 0x0002_0003;

/// What a driver would answer to a query, the host id left out.
pub(super) fn describe(client: &Client) -> io::Result<HamlynQuery> {
    let register = |offset| client.read_u32(REGION_BAR0, offset);
    Ok(HamlynQuery {
        uapi_version: HAMLYN_UAPI_VERSION,
        abi_version: register(HAMLYN_REG_ABI_VERSION)?,
        model: register(HAMLYN_REG_MODEL)?,
        host: HAMLYN_NO_HOST,
        packet_size: register(HAMLYN_REG_PACKET_SIZE)?,
        sram_size: register(HAMLYN_REG_SRAM_SIZE)?,
        termini: register(HAMLYN_REG_TERMINI)?,
        slots: register(HAMLYN_REG_SLOTS)?,
        queues: register(HAMLYN_REG_QUEUES)?,
        vectors: register(HAMLYN_REG_VECTORS)?,
        ..HamlynQuery::default()
    })
}

pub(super) fn check_card<F: FnOnce(io::Error) -> Error>(
    client: &Client,
    description: &HamlynQuery,
    failed: impl Fn() -> F,
) -> Result<()> {
    let magic = client.read_u32(REGION_BAR0, HAMLYN_REG_MAGIC).map_err(failed())?;
    if magic != HAMLYN_MAGIC {
        let (value, expected) = (magic.into(), HAMLYN_MAGIC.into());
        return Err(Error::Incompatible { object: "card magic", value, expected });
    }
    super::super::check_model(description.model, HAMLYN_MODEL_HAMLYN)?;
    super::super::check_version("card ABI version", description.abi_version, HAMLYN_ABI_VERSION)
}

/// The queue control area, behind the last window, and behind it that of the termini, if the card has one.
pub(super) fn map_control(windows: &MappableRegion, description: &HamlynQuery) -> io::Result<Control> {
    let offset = u64::from(description.termini) * u64::from(HAMLYN_WINDOW_SIZE);
    let queues = (description.queues.div_ceil(512).max(1) * HAMLYN_QUEUE_CONTROL_SIZE) as usize;
    let wakes_senders = description.abi_version >= WAKES_SENDERS;
    let termini = if wakes_senders { HAMLYN_TERMINUS_CONTROL_SIZE as usize } else { 0 };
    let control = Control::new(windows.map(offset, queues + termini)?, queues);
    if control.queues() < description.queues {
        return Err(io::Error::other(format!(
            "{} notification queues have no control word",
            description.queues
        )));
    }
    Ok(control)
}
