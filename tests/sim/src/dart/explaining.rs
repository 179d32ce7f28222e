//! Explains the effects that a card has caused. There must be an order of the waiting messages that
//! leads to the card's registers, memory and queues. Messages take effect one at a time, and those
//! of one connection keep the order in which they came.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};

use crate::engine::violation::{Violation, ensure};

use super::trial::{Effects, Facts, Trial, Waits};

/// Maximum number of orders that are tried.
const TRIALS: u32 = 50_000;

/// An order that explains all effects.
#[derive(Debug)]
pub(super) struct Explanation {
    pub(super) effects: Effects,
    /// What the messages that are left wait for.
    pub(super) waits: Waits,
}

/// Which messages may wait for a page that they no longer need.
///
/// The card looks at a waiting message again when the driver has told it where its pages are.
/// Meanwhile its registers may change, and with them the pages that it needs. The first variant
/// that allows an order is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stale {
    None,
    /// Those that were known to wait for it.
    Known,
    /// All messages.
    Any,
}

/// A search for an order.
#[derive(Debug)]
struct Search<'a> {
    facts: &'a Facts<'a>,
    /// All address registers after the effects.
    registers: Vec<u64>,
    misses: BTreeMap<u32, Vec<(u64, bool)>>,
    trials: u32,
    /// States of earlier orders that failed.
    vain: HashSet<u64>,
    stale: Stale,
}

/// Explains what a card has done.
pub(super) fn explain(facts: &Facts<'_>) -> Result<Explanation, Violation> {
    let mut search = Search {
        facts,
        registers: facts.machine.all_registers()?,
        misses: BTreeMap::new(),
        trials: 0,
        vain: HashSet::new(),
        stale: Stale::None,
    };
    for stale in [Stale::None, Stale::Known, Stale::Any] {
        search.stale = stale;
        search.vain.clear();
        if let Some(trial) = search.search(&Trial::new(facts))? {
            let full = facts.ends.keys().copied().filter(|index| trial.is_full(*index)).collect();
            return Ok(Explanation { effects: trial.effects, waits: Waits { full, misses: search.misses } });
        }
    }
    let Facts { machine, counts, writes, ends, .. } = facts;
    Err(Violation::new(format!(
        "host {}: no order of its messages explains what the card did: {counts:?}, {} bytes; {ends:?}",
        machine.id,
        writes.len(),
    )))
}

impl<'a> Search<'a> {
    fn search(&mut self, trial: &Trial<'a>) -> Result<Option<Trial<'a>>, Violation> {
        self.trials += 1;
        ensure(self.trials < TRIALS, || {
            format!("host {}: too many orders of messages for what the card did", self.facts.machine.id)
        })?;
        if trial.is_over() {
            if self.agrees(trial)? {
                return Ok(Some(trial.clone()));
            }
            if trial.effects.steps.is_empty() {
                return Ok(None);
            }
        }
        // Independent messages have the same effects in any order.
        if !self.vain.insert(trial.state()) {
            return Ok(None);
        }
        for index in trial.candidates() {
            for next in trial.next(index) {
                if let Some(found) = self.search(&next)? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// Returns whether the registers match, and each waiting message has a reason to wait.
    fn agrees(&mut self, trial: &Trial<'_>) -> Result<bool, Violation> {
        if trial.effects.registers != self.registers {
            return Ok(false);
        }
        for index in self.facts.ends.keys() {
            if !self.waits(trial, *index)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether a connection's next message, if any, has to wait.
    fn waits(&mut self, trial: &Trial<'_>, index: u32) -> Result<bool, Violation> {
        let Some((end, _)) = trial.front(index) else { return Ok(true) };
        let machine = self.facts.machine;
        // A turn that was too short continues at the card's alarm, which is due at once.
        if end.terms().is_system || trial.is_full(index) || machine.is_due() {
            return Ok(true);
        }
        let misses = match self.misses.entry(index) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(machine.misses(index)?.1),
        };
        let asked = self.facts.waits.misses.get(&index).map_or(&[][..], Vec::as_slice);
        Ok(match self.stale {
            Stale::Any if !misses.is_empty() => true,
            Stale::Known if trial.is_untouched(index) && misses.iter().any(|miss| asked.contains(miss)) => {
                true
            }
            _ => trial.needs(index).iter().any(|page| misses.contains(page)),
        })
    }
}
