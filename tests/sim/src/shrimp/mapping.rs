//! Page tables: what is mapped, as the ledger has it, and new entries.

use std::collections::BTreeMap;
use std::ops::Range;

use hamlyn_abi::shrimp::entry::*;

use crate::engine::memory::PAGE;
use crate::engine::rng::Rng;

use super::ledger::Transfer;

/// Entries of a card's page table. Host memory has more pages, and BAR 2 is no power of two.
pub(super) const PAGES: u32 = 28;
/// Pages that processes may use: these, from 1 on. More than the smallest arrival queue has
/// records.
pub(super) const DATA_PAGES: u32 = 24;

/// A page table.
#[derive(Debug, Default)]
pub(super) struct Table(BTreeMap<u32, ShrimpEntry>);

/// Where a byte that is stored goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) mode: u32,
    pub(super) node: u16,
    pub(super) address: u64,
}

fn split_of(page_offset: u64, split: u32) -> usize {
    usize::from(page_offset >= u64::from(split))
}

fn is_withheld(entry: &ShrimpEntry, part: usize) -> bool {
    entry.flags & [SHRIMP_ENTRY_WITHHOLD_0, SHRIMP_ENTRY_WITHHOLD_1][part] != 0
}

/// Where a byte of the page that has an entry goes.
pub(super) fn way_by(entry: &ShrimpEntry, address: u64) -> Option<Way> {
    let part = split_of(address % PAGE, entry.split_out);
    let out = entry.out[part];
    let there = out.page * PAGE + address % PAGE;
    let is_open = out.mode != SHRIMP_MODE_NONE && !is_withheld(entry, part);
    is_open.then_some(Way { mode: out.mode, node: out.node as u16, address: there })
}

/// Whether what is left of a transfer goes by the new entry where it went by the one before.
pub(super) fn goes_on(transfer: &Transfer, before: &ShrimpEntry, now: &ShrimpEntry) -> bool {
    let place = |entry| way_by(entry, transfer.next).map(|way| (way.node, way.address));
    let is_deliberate = way_by(now, transfer.next).is_some_and(|way| way.mode == SHRIMP_MODE_DELIBERATE);
    let last = transfer.next + transfer.left - 1;
    let part = |at: u64| split_of(at % PAGE, now.split_out);
    is_deliberate && place(before) == place(now) && part(transfer.next) == part(last)
}

/// The two parts of a page that is split.
fn halves(split: u32) -> [Range<u64>; 2] {
    [0..u64::from(split), u64::from(split)..PAGE]
}

impl Table {
    pub(super) fn entry(&self, page: u32) -> ShrimpEntry {
        self.0.get(&page).copied().unwrap_or_default()
    }

    /// What an entry makes of a page's. A part that stays mapped to where it is, or was withheld,
    /// may be to keep its mode.
    pub(super) fn prepared(&self, page: u32, mut entry: ShrimpEntry) -> ShrimpEntry {
        let before = self.entry(page);
        for (part, (now, was)) in entry.out.iter_mut().zip(before.out).enumerate() {
            let is_same = was == ShrimpOut { mode: was.mode, ..*now } || is_withheld(&before, part);
            let is_mapped = now.mode != SHRIMP_MODE_NONE && was.mode != SHRIMP_MODE_NONE;
            if entry.flags & SHRIMP_ENTRY_KEEP_MODES != 0 && is_same && is_mapped {
                now.mode = was.mode;
            }
        }
        entry.flags &= SHRIMP_ENTRY_WITHHOLD_0 | SHRIMP_ENTRY_WITHHOLD_1;
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

    /// Where the byte at an address goes, if it goes anywhere.
    pub(super) fn way(&self, address: u64) -> Option<Way> {
        way_by(&self.of_page(address), address)
    }

    /// Whether all these bytes, of one page, are in one part.
    pub(super) fn is_one_part(&self, address: u64, length: u64) -> bool {
        let split = self.of_page(address).split_out;
        address % PAGE + length <= PAGE
            && split_of(address % PAGE, split) == split_of((address + length - 1) % PAGE, split)
    }

    /// Changes the mode of the part that an address is in.
    pub(super) fn set_mode(&mut self, address: u64, mode: u32) {
        let mut entry = self.of_page(address);
        entry.out[split_of(address % PAGE, entry.split_out)].mode = mode;
        self.set((address / PAGE) as u32, entry);
    }

    /// Whether a host may store these bytes, which are in one page; if so, whether that is to be
    /// reported.
    pub(super) fn takes(&self, address: u64, length: u64, node: u16) -> Option<bool> {
        let entry = self.of_page(address);
        let bytes = address % PAGE..address % PAGE + length;
        let part = |at: u64| entry.incoming[split_of(at, entry.split_in)];
        let is_let_in = |at: u64| node < 64 && part(at).nodes >> node & 1 == 1;
        let reported = |at: u64| part(at).flags & SHRIMP_IN_REPORT != 0;
        // The first and the last byte are in all parts that there are.
        let ends = [bytes.start, bytes.end - 1];
        ends.into_iter().all(is_let_in).then(|| ends.into_iter().any(reported))
    }

    pub(super) fn is_mapped_in(&self, page: u32) -> bool {
        self.entry(page).incoming.iter().any(|part| part.nodes != 0)
    }

    /// The pages whose stores a card must see.
    pub(super) fn watched(&self) -> Vec<u64> {
        let automatic = |out: &ShrimpOut| out.mode == SHRIMP_MODE_SINGLE || out.mode == SHRIMP_MODE_BLOCKED;
        let is_watched = |entry: &ShrimpEntry| entry.out.iter().any(automatic);
        let pages = self.0.iter().filter(|(_, entry)| is_watched(entry));
        pages.map(|(page, _)| (*page).into()).collect()
    }
}

/// What of a page a card may write because of an entry, and what it may read.
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

/// What new entries are like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taste {
    pub(super) cards: u16,
    /// Pages that processes use.
    pub(super) pages: u32,
    /// How many of a hundred parts have each arrival reported.
    pub(super) reported: u64,
}

/// Some entry, which makes sense.
pub(super) fn some_entry(rng: &mut Rng, host: u16, taste: Taste) -> ShrimpEntry {
    let Taste { cards, pages, reported } = taste;
    let out = [(); 2].map(|()| {
        let others = u64::from(cards) - 1;
        let node = match rng.below(20) {
            // There is no such host.
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
    ShrimpEntry { split_out: split(rng), split_in: split(rng), out, incoming, flags: 0 }
}
