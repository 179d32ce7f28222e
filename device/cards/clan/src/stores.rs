//! Programmed I/O: loads and stores of windows (section 2.1).

use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_card::card::Reading;
use hamlyn_card::ports::Ports;

use crate::ClanCard;
use crate::endpoints::FaultReport;
use crate::packet::{FROM_SYSTEM, Header, READ, WRITE};
use crate::peer::{By, Leaving};
use crate::peers::Put;
use crate::reads::Reader;
use crate::windows::Window;

/// The value of a load that fails.
const ONES: u64 = u64::MAX;

impl ClanCard {
    /// Handles a store to the window pages.
    pub(super) fn store(&mut self, ports: &Ports<'_>, byte: u64, width: u8, value: u64) {
        let Some((_, window, offset)) = self.windows.at(byte) else {
            return self.count(ClanStatistic::StoresRefused);
        };
        if !window.has(offset, width) {
            self.count(ClanStatistic::StoresRefused);
            return self.window_fault(ports, &window, offset, CLAN_FAULT_WINDOW);
        }
        let Some(endpoint) = self.endpoints.get(window.endpoint) else { return };
        let (tag, owner) = (endpoint.tag, endpoint.owner);
        let header = window.remote.addressed(Header { tag: tag.into(), ..window.header(WRITE, offset) });
        let data = value.to_le_bytes()[..width.into()].to_vec();
        let leaving = Leaving { header, data, owner, by: By::Processor };
        let put = if !self.can_reach(window.remote) {
            Put::Lost
        } else if let Some(group) = window.remote.group() {
            self.store_to_group(ports, &window, group, &leaving);
            Put::New
        } else {
            self.put_store(window.remote.host, leaving)
        };
        if put == Put::Lost {
            self.count(ClanStatistic::StoresRefused);
            self.window_fault(ports, &window, offset, CLAN_FAULT_LOST);
        } else {
            self.count(ClanStatistic::StoresToWindow);
        }
    }

    fn put_store(&mut self, host: u16, leaving: Leaving) -> Put {
        let joins = self.joins_leaving();
        let put = self.peers.put_store(host, leaving, joins);
        if put == Put::Joined {
            self.count(ClanStatistic::StoresJoined);
        }
        put
    }

    /// Copies a store for each member of a group. A member for which there is no room loses only
    /// its own copy.
    fn store_to_group(&mut self, ports: &Ports<'_>, window: &Window, group: u32, leaving: &Leaving) {
        let offset = leaving.header.offset.get();
        for host in self.peers.members(group) {
            if self.put_store(host, leaving.clone()) == Put::Lost {
                self.copy_lost(ports, window.endpoint, (host, group), offset);
            }
        }
    }

    /// Reports that a member of a group has no room for its copy of an endpoint's write.
    pub(super) fn copy_lost(
        &mut self,
        ports: &Ports<'_>,
        endpoint: u32,
        (host, group): (u16, u32),
        offset: u64,
    ) {
        self.count(ClanStatistic::CopiesLost);
        let report = FaultReport { reason: CLAN_FAULT_LOST, host, aperture: group, offset };
        self.fault(ports, endpoint, report);
    }

    /// Handles a load from the window pages: a remote read.
    pub(super) fn load(&mut self, ports: &Ports<'_>, byte: u64, width: u8) -> Reading {
        let Some((first, window, offset)) = self.windows.at(byte) else {
            self.count(ClanStatistic::LoadsRefused);
            return Reading::Now(ONES);
        };
        let (host, now) = (window.remote.host, ports.clock.now());
        let refused = if !window.has(offset, width) || window.remote.group().is_some() {
            Some(CLAN_FAULT_WINDOW)
        } else if !self.can_reach(window.remote)
            || !self.reads.takes_load(host, now)
            || self.peers.is_dead(host, now)
        {
            Some(CLAN_FAULT_TIMEOUT)
        } else {
            None
        };
        if let Some(reason) = refused {
            self.count(ClanStatistic::LoadsRefused);
            self.window_fault(ports, &window, offset, reason);
            return Reading::Now(ONES);
        }
        let Some(endpoint) = self.endpoints.get(window.endpoint) else { return Reading::Now(ONES) };
        let whose = (endpoint.tag, endpoint.owner);
        let deadline = now + self.read_timeout;
        let bytes = (window.offset + offset, width.into());
        let reader = Reader::Load { window: first };
        let number = self.reads.begin(reader, window.remote, bytes, whose, deadline);
        let header = Header { tag: number.into(), ..window.header(READ, offset) };
        let data = u32::from(width).to_le_bytes().to_vec();
        self.peers.put(host, Leaving { header, data, owner: whose.1, by: By::Processor });
        self.count(ClanStatistic::LoadsFromWindow);
        Reading::Later(number.into())
    }

    fn window_fault(&mut self, ports: &Ports<'_>, window: &Window, offset: u64, reason: u32) {
        let (host, aperture) = (window.remote.host, window.remote.aperture);
        // A place behind the window's end may be beyond the last possible byte.
        let offset = window.offset.wrapping_add(offset);
        let report = FaultReport { reason, host, aperture, offset };
        self.fault(ports, window.endpoint, report);
    }
}

impl Window {
    fn has(&self, offset: u64, width: u8) -> bool {
        offset + u64::from(width) <= self.length
    }

    /// Returns the header of a packet for byte `offset` of the window.
    fn header(&self, kind: u8, offset: u64) -> Header {
        Header {
            flags: if self.privileged { FROM_SYSTEM } else { 0 },
            key: self.remote.key.into(),
            aperture: self.remote.aperture.into(),
            offset: (self.offset + offset).into(),
            ..Header::of(kind)
        }
    }
}
