//! Programmed I/O: loads and stores of windows (section 2.1).

use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_card::card::Reading;
use hamlyn_card::ports::Ports;

use crate::endpoints::FaultReport;
use crate::packet::{FROM_SYSTEM, Header, READ, WRITE};
use crate::peer::{By, Leaving};
use crate::peers::{Peers, Put};
use crate::reads::{Reader, Reads};
use crate::telling::Telling;
use crate::windows::{Window, Windows};

/// The value of a load that fails.
const ONES: u64 = u64::MAX;

impl Windows {
    /// Handles a store to the window pages. `joins` lets it join the packet of the previous store.
    pub(crate) fn store(
        &self,
        ports: &Ports<'_>,
        telling: &mut Telling,
        peers: &mut Peers,
        joins: bool,
        (byte, width, value): (u64, u8, u64),
    ) {
        let Some((_, window, offset)) = self.at(byte) else {
            return telling.count(ClanStatistic::StoresRefused);
        };
        if !window.has(offset, width) {
            telling.count(ClanStatistic::StoresRefused);
            return window.fault(ports, telling, offset, CLAN_FAULT_WINDOW);
        }
        let Some(endpoint) = telling.endpoint(window.endpoint) else { return };
        let (tag, owner) = (endpoint.tag, endpoint.owner);
        let header = window.remote.addressed(Header { tag: tag.into(), ..window.header(WRITE, offset) });
        let data = value.to_le_bytes()[..width.into()].to_vec();
        let leaving = Leaving { header, data, owner, by: By::Processor };
        let put = if !peers.can_reach(window.remote) {
            Put::Lost
        } else if let Some(group) = window.remote.group() {
            // A member without room loses only its own copy.
            for host in peers.members(group) {
                if put_store(telling, peers, joins, host, leaving.clone()) == Put::Lost {
                    let offset = leaving.header.offset.get();
                    telling.copy_lost(ports, window.endpoint, (host, group), offset);
                }
            }
            Put::New
        } else {
            put_store(telling, peers, joins, window.remote.host, leaving)
        };
        if put == Put::Lost {
            telling.count(ClanStatistic::StoresRefused);
            window.fault(ports, telling, offset, CLAN_FAULT_LOST);
        } else {
            telling.count(ClanStatistic::StoresToWindow);
        }
    }

    /// Handles a load from the window pages: a remote read.
    pub(crate) fn load(
        &self,
        ports: &Ports<'_>,
        telling: &mut Telling,
        peers: &mut Peers,
        reads: &mut Reads,
        (byte, width): (u64, u8),
    ) -> Reading {
        let Some((first, window, offset)) = self.at(byte) else {
            telling.count(ClanStatistic::LoadsRefused);
            return Reading::Now(ONES);
        };
        let (host, now) = (window.remote.host, ports.clock.now());
        let refused = if !window.has(offset, width) || window.remote.group().is_some() {
            Some(CLAN_FAULT_WINDOW)
        } else if !peers.can_reach(window.remote) || !reads.takes_load(host, now) || peers.is_dead(host, now)
        {
            Some(CLAN_FAULT_TIMEOUT)
        } else {
            None
        };
        if let Some(reason) = refused {
            telling.count(ClanStatistic::LoadsRefused);
            window.fault(ports, telling, offset, reason);
            return Reading::Now(ONES);
        }
        let Some(endpoint) = telling.endpoint(window.endpoint) else { return Reading::Now(ONES) };
        let whose = (endpoint.tag, endpoint.owner);
        let bytes = (window.offset + offset, width.into());
        let number = reads.begin(Reader::Load { window: first }, window.remote, bytes, whose, now);
        let header = Header { tag: number.into(), ..window.header(READ, offset) };
        let data = u32::from(width).to_le_bytes().to_vec();
        peers.put(host, Leaving { header, data, owner: whose.1, by: By::Processor });
        telling.count(ClanStatistic::LoadsFromWindow);
        Reading::Later(number.into())
    }
}

fn put_store(telling: &mut Telling, peers: &mut Peers, joins: bool, host: u16, leaving: Leaving) -> Put {
    let put = peers.put_store(host, leaving, joins);
    if put == Put::Joined {
        telling.count(ClanStatistic::StoresJoined);
    }
    put
}

impl Window {
    fn has(&self, offset: u64, width: u8) -> bool {
        offset + u64::from(width) <= self.length
    }

    /// Reports a fault at byte `offset` of the window.
    fn fault(&self, ports: &Ports<'_>, telling: &mut Telling, offset: u64, reason: u32) {
        let (host, aperture) = (self.remote.host, self.remote.aperture);
        // A place behind the window's end may be beyond the last possible byte.
        let offset = self.offset.wrapping_add(offset);
        telling.fault(ports, self.endpoint, FaultReport { reason, host, aperture, offset });
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
