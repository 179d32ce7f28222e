//! The ledger's copy of the page tables, and random entries.

use std::collections::BTreeMap;
use std::ops::Range;

use hamlyn_abi::shrimp::entry::*;

use crate::engine::memory::PAGE;
use crate::engine::rng::Rng;

/// Entries of a card's page table. Host memory has more pages, and the size of BAR 2 is not a power
/// of two.
pub(super) const PAGES: u32 = 28;
/// Number of pages that processes may use, from page 1 on. It is more than the number of records of
/// the smallest arrival queue.
pub(super) const DATA_PAGES: u32 = 24;

/// A page table.
#[derive(Debug, Default)]
pub(super) struct Table(BTreeMap<u32, ShrimpEntry>);

/// The target of a stored byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) mode: u32,
    pub(super) node: u16,
    pub(super) address: u64,
    /// Transfers of the byte's page are the operating system's own.
    pub(super) is_system: bool,
}

fn split_of(page_offset: u64, split: u32) -> usize {
    usize::from(page_offset >= u64::from(split))
}

fn is_withheld(entry: &ShrimpEntry, part: usize) -> bool {
    entry.flags & [SHRIMP_ENTRY_WITHHOLD_0, SHRIMP_ENTRY_WITHHOLD_1][part] != 0
}

/// Returns the target of a byte of the page that has this entry.
pub(super) fn way_by(entry: &ShrimpEntry, address: u64) -> Option<Way> {
    let part = split_of(address % PAGE, entry.split_out);
    let out = entry.out[part];
    let there = out.page * PAGE + address % PAGE;
    let is_open = out.mode != SHRIMP_MODE_NONE && !is_withheld(entry, part);
    let is_system = out.page == SHRIMP_SYSTEM_PAGE || entry.flags & SHRIMP_ENTRY_SYSTEM != 0;
    is_open.then_some(Way { mode: out.mode, node: out.node as u16, address: there, is_system })
}

/// Returns whether the new entry sends the rest of a transfer to the same place as the entry before
/// it.
pub(super) fn goes_on(rest: &Range<u64>, before: &ShrimpEntry, now: &ShrimpEntry) -> bool {
    let place = |entry| way_by(entry, rest.start).map(|way| (way.node, way.address));
    let is_deliberate = way_by(now, rest.start).is_some_and(|way| way.mode == SHRIMP_MODE_DELIBERATE);
    let part = |at: u64| split_of(at % PAGE, now.split_out);
    is_deliberate && place(before) == place(now) && part(rest.start) == part(rest.end - 1)
}

/// Returns the two parts of a split page.
fn halves(split: u32) -> [Range<u64>; 2] {
    [0..u64::from(split), u64::from(split)..PAGE]
}

impl Table {
    pub(super) fn entry(&self, page: u32) -> ShrimpEntry {
        self.0.get(&page).copied().unwrap_or_default()
    }

    /// Returns the entry that results from setting `entry` for a page. A part keeps its mode on
    /// request if its target is unchanged or if it was withheld.
    pub(super) fn prepared(&self, page: u32, mut entry: ShrimpEntry) -> ShrimpEntry {
        let before = self.entry(page);
        for (part, (now, was)) in entry.out.iter_mut().zip(before.out).enumerate() {
            let is_same = was == ShrimpOut { mode: was.mode, ..*now } || is_withheld(&before, part);
            let is_mapped = now.mode != SHRIMP_MODE_NONE && was.mode != SHRIMP_MODE_NONE;
            if entry.flags & SHRIMP_ENTRY_KEEP_MODES != 0 && is_same && is_mapped {
                now.mode = was.mode;
            }
        }
        entry.flags &= SHRIMP_ENTRY_WITHHOLD_0 | SHRIMP_ENTRY_WITHHOLD_1 | SHRIMP_ENTRY_SYSTEM;
        entry
    }

    /// Replaces an entry by one that was prepared.
    pub(super) fn set(&mut self, page: u32, entry: ShrimpEntry) {
        self.0.insert(page, entry);
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (u32, &ShrimpEntry)> {
        self.0.iter().map(|(page, entry)| (*page, entry))
    }

    fn of_page(&self, address: u64) -> ShrimpEntry {
        u32::try_from(address / PAGE).map_or_else(|_| ShrimpEntry::default(), |page| self.entry(page))
    }

    /// Returns the target of the byte at an address, if it has one.
    pub(super) fn way(&self, address: u64) -> Option<Way> {
        way_by(&self.of_page(address), address)
    }

    /// Returns whether all these bytes are in one part of one page.
    pub(super) fn is_one_part(&self, address: u64, length: u64) -> bool {
        let split = self.of_page(address).split_out;
        address % PAGE + length <= PAGE
            && split_of(address % PAGE, split) == split_of((address + length - 1) % PAGE, split)
    }

    /// Changes the mode of the part that contains an address.
    pub(super) fn set_mode(&mut self, address: u64, mode: u32) {
        let mut entry = self.of_page(address);
        entry.out[split_of(address % PAGE, entry.split_out)].mode = mode;
        self.set((address / PAGE) as u32, entry);
    }

    /// Returns whether to report a store of these bytes, which are in one page. `None` if the host
    /// may not store them.
    pub(super) fn takes(&self, address: u64, length: u64, node: u16) -> Option<bool> {
        let entry = self.of_page(address);
        let bytes = address % PAGE..address % PAGE + length;
        let part = |at: u64| entry.incoming[split_of(at, entry.split_in)];
        let is_let_in = |at: u64| node < 64 && part(at).nodes >> node & 1 == 1;
        let reported = |at: u64| part(at).flags & SHRIMP_IN_REPORT != 0;
        // The range has at most two parts, so its first and last byte cover all of them.
        let ends = [bytes.start, bytes.end - 1];
        ends.into_iter().all(is_let_in).then(|| ends.into_iter().any(reported))
    }

    pub(super) fn is_mapped_in(&self, page: u32) -> bool {
        self.entry(page).incoming.iter().any(|part| part.nodes != 0)
    }

    /// Returns the pages whose stores a card must see.
    pub(super) fn watched(&self) -> Vec<u64> {
        let automatic = |out: &ShrimpOut| out.mode == SHRIMP_MODE_SINGLE || out.mode == SHRIMP_MODE_BLOCKED;
        let is_watched = |entry: &ShrimpEntry| entry.out.iter().any(automatic);
        let pages = self.0.iter().filter(|(_, entry)| is_watched(entry));
        pages.map(|(page, _)| (*page).into()).collect()
    }
}

/// Returns the ranges of a page that a card may write because of an entry, and those that it may
/// read.
pub(super) fn rights(entry: &ShrimpEntry) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
    let writable =
        halves(entry.split_in).into_iter().zip(&entry.incoming).filter(|(_, part)| part.nodes != 0);
    let readable =
        halves(entry.split_out).into_iter().zip(&entry.out).filter(|(_, out)| out.mode != SHRIMP_MODE_NONE);
    let not_empty = |range: &Range<u64>| !range.is_empty();
    (
        writable.map(|(range, _)| range).filter(not_empty).collect(),
        readable.map(|(range, _)| range).filter(not_empty).collect(),
    )
}

fn split(rng: &mut Rng) -> u32 {
    match rng.below(4) {
        0 => 0,
        1 => 4096,
        2 => rng.range(2040, 2060),
        _ => rng.range(1, 4095),
    }
}

/// Parameters of random entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taste {
    pub(super) cards: u16,
    /// Pages that processes use.
    pub(super) pages: u32,
    /// Percentage of parts that report each arrival.
    pub(super) reported: u64,
}

impl Taste {
    /// Returns a random page that processes use.
    pub(super) fn page(&self, rng: &mut Rng) -> u32 {
        rng.range(1, self.pages)
    }

    /// Returns a random address and width for an access to a window page. The access is aligned,
    /// with a valid width.
    pub(super) fn window_place(&self, rng: &mut Rng) -> (u64, u8) {
        let width = rng.pick(&[1, 2, 4, 8]).unwrap_or(4);
        // Occasionally a page that no process uses, or one behind the end of the page table.
        let page = if rng.percent(3) { rng.range(0, PAGES + 3) } else { self.page(rng) };
        let offset = some_offset(rng) / u64::from(width) * u64::from(width);
        (u64::from(page) * PAGE + offset, width)
    }
}

/// Returns a random offset in a page, often near its ends and near common splits.
pub(super) fn some_offset(rng: &mut Rng) -> u64 {
    u64::from(match rng.below(4) {
        0 => rng.range(0, 64),
        1 => rng.range(2030, 2070),
        2 => rng.range(4040, 4095),
        _ => rng.range(0, 4095),
    })
}

/// Returns a random valid entry.
pub(super) fn some_entry(rng: &mut Rng, host: u16, taste: Taste) -> ShrimpEntry {
    let Taste { cards, pages, reported } = taste;
    let out = [(); 2].map(|()| {
        let others = u64::from(cards) - 1;
        let node = match rng.below(20) {
            // A host that does not exist.
            0 => u32::from(cards),
            1 => host.into(),
            _ => (u64::from(host) + 1 + rng.below(others)) as u32 % u32::from(cards),
        };
        let page = if rng.percent(8) { SHRIMP_SYSTEM_PAGE } else { rng.range(1, pages).into() };
        let mode = rng.pick(&[
            SHRIMP_MODE_NONE,
            SHRIMP_MODE_SINGLE,
            SHRIMP_MODE_SINGLE,
            SHRIMP_MODE_BLOCKED,
            SHRIMP_MODE_BLOCKED,
            SHRIMP_MODE_DELIBERATE,
            SHRIMP_MODE_DELIBERATE,
        ]);
        ShrimpOut { page, node, mode: mode.unwrap_or(SHRIMP_MODE_NONE) }
    });
    let incoming = [(); 2].map(|()| {
        let nodes = match rng.below(6) {
            0 => 0,
            1 => rng.next(),
            2 => 1 << rng.below(cards.into()),
            _ => u64::MAX,
        };
        ShrimpIn { nodes, flags: u32::from(rng.percent(reported)), reserved: 0 }
    });
    let flags = if rng.percent(20) { SHRIMP_ENTRY_SYSTEM } else { 0 };
    ShrimpEntry { split_out: split(rng), split_in: split(rng), out, incoming, flags }
}
