//! Random actions of processes and drivers.

use std::collections::VecDeque;

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;
use hamlyn_abi::clan::tripwire::*;

use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::deeds::Deed;
use super::ledger::Window;
use super::model::Clan;
use super::processor::group_of;

/// Names an aperture: host, number, key, and length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descriptor {
    pub(super) host: u32,
    pub(super) aperture: u32,
    pub(super) key: u64,
    pub(super) length: u64,
}

impl World<Clan> {
    /// Does what an operating system does after power-on.
    pub(super) fn set_up(&mut self, host: usize) -> Result<(), Violation> {
        self.open_fifo(host)?;
        for owner in 1..=2 {
            let queue = if self.rng.percent(80) { self.open_queue(host, owner)? } else { None };
            for _ in 0..self.rng.range(1, 2) {
                self.open_endpoint(host, owner, 0, queue)?;
            }
            for _ in 0..self.rng.range(1, 3) {
                self.open_some_aperture(host, owner)?;
            }
        }
        for _ in 0..self.rng.range(1, 4) {
            self.open_some_window(host)?;
        }
        Ok(())
    }

    fn open_some_aperture(&mut self, host: usize, owner: u32) -> Result<Option<u32>, Violation> {
        let (both, mut group) = (CLAN_APERTURE_READ | CLAN_APERTURE_WRITE, None);
        let flags = match self.rng.below(12) {
            0 => 0,
            1 => CLAN_APERTURE_READ,
            2 => CLAN_APERTURE_WRITE,
            3 => both | CLAN_APERTURE_PRIVILEGED,
            4 => both | CLAN_APERTURE_PARTS,
            5 => both | CLAN_APERTURE_PARTS | CLAN_APERTURE_PRIVILEGED,
            6 | 7 => {
                group = self.rng.pick(&[0, 1, 63]);
                CLAN_APERTURE_WRITE | CLAN_APERTURE_GROUP
            }
            _ => both,
        };
        self.open_aperture(host, owner, flags, group)
    }

    /// Returns a random descriptor, as if another process had passed it on. Occasionally it is
    /// invalid.
    pub(super) fn some_descriptor(&mut self) -> Option<Descriptor> {
        let host = self.rng.index(self.hosts.len());
        let all: Vec<Descriptor> = self.model.ledgers[host]
            .apertures
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
            3 => descriptor.host = self.hosts.len() as u32,
            _ => {}
        }
        Some(descriptor)
    }

    fn some_endpoint(&mut self, host: usize, owner: Option<u32>) -> Option<u32> {
        let all: Vec<u32> = self.model.ledgers[host]
            .endpoints
            .iter()
            .filter(|(_, endpoint)| owner.is_none_or(|owner| owner == endpoint.owner))
            .map(|(number, _)| *number)
            .collect();
        self.rng.pick(&all)
    }

    fn open_some_window(&mut self, host: usize) -> Result<(), Violation> {
        let Some(to) = self.some_descriptor() else { return Ok(()) };
        let Some(endpoint) = self.some_endpoint(host, None) else { return Ok(()) };
        let offset = if self.rng.percent(70) { 0 } else { self.rng.below(to.length) / 8 * 8 };
        let rest = to.length - offset;
        let length = if self.rng.percent(70) { rest } else { 1 + self.rng.below(rest) };
        let flags = self.model.ledgers[host].endpoints[&endpoint].flags;
        let window =
            Window { key: to.key, offset, length, host: to.host, aperture: to.aperture, endpoint, flags };
        self.open_window(host, window).map(drop)
    }

    /// Adds a random action to a process of a host.
    pub(super) fn plan(&mut self, host: usize) {
        let processor = self.rng.index(self.hosts[host].processes.len());
        if self.hosts[host].processes[processor].deeds.len() > 20 {
            return;
        }
        let owner = self.hosts[host].processes[processor].owner;
        let deed = match self.rng.below(20) {
            0..7 => self.some_stores(host),
            7 | 8 => self.some_load(host),
            9 if self.rng.percent(20) => {
                let beyond = self.rng.next() as u32 >> self.rng.below(30);
                self.some_endpoint(host, Some(owner)).map(|endpoint| Deed::Overstate { endpoint, beyond })
            }
            9 if self.rng.percent(30) => {
                self.some_endpoint(host, Some(owner)).map(|endpoint| Deed::Rewrite { endpoint })
            }
            9..12 => self.some_requests(host, owner),
            12..16 => self.some_tripwire(host, owner),
            16 | 17 => self.some_queue(host).map(|queue| Deed::Take { queue, most: self.rng.range(1, 20) }),
            18 => {
                let bits = self.rng.next() | self.rng.next();
                self.some_endpoint(host, None).map(|endpoint| Deed::Clear { endpoint, bits })
            }
            _ => self.some_poke(host),
        };
        self.hosts[host].processes[processor].deeds.extend(deed);
    }

    fn some_window(&mut self, host: usize) -> Option<(u32, Window)> {
        let windows = &self.model.ledgers[host].windows;
        let all: Vec<(u32, Window)> = windows.iter().map(|(first, window)| (*first, *window)).collect();
        self.rng.pick(&all)
    }

    /// Returns a random place in a window. Occasionally it is behind the window's end, but in its
    /// last page.
    fn some_place(&mut self, window: &Window, width: u8) -> u64 {
        let width = u64::from(width);
        let pages = window.length.div_ceil(4096) * 4096;
        let most = if self.rng.percent(4) { pages } else { window.length };
        self.rng.below(most) / width * width
    }

    fn some_stores(&mut self, host: usize) -> Option<Deed> {
        let (first, window) = self.some_window(host)?;
        let width = self.rng.pick(&[1, 2, 4, 4, 8, 8, 8, 8])?;
        let at = self.some_place(&window, width);
        let pages = window.length.div_ceil(4096) * 4096;
        let most = ((pages - at) / u64::from(width)).min(30) as u32;
        let left = if self.rng.percent(50) { 1 } else { self.rng.range(1, most.max(1)) };
        Some(Deed::Stores { window: first, at, width, left })
    }

    fn some_load(&mut self, host: usize) -> Option<Deed> {
        let (window, it) = self.some_window(host)?;
        let width = self.rng.pick(&[1, 2, 4, 8])?;
        Some(Deed::Load { window, at: self.some_place(&it, width), width })
    }

    /// Returns a random request to be put together with others, after them.
    pub(super) fn some_request(
        &mut self,
        host: usize,
        owner: u32,
        others: &VecDeque<ClanRequest>,
    ) -> Option<ClanRequest> {
        let to = self.some_descriptor()?;
        let own: Vec<(u32, u64)> = self.model.ledgers[host]
            .apertures
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
            && (others.iter().any(|other| reads_as(other, &request)) || self.is_read_by_dma(host, &request))
        {
            request.opcode = CLAN_DMA_WRITE;
        }
        Some(request)
    }

    /// Returns whether another request reads the same aperture. A packet does not tell which of the
    /// two it is for, and one of them may have ended while its packet waits to leave.
    fn is_read_by_dma(&self, host: usize, wanted: &ClanRequest) -> bool {
        let reads = |request: &ClanRequest| reads_as(request, wanted);
        let endpoints = self.model.ledgers[host].endpoints.values();
        let is_pending = |pending: &super::ledger::Pending| reads(&pending.request);
        let is_planned =
            |deed: &Deed| matches!(deed, Deed::Put { requests, .. } if requests.iter().any(reads));
        let mut ghosts = self.model.ledgers[host].ghosts.iter();
        ghosts.any(|ghost| is_pending(&ghost.pending))
            || endpoints.flat_map(|endpoint| &endpoint.pending).any(is_pending)
            || self.hosts[host].processes.iter().flat_map(|processor| &processor.deeds).any(is_planned)
    }

    fn some_requests(&mut self, host: usize, owner: u32) -> Option<Deed> {
        let endpoint = self.some_endpoint(host, Some(owner))?;
        let mut requests = VecDeque::new();
        for _ in 0..self.rng.range(1, 6) {
            let request = self.some_request(host, owner, &requests);
            requests.extend(request);
        }
        (!requests.is_empty()).then_some(Deed::Put { endpoint, requests })
    }

    fn some_tripwire(&mut self, host: usize, owner: u32) -> Option<Deed> {
        let endpoint = self.some_endpoint(host, Some(owner))?;
        let tripwires = self.model.ledgers[host].endpoints[&endpoint].tripwires.len() as u64;
        let limit = if self.rng.percent(95) { tripwires } else { 32 };
        let index = self.rng.below(limit) as u32;
        let is_remote = self.rng.percent(30);
        let (target, most) = if is_remote {
            let to = self.some_descriptor()?;
            (u64::from(to.host) << 32 | u64::from(to.aperture), to.length)
        } else {
            let apertures = &self.model.ledgers[host].apertures;
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
        Some(Deed::Set { endpoint, index, held: [offset, length, target], flags })
    }

    fn some_queue(&mut self, host: usize) -> Option<u32> {
        let all: Vec<u32> = self.model.ledgers[host].queues.keys().copied().collect();
        self.rng.pick(&all)
    }

    fn some_poke(&mut self, host: usize) -> Option<Deed> {
        let apertures = &self.model.ledgers[host].apertures;
        let all: Vec<(u32, u64)> = apertures.iter().map(|(number, one)| (*number, one.area.length)).collect();
        let (aperture, most) = self.rng.pick(&all)?;
        let offset = self.rng.below(most);
        let length = 1 + self.rng.below((most - offset).min(100));
        Some(Deed::Poke { aperture, offset, length })
    }

    /// Opens or closes a random object as the driver, as when processes start and exit.
    pub(super) fn change(&mut self, host: usize) -> Result<(), Violation> {
        let owner = self.rng.range(1, 2);
        match self.rng.below(17) {
            16 if self.rng.percent(30) => self.kill(host, owner),
            16 => Ok(()),
            0..3 => self.open_some_aperture(host, owner).map(drop),
            3..6 => {
                let all: Vec<u32> = self.model.ledgers[host].apertures.keys().copied().collect();
                self.rng.pick(&all).map_or(Ok(()), |number| {
                    self.forget_aperture_deeds(host, number);
                    self.close_aperture(host, number)
                })
            }
            6..9 => self.open_some_window(host),
            9 | 10 => {
                let Some((first, _)) = self.some_window(host) else { return Ok(()) };
                self.forget_window_deeds(host, first);
                self.close_window(host, first)
            }
            11 => {
                let queue = self.queue_of(host, owner);
                let flags = if self.rng.percent(20) { CLAN_PRIVILEGED } else { 0 };
                self.open_endpoint(host, owner, flags, queue).map(drop)
            }
            12 => {
                let Some(number) = self.some_endpoint(host, None) else { return Ok(()) };
                self.forget_endpoint_deeds(host, number);
                self.close_endpoint(host, number)
            }
            13 => {
                let Some(number) = self.some_endpoint(host, None) else { return Ok(()) };
                let owner = self.model.ledgers[host].endpoints[&number].owner;
                let queue = if self.rng.percent(30) { None } else { self.queue_of(host, owner) };
                self.set_events(host, number, queue)
            }
            14 => self.open_queue(host, owner).map(drop),
            _ => {
                let Some(number) = self.some_queue(host).filter(|_| self.rng.percent(40)) else {
                    return Ok(());
                };
                self.close_queue(host, number)
            }
        }
    }

    /// Kills a process in the middle of its actions. Its driver closes all its objects, kind by
    /// kind.
    fn kill(&mut self, host: usize, owner: u32) -> Result<(), Violation> {
        self.note(|| format!("host {host}: owner {owner} is killed"));
        for processor in self.hosts[host].processes.iter_mut().filter(|processor| processor.owner == owner) {
            processor.deeds.clear();
        }
        let ledger = &self.model.ledgers[host];
        let endpoints: Vec<u32> = ledger
            .endpoints
            .iter()
            .filter(|(_, one)| one.owner == owner)
            .map(|(number, _)| *number)
            .collect();
        let queues: Vec<u32> =
            ledger.queues.iter().filter(|(_, one)| one.owner == owner).map(|(number, _)| *number).collect();
        let apertures: Vec<u32> = ledger
            .apertures
            .iter()
            .filter(|(_, one)| one.owner == owner)
            .map(|(number, _)| *number)
            .collect();
        let windows: Vec<u32> = ledger
            .windows
            .iter()
            .filter(|(_, window)| endpoints.contains(&window.endpoint))
            .map(|(first, _)| *first)
            .collect();
        for number in windows {
            self.forget_window_deeds(host, number);
            self.close_window(host, number)?;
        }
        for number in endpoints {
            self.forget_endpoint_deeds(host, number);
            self.close_endpoint(host, number)?;
        }
        queues.into_iter().try_for_each(|number| self.close_queue(host, number))?;
        for number in apertures {
            self.forget_aperture_deeds(host, number);
            self.close_aperture(host, number)?;
        }
        Ok(())
    }

    fn forget_aperture_deeds(&mut self, host: usize, number: u32) {
        self.forget_deeds(host, |deed| matches!(deed, Deed::Poke { aperture, .. } if *aperture == number));
    }

    fn forget_window_deeds(&mut self, host: usize, first: u32) {
        self.forget_deeds(
            host,
            |deed| matches!(deed, Deed::Stores { window, .. } | Deed::Load { window, .. } if *window == first),
        );
    }

    fn queue_of(&mut self, host: usize, owner: u32) -> Option<u32> {
        let queues = self.model.ledgers[host].queues.iter();
        let all: Vec<u32> =
            queues.filter(|(_, queue)| queue.owner == owner).map(|(number, _)| *number).collect();
        self.rng.pick(&all)
    }

    /// Drops actions on an object that no longer exists.
    fn forget_deeds(&mut self, host: usize, is_gone: impl Fn(&Deed) -> bool) {
        for processor in &mut self.hosts[host].processes {
            processor.deeds.retain(|deed| !is_gone(deed));
        }
    }

    fn forget_endpoint_deeds(&mut self, host: usize, number: u32) {
        let windows = &self.model.ledgers[host].windows;
        let windows: Vec<u32> =
            windows.iter().filter(|(_, window)| window.endpoint == number).map(|(first, _)| *first).collect();
        self.forget_deeds(host, |deed| match deed {
            Deed::Stores { window, .. } | Deed::Load { window, .. } => windows.contains(window),
            Deed::Put { endpoint, .. }
            | Deed::Set { endpoint, .. }
            | Deed::Overstate { endpoint, .. }
            | Deed::Rewrite { endpoint }
            | Deed::Restate { endpoint }
            | Deed::Clear { endpoint, .. } => *endpoint == number,
            _ => false,
        });
    }

    /// Drops all actions on a host whose card was reset.
    pub(super) fn forget_all_deeds(&mut self, host: usize) {
        self.forget_deeds(host, |_| true);
    }

    /// Runs an invalid command, which must be refused and must change nothing.
    pub(super) fn command_nonsense(&mut self, host: usize) -> Result<(), Violation> {
        self.check_card(host)?;
        let machine = self.hosts[host].machine.clone();
        let area = hamlyn_abi::family::area::UlnArea { length: 64, ..Default::default() };
        let options = machine.options;
        let aperture = ClanOpenAperture { area, ..ClanOpenAperture::default() };
        let window = ClanOpenWindow { length: 64, endpoint: options.endpoints, ..ClanOpenWindow::default() };
        let which = self.rng.below(9);
        let refused = match which {
            0 => machine.command(CLAN_COMMAND_OPEN_APERTURE, options.apertures, &aperture)?,
            1 => {
                let odd = hamlyn_abi::family::area::UlnArea { first: 3, ..area };
                machine.command(
                    CLAN_COMMAND_OPEN_APERTURE,
                    15,
                    &ClanOpenAperture { area: odd, ..aperture },
                )?
            }
            2 => machine.command(
                CLAN_COMMAND_OPEN_APERTURE,
                15,
                &ClanOpenAperture { flags: 64, ..aperture },
            )?,
            3 => machine.command(CLAN_COMMAND_OPEN_WINDOW, 0, &window)?,
            4 => machine.command(CLAN_COMMAND_OPEN_WINDOW, options.window_pages, &window)?,
            5 => machine.command(CLAN_COMMAND_CLOSE_APERTURE, options.apertures, &[0_u8; 0])?,
            6 => machine.command(CLAN_COMMAND_OPEN_FIFO, 0, &[0_u8; 32])?,
            7 => machine.command(CLAN_COMMAND_OPEN_ENDPOINT, 0, &[0xff_u8; 48])?,
            _ => machine.command(self.rng.range(14, 0x0fff), 0, &aperture)?,
        };
        ensure(refused.is_err(), || format!("host {host}: nonsense {which} was carried out"))?;
        self.model.ledgers[host].count(Counter::CommandsRefused, 1);
        self.check_card(host)
    }

    /// Stores to an unused place, or an invalid value, as a process.
    pub(super) fn store_nonsense(&mut self, host: usize) -> Result<(), Violation> {
        self.check_card(host)?;
        let machine = self.hosts[host].machine.clone();
        let page = self.rng.below(machine.options.endpoints.into()) as u32;
        let width = self.rng.pick(&[1, 2, 4, 8]).unwrap_or(4);
        // Words that have a meaning are avoided.
        let at = match self.rng.below(3) {
            0 => 0x810 + self.rng.below(0x7e8),
            1 => 64 * self.rng.below(32) + 0x20 + self.rng.below(0x18),
            _ => 64 * self.rng.below(32) + 0x1c,
        };
        let at = at / u64::from(width) * u64::from(width);
        let at = if at % 64 < 0x1c && at < 0x800 { 0x900 } else { at };
        let value = self.rng.next();
        machine.store_page(page, at, width, value)?;
        self.check_card(host)
    }
}

/// Returns whether a request reads the aperture that another request names.
fn reads_as(request: &ClanRequest, other: &ClanRequest) -> bool {
    request.opcode == CLAN_DMA_READ && (request.host, request.aperture) == (other.host, other.aperture)
}
