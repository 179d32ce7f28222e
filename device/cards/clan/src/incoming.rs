//! Arriving packets: checked, then written to memory or answered (sections 2.1 to 2.3).

use std::collections::BTreeSet;

use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::registers::CLAN_JOIN_ARRIVING;
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_card::ports::{Packet, Ports};
use zerocopy::IntoBytes;

use crate::ClanCard;
use crate::apertures::Access;
use crate::burst::Burst;
use crate::endpoints::FaultReport;
use crate::memory;
use crate::packet::{self, CREDIT, DATA, Fault, GROUPS, Header, PROBE, READ, REFUSED, TO_GROUP, WORD, WRITE};
use crate::peer::words;
use crate::reads::Reader;
use crate::tripwires::Watched;

/// The most data in a packet of any card, in bytes.
pub(crate) const MOST: usize = 65536;

impl ClanCard {
    pub(super) fn take(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        if !self.chassis.is_enabled() {
            return self.telling.count(ClanStatistic::Discarded);
        }
        let (header, data) = match packet::take(packet.bytes, MOST) {
            Ok(taken) => taken,
            Err(Fault::Malformed) => return self.telling.count(ClanStatistic::Malformed),
            Err(Fault::BadChecksum) => return self.telling.count(ClanStatistic::BadChecksum),
        };
        self.telling.count(ClanStatistic::PacketsArrived);
        let source = packet.source;
        let taken = match (header.kind, data.len()) {
            (WRITE, 1..) => self.write_arrived(ports, source, &header, data),
            (READ, 4) => self.read_arrived(ports, source, &header, word(&data, 0)),
            (DATA, 1..) => self.data_arrived(ports, source, &header, &data),
            (REFUSED, 8) => self.refusal_arrived(ports, source, &header, word(&data, 0), word(&data, 4) != 0),
            (CREDIT, 0) => self.credit_arrived(ports, source, &header, None),
            (CREDIT, 16) => {
                let long = |at| u64::from(word(&data, at)) | u64::from(word(&data, at + 4)) << 32;
                self.credit_arrived(ports, source, &header, Some((long(0), long(8))))
            }
            (PROBE, 0) => {
                self.peers.probed(source, header.epoch.get(), header.offset.get());
                Ok(())
            }
            (GROUPS, 0) => {
                let lost = self.peers.announced(source, header.offset.get(), header.flags);
                self.words_lost(ports, source, lost);
                Ok(())
            }
            _ => Err(ClanStatistic::Malformed),
        };
        if let Err(reason) = taken {
            self.telling.count(reason);
        }
    }

    /// Handles data for an aperture.
    fn write_arrived(
        &mut self,
        ports: &Ports<'_>,
        source: u16,
        header: &Header,
        data: Vec<u8>,
    ) -> Result<(), ClanStatistic> {
        let (offset, length) = (header.offset.get(), data.len() as u64);
        offset.checked_add(length).ok_or(ClanStatistic::Malformed)?;
        if !self.peers.arrived(source, header.epoch.get(), words(offset, length)) {
            return Err(ClanStatistic::OverCredit);
        }
        let access = Access { source, length, writes: true };
        let placed = match self.apertures.place(header, access) {
            // The part beyond the aperture's end is refused, but not the part that it was joined
            // with.
            Err(ClanStatistic::RefusedRange) => {
                let (now, behind) = data.split_at(self.apertures.fitting(header, access) as usize);
                let end = Header { offset: (offset + now.len() as u64).into(), ..*header };
                debug_assert!(!behind.is_empty(), "all of a packet fits that does not");
                if let Ok(placed) =
                    self.apertures.place(header, Access { length: now.len() as u64, ..access })
                    && !now.is_empty()
                {
                    self.put_down(ports, source, header, placed, now.to_vec());
                }
                self.refuse(source, &end, CLAN_FAULT_REFUSED, false);
                return Err(ClanStatistic::RefusedRange);
            }
            placed => placed.inspect_err(|_| self.refuse(source, header, CLAN_FAULT_REFUSED, false))?,
        };
        self.put_down(ports, source, header, placed, data);
        Ok(())
    }

    /// Writes data to an aperture's memory, or joins it to the data that arrived before it.
    fn put_down(
        &mut self,
        ports: &Ports<'_>,
        source: u16,
        header: &Header,
        (aperture, place): (u32, u64),
        data: Vec<u8>,
    ) {
        let burst = Burst { source, header: *header, aperture, place, data };
        if self.join & CLAN_JOIN_ARRIVING == 0 || !burst.is_short() {
            self.settle(ports);
            self.deposit(ports, &burst);
        } else if self.burst.as_mut().is_some_and(|joined| joined.append(&burst)) {
            self.telling.count(ClanStatistic::PacketsJoined);
            if self.burst.as_ref().is_some_and(Burst::is_enough) {
                self.settle(ports);
            }
        } else {
            self.settle(ports);
            self.burst = Some(burst);
        }
    }

    /// Writes the packets that were joined so far.
    pub(super) fn settle(&mut self, ports: &Ports<'_>) {
        if let Some(burst) = self.burst.take() {
            self.deposit(ports, &burst);
        }
    }

    fn deposit(&mut self, ports: &Ports<'_>, burst: &Burst) {
        let Burst { source, header, aperture, place, data } = burst;
        let (start, length) = (*place, data.len() as u64);
        // Each Tripwire fires as soon as the words that it watches are written, before the rest is
        // written.
        let mut done = 0;
        for firing in self.tripwires.firings(Watched::Local(*aperture), &(start..start + length), true) {
            let end = (firing.at - start) as usize;
            if !self.write_down(ports, *aperture, start + done as u64, &data[done..end]) {
                return self.refuse(*source, header, CLAN_FAULT_MEMORY, false);
            }
            done = end;
            self.tripwires.fire(ports, &mut self.telling, &firing);
        }
        if !self.write_down(ports, *aperture, start + done as u64, &data[done..]) {
            self.refuse(*source, header, CLAN_FAULT_MEMORY, false);
        }
    }

    /// Writes bytes to an aperture's memory. Returns `false` if the memory cannot be reached.
    fn write_down(&mut self, ports: &Ports<'_>, aperture: u32, place: u64, data: &[u8]) -> bool {
        let Some(opened) = self.apertures.get(aperture) else { return true };
        if memory::write(ports.dma, &opened.area, place, data).is_err() {
            self.telling.count(ClanStatistic::Discarded);
            return false;
        }
        self.telling.add(ClanStatistic::BytesDeposited, data.len() as u64);
        true
    }

    /// Handles a read request.
    fn read_arrived(
        &mut self,
        ports: &Ports<'_>,
        source: u16,
        header: &Header,
        length: u32,
    ) -> Result<(), ClanStatistic> {
        self.settle(ports);
        let length = u64::from(length);
        if length == 0 || length > MOST as u64 || header.flags & TO_GROUP != 0 {
            return Err(ClanStatistic::Malformed);
        }
        if !self.peers.arrived(source, header.epoch.get(), 1) {
            return Err(ClanStatistic::OverCredit);
        }
        let placed = self.apertures.place(header, Access { source, length, writes: false });
        let (aperture, place) =
            placed.inspect_err(|_| self.refuse(source, header, CLAN_FAULT_REFUSED, true))?;
        let Some(opened) = self.apertures.get(aperture) else { return Ok(()) };
        let Ok(data) = memory::read(ports.dma, &opened.area, place, length) else {
            self.refuse(source, header, CLAN_FAULT_MEMORY, true);
            return Err(ClanStatistic::Discarded);
        };
        if !self.answer(source, header, &data) {
            return Err(ClanStatistic::OverCredit);
        }
        self.telling.count(ClanStatistic::ReadsServed);
        let watched = Watched::Local(aperture);
        self.tripwires.accessed(ports, &mut self.telling, watched, place..place + length, false);
        Ok(())
    }

    /// Sends the requested data, in packets that are no longer than others of this card. Returns
    /// `false` if there is no room.
    fn answer(&mut self, source: u16, header: &Header, mut data: &[u8]) -> bool {
        let mut offset = header.offset.get();
        while !data.is_empty() {
            let most = self.peers.burst() - offset % WORD;
            let (now, behind) = data.split_at(data.len().min(most as usize));
            let piece = Header { offset: offset.into(), ..header.answer(DATA) };
            if !self.peers.answer(source, piece, now) {
                return false;
            }
            (offset, data) = (offset + now.len() as u64, behind);
        }
        true
    }

    fn refuse(&mut self, source: u16, header: &Header, reason: u32, was_read: bool) {
        let (why, answer) = ([reason, was_read.into()], header.answer(REFUSED));
        if was_read {
            // If there is no room for the refusal, the read ends by its own deadline.
            let _ = self.peers.answer(source, answer, why.as_bytes());
        } else {
            self.peers.refuse(source, answer, why.as_bytes());
        }
    }

    fn data_arrived(
        &mut self,
        ports: &Ports<'_>,
        source: u16,
        header: &Header,
        data: &[u8],
    ) -> Result<(), ClanStatistic> {
        self.settle(ports);
        self.reads.heard(source, header.tag.get());
        let read = self.reads.answered(source, header, data).map_err(|()| ClanStatistic::Discarded)?;
        if let Some(read) = read {
            let watched =
                Watched::Remote { owner: read.owner, host: source.into(), aperture: read.remote.aperture };
            match read.reader {
                Reader::Load { .. } => {
                    let mut value = [0; 8];
                    value[..read.data.len()].copy_from_slice(&read.data);
                    self.reads.load_done(&read, u64::from_le_bytes(value));
                }
                Reader::Request => {
                    self.engine.read_arrived(ports, &mut self.telling, &self.apertures, &read);
                }
            }
            let bytes = read.offset..read.offset + read.length;
            self.tripwires.accessed(ports, &mut self.telling, watched, bytes, false);
        }
        Ok(())
    }

    fn refusal_arrived(
        &mut self,
        ports: &Ports<'_>,
        source: u16,
        header: &Header,
        reason: u32,
        was_read: bool,
    ) -> Result<(), ClanStatistic> {
        if !(CLAN_FAULT_REFUSED..=CLAN_FAULT_LOST).contains(&reason) {
            return Err(ClanStatistic::Malformed);
        }
        self.settle(ports);
        if was_read {
            self.reads.heard(source, header.tag.get());
            let read = self.reads.refused(source, header.tag.get()).ok_or(ClanStatistic::Discarded)?;
            self.read_failed(ports, &read, reason);
        } else {
            // A host that was not written to has nothing to refuse. It could otherwise end the
            // connections between other hosts.
            if !self.peers.can_refuse(source, header.tag.get()) {
                return Err(ClanStatistic::Discarded);
            }
            let (aperture, offset) = (header.aperture.get(), header.offset.get());
            let report = FaultReport { reason, host: source, aperture, offset };
            self.telling.fault_of(ports, header.tag.get(), report);
        }
        Ok(())
    }

    fn credit_arrived(
        &mut self,
        ports: &Ports<'_>,
        source: u16,
        header: &Header,
        probe: Option<(u64, u64)>,
    ) -> Result<(), ClanStatistic> {
        let lost = self.peers.granted(source, header, probe);
        self.words_lost(ports, source, lost);
        Ok(())
    }

    /// Reports to endpoints that some of their words to a host were lost.
    fn words_lost(&mut self, ports: &Ports<'_>, host: u16, endpoints: BTreeSet<u32>) {
        for tag in endpoints {
            let report = FaultReport { reason: CLAN_FAULT_LOST, host, aperture: 0, offset: 0 };
            self.telling.fault_of(ports, tag, report);
        }
    }
}

/// Returns the little-endian word at `at`, which must be within the data.
fn word(data: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&data[at..at + 4]);
    u32::from_le_bytes(bytes)
}
