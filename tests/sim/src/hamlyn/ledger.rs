//! The expected effects of each honest message, and its progress.
//!
//! Senders manage the receivers' buffers, so the ledger holds what honest programs have agreed on.
//! A *place* is a metadata entry, or a word of fast mode, with its own part of the message area. It
//! takes one *delivery* at a time. A delivery is a message, or the messages of a group receive
//! (section 2.5) that share one notification. Its *parts* are the messages.

use std::collections::BTreeSet;

use hamlyn_abi::hamlyn::request::HAMLYN_FAST_MODE;

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::judge::{HEADER, PacketHeader};

/// A possible destination of honest messages.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) host: usize,
    pub(super) pid: u64,
    pub(super) slot: u32,
    /// Metadata entry; `None` for fast mode.
    pub(super) entry: Option<u32>,
    /// Its own part of the message area: start and length in bytes.
    pub(super) start: u32,
    pub(super) length: u32,
    /// The delivery in flight.
    pub(super) busy: Option<usize>,
    /// The slot is closed.
    pub(super) gone: bool,
}

impl Place {
    /// Creates a place of a slot. The program that opens the place sets its owner.
    pub(super) fn new(slot: u32, entry: Option<u32>, start: u32, length: u32) -> Self {
        Self { host: 0, pid: 0, slot, entry, start, length, busy: None, gone: false }
    }
}

/// A message of an honest process.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) delivery: usize,
    pub(super) host: usize,
    pub(super) pid: u64,
    pub(super) offset: u32,
    pub(super) data: Vec<u8>,
    pub(super) metadata: Vec<u8>,
    /// The initial packet counter Y, or the word in fast mode.
    pub(super) y: u32,
    packet_size: u32,
    /// Whether each of its packets has arrived.
    arrived: Vec<bool>,
    /// The card has reported that it is sent.
    pub(super) sent: bool,
}

/// The messages of one notification.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub(super) place: usize,
    pub(super) silent: bool,
    pub(super) interrupt: bool,
    pub(super) parts: Vec<usize>,
    /// Packets that have not arrived.
    missing: usize,
    /// The receiver has got its notification.
    pub(super) notified: bool,
    /// One of its ends died, or its link went down: it may be lost, but not corrupted.
    pub(super) excused: bool,
}

impl Delivery {
    pub(super) fn is_whole(&self) -> bool {
        self.missing == 0
    }
}

/// A message before it is entered in the ledger.
#[derive(Debug)]
pub(super) struct NewPart {
    pub(super) host: usize,
    pub(super) pid: u64,
    pub(super) offset: u32,
    pub(super) data: Vec<u8>,
    pub(super) metadata: Vec<u8>,
    pub(super) y: u32,
    pub(super) packet_size: u32,
}

/// All honest messages of a simulation.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) places: Vec<Place>,
    pub(super) parts: Vec<Part>,
    pub(super) deliveries: Vec<Delivery>,
    /// Notifications that were overwritten unread.
    pub(super) overwritten: u64,
}

impl Ledger {
    /// Returns places that can take a message now.
    pub(super) fn free_places(&self) -> Vec<usize> {
        let free = |place: &Place| place.busy.is_none() && !place.gone;
        (0..self.places.len()).filter(|place| free(&self.places[*place])).collect()
    }

    /// Enters a delivery and its parts. Returns the parts' numbers.
    pub(super) fn enter(
        &mut self,
        place: usize,
        silent: bool,
        interrupt: bool,
        parts: Vec<NewPart>,
    ) -> Vec<usize> {
        let delivery = self.deliveries.len();
        let first = self.parts.len();
        let mut missing = 0;
        for NewPart { host, pid, offset, data, metadata, y, packet_size } in parts {
            let packets = data.len().div_ceil(packet_size as usize).max(1);
            missing += packets;
            let arrived = vec![false; packets];
            self.parts.push(Part {
                delivery,
                host,
                pid,
                offset,
                data,
                metadata,
                y,
                packet_size,
                arrived,
                sent: false,
            });
        }
        let numbers: Vec<usize> = (first..self.parts.len()).collect();
        let parts = numbers.clone();
        self.deliveries.push(Delivery {
            place,
            silent,
            interrupt,
            parts,
            missing,
            notified: false,
            excused: false,
        });
        self.places[place].busy = Some(delivery);
        numbers
    }

    /// Notes a packet that was accepted by an honest slot of `host`. It must have been sent, with
    /// these bytes, and arrive for the first time. Returns its delivery, and whether that is now
    /// whole.
    pub(super) fn arrived(
        &mut self,
        host: usize,
        source: u16,
        packet: &[u8],
    ) -> Result<(usize, bool), Violation> {
        let Some(header) = PacketHeader::read(packet) else {
            return Err(Violation::new("a packet without a header was accepted"));
        };
        let wrong = |what: &str| {
            Violation::new(format!("host {host} accepted {what} from host {source}: {header:?}"))
        };
        let part = self
            .part_of(host, source, packet, &header)
            .ok_or_else(|| wrong("a packet that was not sent, or that has arrived before,"))?;
        let part = &mut self.parts[part];
        part.fits(&header, packet).map_err(wrong)?;
        part.cross_off(&header);
        let number = part.delivery;
        let delivery = &mut self.deliveries[number];
        delivery.missing -= 1;
        Ok((number, delivery.missing == 0))
    }

    /// Notes that a packet was discarded. If it belongs to an honest message, its delivery is
    /// excused.
    pub(super) fn discarded(&mut self, host: usize, source: u16, packet: &[u8]) {
        let part = PacketHeader::read(packet).and_then(|header| self.part_of(host, source, packet, &header));
        if let Some(part) = part {
            let delivery = self.parts[part].delivery;
            self.deliveries[delivery].excused = true;
        }
    }

    /// Notes that a sender's card has taken back the packets of a message whose sender is gone. If
    /// they had all arrived, the place counts from 0 again, and may be used.
    pub(super) fn retracted(&mut self, host: usize, source: u16, header: &PacketHeader) {
        let is_there = |place: &&Place| {
            let entry = place.entry == Some(header.metadata_index);
            place.host == host && place.slot == header.slot && entry && !place.gone
        };
        let busy = self.places.iter().find(is_there).and_then(|place| place.busy);
        let Some(number) = busy.filter(|delivery| self.deliveries[*delivery].excused) else { return };
        if let [part] = self.deliveries[number].parts[..] {
            let part = &self.parts[part];
            let arrived = part.arrived.iter().filter(|arrived| **arrived).count();
            if part.host == usize::from(source) && arrived == header.delta as usize {
                self.release(number);
            }
        }
    }

    /// Returns the message that a packet belongs to. If it fits none, returns the one that it would
    /// fit with another length or other bytes. Several empty messages for one place are
    /// distinguished by their metadata.
    fn part_of(&self, host: usize, source: u16, packet: &[u8], header: &PacketHeader) -> Option<usize> {
        let fast = header.metadata_index == HAMLYN_FAST_MODE;
        let entry = (!fast).then_some(header.metadata_index);
        let parts = self
            .places
            .iter()
            .filter(|place| place.host == host && !place.gone)
            .filter(|place| place.slot == header.slot && place.entry == entry)
            .filter_map(|place| place.busy)
            .flat_map(|delivery| &self.deliveries[delivery].parts)
            .copied();
        let mut parts = parts.filter(|part| {
            let part = &self.parts[*part];
            part.host == usize::from(source) && (!fast || part.y == header.delta) && part.takes(header)
        });
        let first = parts.next()?;
        let fits = |part: &usize| self.parts[*part].fits(header, packet).is_ok();
        if fits(&first) { Some(first) } else { parts.find(fits).or(Some(first)) }
    }

    /// Returns the delivery of a notification that was read. It must be whole, and not notified
    /// before.
    pub(super) fn notified(
        &mut self,
        host: usize,
        slot: u32,
        entry: Result<u32, u32>,
    ) -> Result<usize, Violation> {
        let found = self
            .places
            .iter()
            .filter(|place| place.host == host && !place.gone && place.slot == slot)
            .filter(|place| place.entry == entry.ok())
            .filter_map(|place| place.busy)
            .find(|delivery| match entry {
                Ok(_) => true,
                Err(word) => self.parts[self.deliveries[*delivery].parts[0]].y == word,
            });
        let wrong = |what: &str| {
            Violation::new(format!("host {host}: slot {slot}, {entry:?}: notification of {what}"))
        };
        let number = found.ok_or_else(|| wrong("nothing, or a second one"))?;
        let delivery = &mut self.deliveries[number];
        ensure(delivery.is_whole(), || wrong("a message that is not whole"))?;
        ensure(!delivery.silent && !delivery.notified, || wrong("a silent message, or a second one"))?;
        delivery.notified = true;
        Ok(number)
    }

    /// Notes that the receiver was too slow. That is all that it is told of a delivery.
    pub(super) fn overwritten(&mut self, delivery: usize) {
        self.overwritten += 1;
        self.deliveries[delivery].notified = true;
        self.release(delivery);
    }

    /// Frees the place for further use.
    pub(super) fn release(&mut self, delivery: usize) {
        let place = self.deliveries[delivery].place;
        self.places[place].busy = None;
    }

    /// Returns whether everything has come that a delivery waits for.
    fn is_done(delivery: &Delivery) -> bool {
        delivery.is_whole() && (delivery.silent || delivery.notified)
    }

    /// Excuses deliveries in flight whose sender or receiver is a host and process for which `hit`
    /// holds.
    pub(super) fn excuse(&mut self, hit: impl Fn(usize, u64) -> bool) {
        for delivery in self.deliveries.iter_mut().filter(|delivery| !Self::is_done(delivery)) {
            let place = &self.places[delivery.place];
            let parts = &self.parts;
            delivery.excused |= hit(place.host, place.pid)
                || delivery.parts.iter().any(|part| hit(parts[*part].host, parts[*part].pid));
        }
    }

    /// Notes that a process's slots are closed.
    pub(super) fn bury(&mut self, host: usize, pid: u64) {
        self.excuse(|other, process| other == host && process == pid);
        for place in self.places.iter_mut().filter(|place| place.host == host && place.pid == pid) {
            place.gone = true;
        }
    }

    /// Gives up a delivery as its receiver. Returns `false` if it is whole already.
    pub(super) fn give_up(&mut self, delivery: usize) -> bool {
        let delivery = &mut self.deliveries[delivery];
        delivery.excused |= !delivery.is_whole();
        !delivery.is_whole()
    }

    /// Returns a delivery that is neither done nor excused.
    pub(super) fn owed(&self) -> Option<(usize, &Delivery)> {
        self.deliveries.iter().enumerate().find(|(_, delivery)| !delivery.excused && !Self::is_done(delivery))
    }

    /// Returns the first of those that is sent and has all its ends at hosts for which `is_such`
    /// holds.
    pub(super) fn owed_between(&self, is_such: impl Fn(usize) -> bool) -> Option<usize> {
        let on_its_way = |part: &usize| self.parts[*part].sent && is_such(self.parts[*part].host);
        self.deliveries.iter().position(|delivery| {
            !delivery.excused
                && !Self::is_done(delivery)
                && is_such(self.places[delivery.place].host)
                && delivery.parts.iter().all(on_its_way)
        })
    }

    /// Returns the number of messages whose delivery is done.
    pub(super) fn delivered(&self) -> u64 {
        let done = self.deliveries.iter().filter(|delivery| Self::is_done(delivery));
        done.map(|delivery| delivery.parts.len() as u64).sum()
    }

    /// Returns the number of pairs of hosts between which a message was delivered.
    pub(super) fn pairs(&self) -> u64 {
        let done = self.deliveries.iter().filter(|delivery| Self::is_done(delivery));
        let pairs = done.flat_map(|delivery| {
            let receiver = self.places[delivery.place].host;
            delivery.parts.iter().map(move |part| (self.parts[*part].host, receiver))
        });
        pairs.collect::<BTreeSet<_>>().len() as u64
    }

    pub(super) fn describe(&self, number: usize) -> String {
        let delivery = &self.deliveries[number];
        let place = &self.places[delivery.place];
        let parts: Vec<String> = delivery
            .parts
            .iter()
            .map(|part| {
                let Part { host, data, sent, arrived, .. } = &self.parts[*part];
                let here = arrived.iter().filter(|arrived| **arrived).count();
                format!(
                    "{} bytes of host {host} (sent: {sent}, {here} of {} packets arrived)",
                    data.len(),
                    arrived.len()
                )
            })
            .collect();
        format!(
            "delivery {number} to host {} slot {} entry {:?} (silent: {}, notified: {}): {}",
            place.host,
            place.slot,
            place.entry,
            delivery.silent,
            delivery.notified,
            parts.join(", ")
        )
    }
}

impl Part {
    /// Returns whether a packet can be one of this message that has not arrived.
    fn takes(&self, header: &PacketHeader) -> bool {
        let Some(at) = header.offset.checked_sub(self.offset) else { return false };
        let packet = (at / self.packet_size) as usize;
        at % self.packet_size == 0
            && self.arrived.get(packet) == Some(&false)
            && (at + header.length) as usize <= self.data.len()
    }

    /// Checks the length and bytes of a packet that it takes.
    fn fits(&self, header: &PacketHeader, packet: &[u8]) -> Result<(), &'static str> {
        let at = (header.offset - self.offset) as usize;
        let length = (self.data.len() - at).min(self.packet_size as usize);
        if header.length as usize != length {
            return Err("a packet of the wrong length");
        }
        let (metadata, data) = packet[HEADER..].split_at(header.metadata_length as usize);
        let due: &[u8] = if at == 0 { &self.metadata } else { &[] };
        if metadata != due {
            return Err("the wrong metadata");
        }
        if *data != self.data[at..at + length] {
            return Err("the wrong data");
        }
        Ok(())
    }

    fn cross_off(&mut self, header: &PacketHeader) {
        self.arrived[((header.offset - self.offset) / self.packet_size) as usize] = true;
    }
}
