//! Loads that processors wait for.

use std::collections::BTreeMap;

use hamlyn_abi::clan::endpoint::CLAN_FAULT_TIMEOUT;

use crate::engine::violation::{Violation, ensure};

use super::faults::Cause;
use super::objects::{Accesses, Window};
use super::standing::Standing;

/// A load that a processor waits for.
#[derive(Debug)]
pub(super) struct Load {
    /// The first page of its window.
    first: u32,
    window: Window,
    offset: u64,
    width: u8,
    since: u64,
    owner: u32,
    /// Its expected value, once that is known.
    value: Option<u64>,
    /// The accesses that it then has made.
    accesses: Option<Accesses>,
    refused: u32,
    /// Its window or card is gone: it may read as ones for that reason.
    is_cut: bool,
}

impl Load {
    pub(super) fn new(
        (first, window): (u32, Window),
        offset: u64,
        width: u8,
        since: u64,
        owner: u32,
    ) -> Self {
        let (value, accesses, refused, is_cut) = (None, None, 0, false);
        Self { first, window, offset, width, since, owner, value, accesses, refused, is_cut }
    }
}

/// The end of a load.
#[derive(Debug)]
pub(super) enum Loaded {
    /// It has made accesses.
    Made(Option<Accesses>),
    /// It has failed. An endpoint may be told of the fault, and must be if the last is `true`.
    Failed(u32, Cause, bool),
}

/// The loads of a card.
#[derive(Debug, Default)]
pub(super) struct Loads {
    /// By the card's numbers for them.
    waiting: BTreeMap<u64, Load>,
    /// For each host that has not answered a load in time, when the card must make loads of it
    /// again.
    late: BTreeMap<u32, u64>,
}

impl Loads {
    pub(super) fn begin(&mut self, number: u64, load: Load) {
        self.waiting.insert(number, load);
    }

    pub(super) fn is_waiting(&self, number: u64) -> bool {
        self.waiting.contains_key(&number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns when the card must make loads of a host again.
    pub(super) fn late_until(&self, host: u32) -> u64 {
        self.late.get(&host).copied().unwrap_or(0)
    }

    pub(super) fn cut(&mut self, first: u32) {
        let own = self.waiting.values_mut().filter(|load| load.first == first);
        own.for_each(|load| load.is_cut = true);
    }

    pub(super) fn is_awaited(&self, first: u32) -> bool {
        self.waiting.values().any(|load| load.first == first)
    }

    /// Notes the value and the accesses that a load must have.
    pub(super) fn answer(&mut self, number: u64, value: u64, accesses: Accesses) {
        if let Some(load) = self.waiting.get_mut(&number) {
            load.value = Some(value);
            load.accesses = Some(Accesses { owner: load.owner, ..accesses });
        }
    }

    pub(super) fn refuse(&mut self, number: u64, reason: u32) {
        if let Some(load) = self.waiting.get_mut(&number) {
            load.refused = reason;
        }
    }

    /// Ends a load that has got its value: the data that was there, or ones with a fault. Returns
    /// the accesses that it has made, or else the endpoint and the fault. `is_dropped` tells
    /// whether it has not left, and never will, as its host was given up.
    pub(super) fn end(
        &mut self,
        (number, value): (u64, u64),
        (host, standing): (u16, &Standing),
        (now, timeout): (u64, u64),
        is_dropped: bool,
    ) -> Result<Loaded, Violation> {
        let load = self.waiting.remove(&number).ok_or_else(|| {
            Violation::new(format!("host {host}: load {number} is answered, and does not wait"))
        })?;
        let (window, ones) = (&load.window, u64::MAX >> (64 - 8 * u32::from(load.width)));
        if let Some(known) = load.value {
            ensure(value & ones == known, || {
                format!("host {host}: a load says {value:#x}, and {known:#x} came: {load:x?}")
            })?;
            return Ok(Loaded::Made(load.accesses));
        }
        let is_late = now >= load.since + timeout;
        let is_odd = standing.is_in_trouble(host, window.host);
        ensure(value & ones == ones, || {
            format!("host {host}: a load that failed does not read as ones: {load:x?}")
        })?;
        // It was refused, or not answered in time, or the link is down.
        ensure(load.refused != 0 || is_late || load.is_cut || is_dropped || is_odd, || {
            format!("host {host}: a load failed for no reason: {load:x?}")
        })?;
        if load.refused == 0 && is_late {
            // The next loads may fail at once, for 20 times as long.
            self.late.insert(window.host, now + 20 * timeout);
        }
        let reason = if load.refused == 0 { CLAN_FAULT_TIMEOUT } else { load.refused };
        let cause = (reason, window.host, window.aperture, load.offset);
        Ok(Loaded::Failed(window.endpoint, cause, !load.is_cut))
    }
}
