//! The Tripwires of an endpoint.

use hamlyn_abi::clan::endpoint::CLAN_MAX_TRIPWIRES;

use crate::error::{Error, Result};

/// The Tripwires of an endpoint that are in use, and the last serial number sent for each.
#[derive(Debug)]
pub(crate) struct Places {
    count: u32,
    used: u32,
    serials: [u16; CLAN_MAX_TRIPWIRES as usize],
}

impl Places {
    pub(crate) fn new(count: u32) -> Self {
        Self { count: count.min(CLAN_MAX_TRIPWIRES), used: 0, serials: Default::default() }
    }

    pub(crate) fn take(&mut self) -> Result<u32> {
        let free = (0..self.count).find(|index| self.used & 1 << index == 0);
        let Some(index) = free else {
            let remedy = "drop some, or open an endpoint with more (EndpointBuilder::tripwires)";
            return Err(Error::Exhausted { object: "Tripwires of the endpoint", limit: self.count, remedy });
        };
        self.used |= 1 << index;
        Ok(index)
    }

    /// Returns whether no Tripwire is in use.
    pub(crate) fn are_free(&self) -> bool {
        self.used == 0
    }

    pub(crate) fn next_serial(&mut self, index: u32) -> u16 {
        let serial = &mut self.serials[index as usize];
        *serial = serial.wrapping_add(1);
        *serial
    }

    /// Makes a Tripwire available again.
    pub(crate) fn free(&mut self, index: u32) {
        self.used &= !(1 << index);
    }
}
