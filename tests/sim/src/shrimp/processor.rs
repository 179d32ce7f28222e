//! Actions of processors. A processor makes one bus access at a time, so that accesses of others
//! come in between.

use hamlyn_abi::shrimp::entry::SHRIMP_MODE_DELIBERATE;
use hamlyn_abi::shrimp::memory::*;

use crate::engine::memory::PAGE;
use crate::engine::violation::Violation;
use crate::engine::world::World;

use super::deeds::Deed;
use super::mapping::PAGES;
use super::model::Shrimp;

impl World<Shrimp> {
    /// Adds a random action to a processor.
    pub(super) fn plan(&mut self, host: usize, processor: usize) {
        let deed = match self.rng.below(100) {
            0..30 => {
                let width = self.rng.range(1, 16) as u8;
                self.some_stores(width, false)
            }
            30..55 => {
                let (address, width) = self.some_window_place();
                let left = if self.rng.percent(50) { 1 } else { self.rng.range(1, 30) };
                Deed::WindowStores { address, width, left }
            }
            55..60 => {
                let (address, width) = self.some_window_place();
                Deed::WindowLoad { address, width }
            }
            60..85 => self.some_update(host),
            85..88 => Deed::Miss { address: self.some_word(), found: None },
            _ => self.some_command(),
        };
        self.hosts[host].processes[processor].deeds.push_back(deed);
    }

    fn some_stores(&mut self, width: u8, aligned: bool) -> Deed {
        let offset = self.some_offset();
        let offset = if aligned { offset / u64::from(width) * u64::from(width) } else { offset };
        let left = if self.rng.percent(50) { 1 } else { self.rng.range(1, 40) };
        Deed::Stores { address: u64::from(self.some_page()) * PAGE + offset, width, left }
    }

    fn some_word(&mut self) -> u64 {
        u64::from(self.some_page()) * PAGE + self.some_offset() / 4 * 4
    }

    /// Returns a random transfer. It mostly starts where the page is mapped out for it, and often
    /// is as long as the part.
    fn some_update(&mut self, host: usize) -> Deed {
        let mut address = self.some_word();
        let table = &self.model.ledgers[host].table;
        for _ in 0..6 {
            if table.way(address).is_some_and(|way| way.mode == SHRIMP_MODE_DELIBERATE) {
                break;
            }
            let page = u64::from(self.rng.range(1, self.model.taste.pages));
            address = page * PAGE + self.rng.below(1024) * 4;
        }
        let most = (PAGE - address % PAGE) as u32 / 4;
        let words = match self.rng.below(5) {
            0 => most,
            1 => self.rng.range(1, SHRIMP_MAX_WORDS + 1),
            _ => self.rng.range(1, most.max(1)),
        };
        Deed::Update { address, words, found: None }
    }

    fn some_command(&mut self) -> Deed {
        let value = match self.rng.below(10) {
            0..3 => SHRIMP_SET_MODE + self.rng.range(0, 4),
            3..6 => SHRIMP_REPORT_NEXT,
            // Not a valid command.
            6 => 0x0300_0000,
            7 => SHRIMP_BUSY | self.rng.next() as u32,
            8 => self.rng.next() as u32,
            _ => self.rng.next() as u32 & 0x03ff_ffff,
        };
        let width = if self.rng.percent(95) { 4 } else { self.rng.pick(&[1, 2, 8]).unwrap_or(8) };
        let page = if self.rng.percent(95) { self.some_page() } else { self.rng.range(0, PAGES - 1) };
        let address = u64::from(page) * PAGE + self.some_offset() / u64::from(width) * u64::from(width);
        Deed::Command { address, width, value: value.into() }
    }

    /// Makes one access. Returns `false` if the processor has nothing to do or must wait.
    pub(super) fn access(&mut self, host: usize, processor: usize) -> Result<bool, Violation> {
        let Some(deed) = self.hosts[host].processes[processor].deeds.pop_front() else { return Ok(false) };
        let next = match deed {
            Deed::Stores { address, width, left } => {
                let here = u64::from(width).min(PAGE - address % PAGE);
                let bytes = self.rng.bytes(here as usize);
                if !self.store_on_bus(host, address, &bytes)? {
                    self.hosts[host].processes[processor].deeds.push_front(deed);
                    return Ok(false);
                }
                let address = self.within(address + here);
                (left > 1).then_some(Deed::Stores { address, width, left: left - 1 })
            }
            Deed::WindowStores { address, width, left } => {
                let value = self.rng.next();
                self.store_to_window(host, address, width, value)?;
                let address = address + u64::from(width);
                (left > 1).then_some(Deed::WindowStores { address, width, left: left - 1 })
            }
            Deed::WindowLoad { address, width } => {
                self.load_from_window(host, address, width)?;
                None
            }
            Deed::Update { address, words, found } => match found {
                None => {
                    let found = Some(self.load_command(host, address)?);
                    Some(Deed::Update { address, words, found })
                }
                Some(found) => {
                    let written = if found == 0 { words } else { found };
                    self.store_command(host, address, 4, written.into())?;
                    (found != 0).then_some(Deed::Update { address, words, found: None })
                }
            },
            Deed::Miss { address, found } => match found {
                None => Some(Deed::Miss { address, found: Some(self.load_command(host, address)?) }),
                Some(found) => {
                    self.store_command(host, address, 4, found.into())?;
                    None
                }
            },
            Deed::Command { address, width, value } => {
                self.store_command(host, address, width, value)?;
                None
            }
        };
        if let Some(next) = next {
            self.hosts[host].processes[processor].deeds.push_front(next);
        }
        Ok(true)
    }

    /// Wraps an address from the last page that processes use to the first.
    fn within(&self, address: u64) -> u64 {
        if address / PAGE > self.model.taste.pages.into() { PAGE } else { address }
    }
}
