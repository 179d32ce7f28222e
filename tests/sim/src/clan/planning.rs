//! Random actions of processes.

use std::collections::VecDeque;

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::tripwire::*;

use crate::engine::rng::Rng;

use super::account::Account;
use super::actions::{Action, Processor};
use super::ledger::Ledger;
use super::objects::Window;
use super::packet::group_of;

/// Names an aperture: host, number, key, and length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descriptor {
    pub(super) host: u32,
    pub(super) aperture: u32,
    pub(super) key: u64,
    pub(super) length: u64,
}

/// Makes up what a host's processes do.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) host: usize,
    pub(super) rng: &'a mut Rng,
    /// The accounts of all hosts.
    pub(super) accounts: &'a [Account],
    /// The host's processors.
    pub(super) processors: &'a [Processor],
}

impl<'a> Plan<'a> {
    fn ledger(&self) -> &'a Ledger {
        &self.accounts[self.host].ledger
    }

    /// Returns a random descriptor, as if another process had passed it on. Occasionally it is
    /// invalid.
    pub(super) fn some_descriptor(&mut self) -> Option<Descriptor> {
        let host = self.rng.index(self.accounts.len());
        let all: Vec<Descriptor> = self.accounts[host]
            .ledger
            .apertures()
            .iter()
            .map(|(number, one)| {
                let length = one.area.length;
                let length = if one.flags & CLAN_APERTURE_PARTS == 0 { length } else { CLAN_PART.into() };
                let (host, aperture) =
                    if one.is_member() { (CLAN_GROUP_HOST + one.group, 0) } else { (host as u32, *number) };
                Descriptor { host, aperture, key: one.key, length }
            })
            .collect();
        let mut descriptor = self.rng.pick(&all)?;
        match self.rng.below(40) {
            0 => descriptor.key ^= 1 << self.rng.below(64),
            1 if group_of(descriptor.host).is_none() => {
                descriptor.aperture = self.rng.next() as u32 >> self.rng.below(32);
            }
            2 => descriptor.length += self.rng.below(5000),
            3 => descriptor.host = self.accounts.len() as u32,
            _ => {}
        }
        Some(descriptor)
    }

    /// Returns a random processor that has not too many actions, and another action for it.
    pub(super) fn some_action(&mut self) -> Option<(usize, Action)> {
        let processor = self.rng.index(self.processors.len());
        if self.processors[processor].actions().len() > 20 {
            return None;
        }
        let owner = self.processors[processor].owner();
        let action = match self.rng.below(20) {
            0..7 => self.some_stores(),
            7 | 8 => self.some_load(),
            9 if self.rng.percent(20) => {
                let beyond = self.rng.next() as u32 >> self.rng.below(30);
                self.ledger()
                    .some_endpoint(self.rng, Some(owner))
                    .map(|endpoint| Action::Overstate { endpoint, beyond })
            }
            9 if self.rng.percent(30) => self
                .ledger()
                .some_endpoint(self.rng, Some(owner))
                .map(|endpoint| Action::Rewrite { endpoint }),
            9..12 => self.some_requests(owner),
            12..16 => self.some_tripwire(owner),
            16 | 17 => self.some_queue().map(|queue| Action::Take { queue, most: self.rng.range(1, 20) }),
            18 => {
                let bits = self.rng.next() | self.rng.next();
                self.ledger().some_endpoint(self.rng, None).map(|endpoint| Action::Clear { endpoint, bits })
            }
            _ => self.some_poke(),
        };
        action.map(|action| (processor, action))
    }

    /// Returns a random place in a window. Occasionally it is behind the window's end, but in its
    /// last page.
    fn some_place(&mut self, window: &Window, width: u8) -> u64 {
        let width = u64::from(width);
        let pages = window.length.div_ceil(4096) * 4096;
        let most = if self.rng.percent(4) { pages } else { window.length };
        self.rng.below(most) / width * width
    }

    fn some_stores(&mut self) -> Option<Action> {
        let (first, window) = self.ledger().some_window(self.rng)?;
        let width = self.rng.pick(&[1, 2, 4, 4, 8, 8, 8, 8])?;
        let at = self.some_place(&window, width);
        let pages = window.length.div_ceil(4096) * 4096;
        let most = ((pages - at) / u64::from(width)).min(30) as u32;
        let left = if self.rng.percent(50) { 1 } else { self.rng.range(1, most.max(1)) };
        Some(Action::Stores { window: first, at, width, left })
    }

    fn some_load(&mut self) -> Option<Action> {
        let (window, it) = self.ledger().some_window(self.rng)?;
        let width = self.rng.pick(&[1, 2, 4, 8])?;
        Some(Action::Load { window, at: self.some_place(&it, width), width })
    }

    /// Returns a random request to be put together with others, after them.
    pub(super) fn some_request(&mut self, owner: u32, others: &VecDeque<ClanRequest>) -> Option<ClanRequest> {
        let to = self.some_descriptor()?;
        let own: Vec<(u32, u64)> = self
            .ledger()
            .apertures()
            .iter()
            .filter(|(_, aperture)| aperture.owner == owner)
            .map(|(number, aperture)| (*number, aperture.area.length))
            .collect();
        let (local_aperture, most) = self.rng.pick(&own)?;
        let local_offset = self.rng.below(most);
        let offset = if self.rng.percent(50) { 0 } else { self.rng.below(to.length) };
        let length = 1 + self.rng.below((most - local_offset).min(to.length - offset));
        let length = if self.rng.percent(40) { length.min(64) } else { length };
        let mut request = ClanRequest {
            opcode: if self.rng.percent(60) { CLAN_DMA_WRITE } else { CLAN_DMA_READ },
            flags: self.rng.range(0, 3),
            local_aperture,
            host: to.host,
            local_offset,
            aperture: to.aperture,
            key: to.key,
            offset,
            length,
            ..ClanRequest::default()
        };
        match self.rng.below(60) {
            0 => request.opcode = self.rng.next() as u32 >> self.rng.below(32),
            1 => request.length = self.rng.next() >> self.rng.below(64),
            2 => request.local_aperture = self.rng.below(20) as u32,
            3 => request.local_offset = self.rng.next() >> self.rng.below(64),
            4 => request.reserved = 1,
            5 => request.flags |= 4 << self.rng.below(20),
            6 => request.length = 0,
            _ => {}
        }
        // This check comes last, because an invalid opcode may also become a read.
        if request.opcode == CLAN_DMA_READ
            && (others.iter().any(|other| reads_as(other, &request)) || self.is_read_by_dma(&request))
        {
            request.opcode = CLAN_DMA_WRITE;
        }
        Some(request)
    }

    /// Returns whether another request reads the same aperture. A packet does not tell which of the
    /// two it is for, and one of them may have ended while its packet waits to leave.
    fn is_read_by_dma(&self, wanted: &ClanRequest) -> bool {
        let reads = |request: &ClanRequest| reads_as(request, wanted);
        let Account { ledger, program, .. } = &self.accounts[self.host];
        let pending = ledger.endpoints().values().flat_map(|endpoint| endpoint.requests.all());
        let is_planned =
            |action: &Action| matches!(action, Action::Put { requests, .. } if requests.iter().any(reads));
        program.leftovers().chain(pending).any(|pending| reads(&pending.request))
            || self.processors.iter().flat_map(Processor::actions).any(is_planned)
    }

    fn some_requests(&mut self, owner: u32) -> Option<Action> {
        let endpoint = self.ledger().some_endpoint(self.rng, Some(owner))?;
        let mut requests = VecDeque::new();
        for _ in 0..self.rng.range(1, 6) {
            let request = self.some_request(owner, &requests);
            requests.extend(request);
        }
        (!requests.is_empty()).then_some(Action::Put { endpoint, requests })
    }

    fn some_tripwire(&mut self, owner: u32) -> Option<Action> {
        let endpoint = self.ledger().some_endpoint(self.rng, Some(owner))?;
        let tripwires = self.ledger().endpoints()[&endpoint].tripwires.len() as u64;
        let limit = if self.rng.percent(95) { tripwires } else { 32 };
        let index = self.rng.below(limit) as u32;
        let is_remote = self.rng.percent(30);
        let (target, most) = if is_remote {
            let to = self.some_descriptor()?;
            (u64::from(to.host) << 32 | u64::from(to.aperture), to.length)
        } else {
            let apertures = &self.ledger().apertures();
            let all: Vec<(u32, u64, u32)> =
                apertures.iter().map(|(number, one)| (*number, one.area.length, one.owner)).collect();
            let own: Vec<_> = all.iter().copied().filter(|one| one.2 == owner).collect();
            let from = if self.rng.percent(95) { &own } else { &all };
            let (number, length, _) = self.rng.pick(from)?;
            (u64::from(number), length)
        };
        let offset = self.rng.below(most);
        let mut length = match self.rng.below(4) {
            0 => most - offset,
            1 => 1,
            _ => 1 + self.rng.below((most - offset).min(200)),
        };
        let watches = self.rng.pick(&[CLAN_TRIPWIRE_WRITES, CLAN_TRIPWIRE_READS, 6])?;
        let actions = (self.rng.next() as u32 & 0x1e0) | CLAN_TRIPWIRE_COUNT;
        let mut flags = CLAN_TRIPWIRE_ENABLE | watches | actions;
        flags |= if is_remote { CLAN_TRIPWIRE_REMOTE } else { 0 };
        flags |= if self.rng.percent(25) { CLAN_TRIPWIRE_ONCE } else { 0 };
        match self.rng.below(30) {
            0 => flags = self.rng.next() as u32 & 0xffff,
            1 => length = self.rng.next() >> self.rng.below(64),
            2..5 => flags &= !CLAN_TRIPWIRE_ENABLE,
            _ => {}
        }
        Some(Action::Set { endpoint, index, held: [offset, length, target], flags })
    }

    fn some_poke(&mut self) -> Option<Action> {
        let apertures = &self.ledger().apertures();
        let all: Vec<(u32, u64)> = apertures.iter().map(|(number, one)| (*number, one.area.length)).collect();
        let (aperture, most) = self.rng.pick(&all)?;
        let offset = self.rng.below(most);
        let length = 1 + self.rng.below((most - offset).min(100));
        Some(Action::Poke { aperture, offset, length })
    }

    fn some_queue(&mut self) -> Option<u32> {
        let all: Vec<u32> = self.accounts[self.host].events.queues().collect();
        self.rng.pick(&all)
    }
}

/// Returns whether a request reads the aperture that another request names.
fn reads_as(request: &ClanRequest, other: &ClanRequest) -> bool {
    request.opcode == CLAN_DMA_READ && (request.host, request.aperture) == (other.host, other.aperture)
}
