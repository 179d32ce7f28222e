//! Packets that have left or will not leave, and reads that fail: whom that concerns.

use std::time::Duration;

use hamlyn_abi::clan::aperture::CLAN_GROUP_HOST;
use hamlyn_abi::clan::dma::{CLAN_DMA_MEMORY, CLAN_DMA_REFUSED, CLAN_DMA_TIMEOUT};
use hamlyn_abi::clan::endpoint::{CLAN_FAULT_LOST, CLAN_FAULT_MEMORY, CLAN_FAULT_TIMEOUT};
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_card::card::Progress;
use hamlyn_card::ports::{Link, Ports};

use crate::ClanCard;
use crate::endpoints::FaultReport;
use crate::packet::{READ, WRITE};
use crate::peer::{By, GivenUp, Leaving, Left};
use crate::reads::{Reader, Waiting};
use crate::tripwires::Watched;

impl ClanCard {
    /// Sends a packet, if one may be sent.
    pub(super) fn send_next(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress {
        let times = (ports.clock.now(), self.reads.timeout());
        let (engine, mut around) = self.engine(ports);
        let ran = engine.run(&mut around);
        let mut starved = 0;
        let sent = self.peers.send_next(link, times, &mut || starved += 1);
        self.telling.add(ClanStatistic::CreditWaits, starved);
        match sent {
            Ok((host, left)) => {
                self.engine.stir();
                self.telling.count(ClanStatistic::PacketsSent);
                if let Left::Packet(packet) = left {
                    self.left(ports, host, &packet);
                }
                Progress::Worked
            }
            Err(Progress::Idle) if ran => Progress::Worked,
            Err(progress) => progress,
        }
    }

    /// Handles a packet that has left, and continues the request that waits for that.
    fn left(&mut self, ports: &Ports<'_>, host: u16, packet: &Leaving) {
        let (length, tag) = (packet.data.len() as u64, packet.header.tag.get());
        if packet.header.kind != WRITE {
            return;
        }
        let Self { engine, peers, telling, tripwires, .. } = self;
        // The endpoint was closed, or another use of it began, while the packet waited.
        if telling.endpoints().tagged(tag).is_none() {
            peers.forget_writer(tag);
        }
        telling.add(ClanStatistic::BytesSent, length);
        let (offset, named) = (packet.header.offset.get(), packet.header.aperture.get());
        let (host, aperture) =
            if packet.header.is_copy() { (CLAN_GROUP_HOST + named, 0) } else { (host.into(), named) };
        let watched = Watched::Remote { owner: packet.owner, host, aperture };
        tripwires.accessed(ports, telling, watched, offset..offset.saturating_add(length), true);
        if packet.by == By::Request {
            engine.advance(ports, telling, tag, length);
        }
    }

    /// Handles a packet that will not leave, and reports the reason.
    fn dropped(&mut self, ports: &Ports<'_>, host: u16, packet: &Leaving) {
        let tag = packet.header.tag.get();
        if packet.header.kind == READ {
            if let Some(read) = self.reads.refused(host, tag) {
                self.read_failed(ports, &read, CLAN_FAULT_TIMEOUT);
            }
        } else if packet.by == By::Request {
            self.engine.failed(ports, &mut self.telling, tag, CLAN_DMA_TIMEOUT);
        } else {
            let (aperture, offset) = (packet.header.aperture.get(), packet.header.offset.get());
            let report = FaultReport { reason: CLAN_FAULT_LOST, host, aperture, offset };
            self.telling.fault_of(ports, tag, report);
        }
    }

    /// Handles a host that was given up, and reports that to the endpoints concerned.
    pub(super) fn given_up(&mut self, ports: &Ports<'_>, host: u16, (packets, endpoints): GivenUp) {
        for packet in packets {
            self.dropped(ports, host, &packet);
        }
        for tag in endpoints {
            let report = FaultReport { reason: CLAN_FAULT_TIMEOUT, host, aperture: 0, offset: 0 };
            self.telling.fault_of(ports, tag, report);
        }
    }

    /// Drops the packets for hosts that do not respond, and ends reads that wait too long.
    pub(super) fn give_up(&mut self, ports: &Ports<'_>, now: Duration) {
        for (host, gone) in self.peers.tick(now) {
            self.given_up(ports, host, gone);
        }
        for read in self.reads.give_up_overdue(now) {
            self.read_failed(ports, &read, CLAN_FAULT_TIMEOUT);
        }
    }

    /// Fails a read.
    pub(super) fn read_failed(&mut self, ports: &Ports<'_>, read: &Waiting, reason: u32) {
        self.telling.count(ClanStatistic::ReadsFailed);
        match read.reader {
            Reader::Load { .. } => {
                self.reads.load_done(read, u64::MAX);
                let report = FaultReport {
                    reason,
                    host: read.remote.host,
                    aperture: read.remote.aperture,
                    offset: read.offset,
                };
                self.telling.fault_of(ports, read.tag, report);
            }
            Reader::Request => {
                let result = match reason {
                    CLAN_FAULT_MEMORY => CLAN_DMA_MEMORY,
                    CLAN_FAULT_TIMEOUT | CLAN_FAULT_LOST => CLAN_DMA_TIMEOUT,
                    _ => CLAN_DMA_REFUSED,
                };
                self.engine.failed(ports, &mut self.telling, read.tag, result);
            }
        }
    }
}
