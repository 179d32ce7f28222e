//! The page table of the network interface, the NIPT (sections 3.1 and 4).

use std::collections::{HashMap, VecDeque};

use hamlyn_abi::family::command::{ULN_STATUS_BAD_INDEX, ULN_STATUS_BAD_VALUE};
use hamlyn_abi::shrimp::entry::*;
use hamlyn_card::chassis::refusal::Refusal;
use zerocopy::FromZeros;

use crate::{PAGE, Target};

/// Flags that withhold a part, by part.
const WITHHOLD: [u64; 2] = [SHRIMP_ENTRY_WITHHOLD_0, SHRIMP_ENTRY_WITHHOLD_1];
/// Flags that are a part of the entry; the others are about how it is set.
const KEPT: u64 = WITHHOLD[0] | WITHHOLD[1] | SHRIMP_ENTRY_SYSTEM;
const FLAGS: u64 = KEPT | SHRIMP_ENTRY_KEEP_MODES | SHRIMP_ENTRY_UNLESS_BUSY;

/// The table. Only pages that map something have an entry, so the size of the table depends on the
/// mapped pages, not on the host's memory.
#[derive(Debug)]
pub(crate) struct Nipt {
    pages: u32,
    entries: HashMap<u32, ShrimpEntry>,
    /// Pages whose stores must be seen from now on, or are no longer needed.
    watch: VecDeque<(u64, bool)>,
}

/// A part of a page that is mapped out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) mode: u32,
    /// The place where the requested byte arrives.
    pub(crate) target: Target,
    /// Offset in the page of the first byte behind the part.
    pub(crate) end: u64,
    /// Transfers from the page are the operating system's own.
    pub(crate) is_system: bool,
}

impl Part {
    /// Returns whether the bytes from `address` on may be sent by deliberate update.
    pub(crate) fn is_sent(&self, address: u64, length: u64) -> bool {
        self.mode == SHRIMP_MODE_DELIBERATE && address % PAGE + length <= self.end
    }
}

impl Nipt {
    pub(crate) fn new(pages: u32) -> Self {
        Self { pages, entries: HashMap::new(), watch: VecDeque::new() }
    }

    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    /// Removes all mappings.
    pub(crate) fn clear(&mut self) {
        let watched = self.entries.iter().filter(|(_, entry)| is_automatic(entry));
        let mut watched: Vec<u32> = watched.map(|(page, _)| *page).collect();
        // The map has an order of its own each time, and a card always does the same.
        watched.sort_unstable();
        self.watch.extend(watched.into_iter().map(|page| (page.into(), false)));
        self.entries.clear();
    }

    /// Returns what `entry` would make of a page's entry. Fails with the invalid value and its
    /// limit.
    pub(crate) fn prepare(&self, page: u32, mut entry: ShrimpEntry) -> Result<ShrimpEntry, Refusal> {
        if page >= self.pages {
            return Err(Refusal::new(ULN_STATUS_BAD_INDEX, page, self.pages));
        }
        check(&entry)?;
        if entry.flags & SHRIMP_ENTRY_KEEP_MODES != 0 {
            self.keep_modes(page, &mut entry);
        }
        entry.flags &= KEPT;
        Ok(entry)
    }

    /// Replaces an entry by a prepared one.
    pub(crate) fn set(&mut self, page: u32, entry: ShrimpEntry) {
        let before = if entry == ShrimpEntry::new_zeroed() {
            self.entries.remove(&page)
        } else {
            self.entries.insert(page, entry)
        };
        self.note(page, before.is_some_and(|before| is_automatic(&before)), is_automatic(&entry));
    }

    /// Returns whether bytes that are to be sent by deliberate update would still be sent, and to
    /// the same place.
    pub(crate) fn sends_alike(&self, address: u64, length: u64, now: &ShrimpEntry) -> bool {
        let part = part_of(now, address % PAGE).filter(|part| part.is_sent(address, length));
        part.is_some_and(|part| self.part_out(address).is_some_and(|before| before.target == part.target))
    }

    /// Keeps the modes that a process has set, for the parts that stay mapped to the same place or
    /// were withheld.
    fn keep_modes(&self, page: u32, entry: &mut ShrimpEntry) {
        let Some(before) = self.entries.get(&page) else { return };
        for (part, (now, was)) in entry.out.iter_mut().zip(&before.out).enumerate() {
            let stays = now.mode != SHRIMP_MODE_NONE && was.mode != SHRIMP_MODE_NONE;
            let moves = before.flags & WITHHOLD[part] != 0;
            if stays && (moves || (now.node, now.page) == (was.node, was.page)) {
                now.mode = was.mode;
            }
        }
    }

    fn note(&mut self, page: u32, before: bool, now: bool) {
        if before != now {
            self.watch.push_back((page.into(), now));
        }
    }

    /// Returns the next page whose stores must be seen from now on, or are no longer needed.
    pub(crate) fn watch_change(&mut self) -> Option<(u64, bool)> {
        self.watch.pop_front()
    }

    /// Returns the part of a page that contains a byte of the host's memory, if it is mapped out
    /// and not withheld.
    pub(crate) fn part_out(&self, address: u64) -> Option<Part> {
        let entry = u32::try_from(address / PAGE).ok().and_then(|page| self.entries.get(&page))?;
        part_of(entry, address % PAGE)
    }

    /// Returns whether each of `length` bytes, which lie in one page, is mapped out.
    pub(crate) fn is_mapped_out(&self, address: u64, length: u64) -> bool {
        [address, address + length - 1].into_iter().all(|end| self.part_out(end).is_some())
    }

    /// Returns whether any store to the page is sent automatically.
    pub(crate) fn is_automatic(&self, address: u64) -> bool {
        let entry = u32::try_from(address / PAGE).ok().and_then(|page| self.entries.get(&page));
        entry.is_some_and(is_automatic)
    }

    /// Returns the offset of the first byte behind the part of a page that contains a byte of the
    /// host's memory. The part need not be mapped out.
    pub(crate) fn part_end(&self, address: u64) -> u64 {
        let entry = u32::try_from(address / PAGE).ok().and_then(|page| self.entries.get(&page));
        let split = entry.map_or(0, |entry| u64::from(entry.split_out));
        if address % PAGE < split { split } else { PAGE }
    }

    /// Changes the update mode of a part that is mapped out.
    pub(crate) fn set_mode(&mut self, address: u64, mode: u32) -> Option<()> {
        self.part_out(address).filter(|_| is_mode(mode) && mode != SHRIMP_MODE_NONE)?;
        let page = (address / PAGE) as u32;
        let entry = self.entries.get_mut(&page)?;
        let before = is_automatic(entry);
        entry.out[usize::from(address % PAGE >= entry.split_out.into())].mode = mode;
        let now = is_automatic(entry);
        self.note(page, before, now);
        Some(())
    }

    /// Returns whether to report an arrival, if each of `length` bytes, which lie in one page, is
    /// mapped in for this host. Otherwise returns `None`.
    pub(crate) fn takes(&self, address: u64, length: u64, node: u16) -> Option<bool> {
        let page = u32::try_from(address / PAGE).ok()?;
        let (first, last) = (address % PAGE, address % PAGE + length - 1);
        let entry = self.entries.get(&page)?;
        let split = u64::from(entry.split_in);
        let touched = [first < split, last >= split];
        let mut parts = entry.incoming.iter().zip(touched).filter(|(_, touched)| *touched);
        let mapped = |part: &ShrimpIn| part.nodes & bit_of(node) != 0;
        parts
            .clone()
            .all(|(part, _)| mapped(part))
            .then(|| parts.any(|(part, _)| part.flags & SHRIMP_IN_REPORT != 0))
    }

    /// Returns whether any byte of a page is mapped in.
    pub(crate) fn is_mapped_in(&self, page: u32) -> bool {
        let entry = self.entries.get(&page);
        entry.is_some_and(|entry| entry.incoming.iter().any(|part| part.nodes != 0))
    }
}

/// Returns the bit of a host in [`ShrimpIn::nodes`]. A host that has no bit there can store to
/// nothing.
fn bit_of(node: u16) -> u64 {
    if u32::from(node) < SHRIMP_IN_NODES { 1 << node } else { 0 }
}

/// Returns whether the page's stores must be seen.
fn is_automatic(entry: &ShrimpEntry) -> bool {
    entry.out.iter().any(|out| matches!(out.mode, SHRIMP_MODE_SINGLE | SHRIMP_MODE_BLOCKED))
}

fn is_mode(mode: u32) -> bool {
    mode <= SHRIMP_MODE_DELIBERATE
}

/// Returns the part that contains the byte at `offset`, if it is mapped out and not withheld.
fn part_of(entry: &ShrimpEntry, offset: u64) -> Option<Part> {
    let split = u64::from(entry.split_out);
    let part = usize::from(offset >= split);
    let out = entry.out[part];
    let target = Target { node: out.node as u16, address: out.page * PAGE + offset };
    let is_open = out.mode != SHRIMP_MODE_NONE && entry.flags & WITHHOLD[part] == 0;
    let end = if part == 0 { split } else { PAGE };
    let is_system = entry.flags & SHRIMP_ENTRY_SYSTEM != 0;
    is_open.then_some(Part { mode: out.mode, target, end, is_system })
}

fn check(entry: &ShrimpEntry) -> Result<(), Refusal> {
    let at_most = |value: u64, limit: u64| {
        if value <= limit { Ok(()) } else { Err(Refusal::new(ULN_STATUS_BAD_VALUE, value, limit)) }
    };
    at_most(entry.flags, FLAGS)?;
    for split in [entry.split_out, entry.split_in] {
        at_most(split.into(), PAGE)?;
    }
    for out in &entry.out {
        at_most(out.mode.into(), SHRIMP_MODE_DELIBERATE.into())?;
        at_most(out.node.into(), u16::MAX.into())?;
        at_most(out.page, SHRIMP_SYSTEM_PAGE)?;
    }
    for part in &entry.incoming {
        at_most(part.flags.into(), SHRIMP_IN_REPORT.into())?;
        Refusal::unless_zero(part.reserved.into())?;
    }
    Ok(())
}
