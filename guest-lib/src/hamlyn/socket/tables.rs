//! The open objects of a card's socket, as a driver knows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hamlyn_abi::uapi::UlnQuery;
use hamlyn_sys::hamlyn::window::{QueueEntries, StatusWords};

use crate::core::memory::Memory;
use crate::core::model::Shared;
use crate::core::socket::sleeper::Sleeper;
use crate::error::{Error, Result};
use crate::hamlyn::attach::NO_COMPLETIONS;

/// The open objects, with the memory that the driver keeps for them.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) termini: BTreeMap<u32, Terminus>,
    pub(super) queues: BTreeMap<u32, Queue>,
    pub(super) slots: BTreeMap<u32, Vec<Memory>>,
}

#[derive(Debug)]
pub(super) struct Terminus {
    pub(super) status: Arc<StatusWords>,
    /// `None` if the card has no wake-up for completions.
    pub(super) sleeper: Option<Arc<Sleeper>>,
    pub(super) _memory: Memory,
    /// Page lists of the send buffers, by tag.
    pub(super) buffers: BTreeMap<u32, Memory>,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) entries: Arc<QueueEntries>,
    pub(super) sleeper: Arc<Sleeper>,
    pub(super) _memory: [Memory; 2],
}

impl Tables {
    pub(super) fn sleeper(&self, queue: u32) -> Result<(Arc<QueueEntries>, Arc<Sleeper>)> {
        match self.queues.get(&queue) {
            Some(found) => Ok((found.entries.clone(), found.sleeper.clone())),
            None => Err(Error::Invalid("the notification queue is not open")),
        }
    }

    pub(super) fn sleeper_of(&self, terminus: u32) -> Result<(Arc<StatusWords>, Arc<Sleeper>)> {
        let found = self.termini.get(&terminus).ok_or(Error::Invalid("the terminus is not open"))?;
        let sleeper = found.sleeper.clone().ok_or(Error::Unsupported(NO_COMPLETIONS))?;
        Ok((found.status.clone(), sleeper))
    }
}

/// Returns the first free number in a table of an object of which the card has a limited number.
pub(super) fn free_index<T>(table: &BTreeMap<u32, T>, card: &UlnQuery, shared: &Shared) -> Result<u32> {
    let (object, limit, remedy) = (shared.object, (shared.limit)(card), shared.remedy);
    let free = (0..limit).find(|index| !table.contains_key(index));
    free.ok_or(Error::Exhausted { object, limit, remedy })
}
