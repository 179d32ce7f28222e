//! Processors and their actions. A processor makes one bus access at a time, so that accesses of
//! others come in between.

use std::collections::VecDeque;

use hamlyn_abi::shrimp::entry::SHRIMP_MODE_DELIBERATE;
use hamlyn_abi::shrimp::memory::*;

use crate::engine::memory::PAGE;
use crate::engine::rng::Rng;
use crate::engine::violation::Violation;

use super::account::Account;
use super::mapping::{PAGES, Table, Taste, some_offset};

/// An action of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Consecutive stores on the bus.
    Stores {
        address: u64,
        width: u8,
        left: u32,
    },
    /// Consecutive stores through the window.
    WindowStores {
        address: u64,
        width: u8,
        left: u32,
    },
    WindowLoad {
        address: u64,
        width: u8,
    },
    /// A compare-with-0-and-exchange on a command page, repeated until it has found 0. `found` is
    /// the value that was read and not written back yet.
    Update {
        address: u64,
        words: u32,
        found: Option<u32>,
    },
    /// One such exchange with a value other than 0 in the accumulator. The compare fails although
    /// it finds 0.
    Miss {
        address: u64,
        found: Option<u32>,
    },
    /// A store of any other value to a command page.
    Command {
        address: u64,
        width: u8,
        value: u64,
    },
}

/// A processor.
#[derive(Debug, Default)]
pub(super) struct Processor {
    actions: VecDeque<Action>,
}

impl Processor {
    pub(super) fn is_idle(&self) -> bool {
        self.actions.is_empty()
    }

    /// Adds a random action, unless there are many.
    pub(super) fn plan(&mut self, rng: &mut Rng, taste: &Taste, table: &Table) {
        if self.actions.len() >= 20 {
            return;
        }
        let action = match rng.below(100) {
            0..30 => {
                let width = rng.range(1, 16) as u8;
                some_stores(rng, taste, width)
            }
            30..55 => {
                let (address, width) = taste.window_place(rng);
                let left = if rng.percent(50) { 1 } else { rng.range(1, 30) };
                Action::WindowStores { address, width, left }
            }
            55..60 => {
                let (address, width) = taste.window_place(rng);
                Action::WindowLoad { address, width }
            }
            60..85 => some_update(rng, taste, table),
            85..88 => Action::Miss { address: some_word(rng, taste), found: None },
            _ => some_command(rng, taste),
        };
        self.actions.push_back(action);
    }

    /// Makes one access. Returns `false` if the processor has nothing to do or must wait.
    pub(super) fn access(
        &mut self,
        rng: &mut Rng,
        taste: &Taste,
        account: &mut Account,
    ) -> Result<bool, Violation> {
        let Some(action) = self.actions.pop_front() else { return Ok(false) };
        let next = match action {
            Action::Stores { address, width, left } => {
                let here = u64::from(width).min(PAGE - address % PAGE);
                let bytes = rng.bytes(here as usize);
                if !account.store_on_bus(address, &bytes)? {
                    self.actions.push_front(action);
                    return Ok(false);
                }
                // From the last page that processes use, it goes on in the first.
                let address = address + here;
                let address = if address / PAGE > taste.pages.into() { PAGE } else { address };
                (left > 1).then_some(Action::Stores { address, width, left: left - 1 })
            }
            Action::WindowStores { address, width, left } => {
                let value = rng.next();
                account.store_to_window(address, width, value)?;
                let address = address + u64::from(width);
                (left > 1).then_some(Action::WindowStores { address, width, left: left - 1 })
            }
            Action::WindowLoad { address, width } => {
                account.load_from_window(address, width)?;
                None
            }
            Action::Update { address, words, found } => match found {
                None => {
                    let found = Some(account.load_command(address)?);
                    Some(Action::Update { address, words, found })
                }
                Some(found) => {
                    let written = if found == 0 { words } else { found };
                    account.store_command(address, 4, written.into())?;
                    (found != 0).then_some(Action::Update { address, words, found: None })
                }
            },
            Action::Miss { address, found } => match found {
                None => Some(Action::Miss { address, found: Some(account.load_command(address)?) }),
                Some(found) => {
                    account.store_command(address, 4, found.into())?;
                    None
                }
            },
            Action::Command { address, width, value } => {
                account.store_command(address, width, value)?;
                None
            }
        };
        next.into_iter().for_each(|next| self.actions.push_front(next));
        Ok(true)
    }
}

fn some_stores(rng: &mut Rng, taste: &Taste, width: u8) -> Action {
    let offset = some_offset(rng);
    let left = if rng.percent(50) { 1 } else { rng.range(1, 40) };
    Action::Stores { address: u64::from(taste.page(rng)) * PAGE + offset, width, left }
}

fn some_word(rng: &mut Rng, taste: &Taste) -> u64 {
    u64::from(taste.page(rng)) * PAGE + some_offset(rng) / 4 * 4
}

/// Returns a random transfer. It mostly starts where the page is mapped out for it, and often
/// is as long as the part.
fn some_update(rng: &mut Rng, taste: &Taste, table: &Table) -> Action {
    let mut address = some_word(rng, taste);
    for _ in 0..6 {
        if table.way(address).is_some_and(|way| way.mode == SHRIMP_MODE_DELIBERATE) {
            break;
        }
        let page = u64::from(taste.page(rng));
        address = page * PAGE + rng.below(1024) * 4;
    }
    let most = (PAGE - address % PAGE) as u32 / 4;
    let words = match rng.below(5) {
        0 => most,
        1 => rng.range(1, SHRIMP_MAX_WORDS + 1),
        _ => rng.range(1, most.max(1)),
    };
    Action::Update { address, words, found: None }
}

fn some_command(rng: &mut Rng, taste: &Taste) -> Action {
    let value = match rng.below(10) {
        0..3 => SHRIMP_SET_MODE + rng.range(0, 4),
        3..6 => SHRIMP_REPORT_NEXT,
        // Not a valid command.
        6 => 0x0300_0000,
        7 => SHRIMP_BUSY | rng.next() as u32,
        8 => rng.next() as u32,
        _ => rng.next() as u32 & 0x03ff_ffff,
    };
    let width = if rng.percent(95) { 4 } else { rng.pick(&[1, 2, 8]).unwrap_or(8) };
    let page = if rng.percent(95) { taste.page(rng) } else { rng.range(0, PAGES - 1) };
    let address = u64::from(page) * PAGE + some_offset(rng) / u64::from(width) * u64::from(width);
    Action::Command { address, width, value: value.into() }
}
