//! A card's end of its link, with a stage for arriving packets in which they can be reordered.
//!
//! The rings keep order. A fabric with adaptive routing would not, so the stage stands for its
//! paths. It takes packets out of the ring, and the schedule decides which of them reaches the card
//! next.

use hamlyn_card::ports::{self, Pieces, VolatileSlice};
use hamlyn_fabric::{Header, Heard, HostId, Link, RingError, Traffic};

use crate::engine::violation::Violation;

/// Maximum number of packets between the ring and the card.
const STAGE: usize = 6;

/// A packet between the ring and the card.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) source: u16,
    pub(crate) bytes: Vec<u8>,
}

/// A card's link to and from the switch.
#[derive(Debug)]
pub(crate) struct Uplink {
    host: u16,
    /// Kind of the card's packets.
    pub(crate) traffic: Traffic,
    link: Option<Link>,
    pub(crate) stage: Vec<Arrived>,
    /// Packets put into rings to the switch, including the hostile ones of `inject`.
    pub(crate) sent: u64,
    /// Packets of `inject`.
    pub(crate) injected: u64,
    /// Packets taken out of rings from the switch.
    pub(crate) taken: u64,
    /// Taken packets that were not handed to the card, because their protocol is not the card's.
    pub(crate) strange: u64,
    /// Destinations and packets that the card has sent since this was last emptied.
    pub(crate) departed: Vec<(u16, Vec<u8>)>,
    /// Hosts whose cards take a packet directly from this one now.
    pub(crate) neighbours: Vec<u16>,
    /// Destination and bytes of the packet that this card has handed over directly.
    pub(crate) handed: Option<(u16, Vec<u8>)>,
    /// Groups of which the card is a member.
    groups: u64,
    broken: Option<RingError>,
}

impl Uplink {
    pub(crate) fn new(host: u16, traffic: Traffic) -> Self {
        Self {
            host,
            traffic,
            link: None,
            stage: Vec::new(),
            sent: 0,
            injected: 0,
            taken: 0,
            strange: 0,
            departed: Vec::new(),
            neighbours: Vec::new(),
            handed: None,
            groups: 0,
            broken: None,
        }
    }

    pub(crate) fn set_link(&mut self, link: Option<Link>) {
        self.link = link;
        self.tell_groups();
    }

    fn tell_groups(&mut self) {
        if let Some(link) = &mut self.link {
            link.sender.set_groups(self.groups);
        }
    }

    /// Returns whether the switch knows the card as a member of a group.
    pub(crate) fn is_member(&self, group: u32) -> bool {
        self.is_up() && self.groups >> group & 1 == 1
    }

    pub(crate) fn is_up(&self) -> bool {
        self.link.is_some()
    }

    /// Takes a packet from the ring, if there is one and the stage has room.
    pub(crate) fn draw(&mut self) -> Result<bool, Violation> {
        let Some(link) = self.link.as_mut().filter(|_| self.stage.len() < STAGE) else { return Ok(false) };
        let Some(record) = link.peek().map_err(Violation::new)? else { return Ok(false) };
        let header = record.header().map_err(Violation::new)?;
        let mut bytes = vec![0; record.payload.len()];
        record.payload.copy_to(&mut bytes[..]);
        link.consume();
        self.taken += 1;
        // A packet of another protocol is dropped, as a card's host does.
        if header.protocol != self.traffic.protocol {
            self.strange += 1;
            return Ok(true);
        }
        self.stage.push(Arrived { source: header.source.0, bytes });
        Ok(true)
    }

    /// Sends a packet of a hostile host, bypassing its card. Returns `false` if the ring is full.
    pub(crate) fn inject(&mut self, header: [u8; 8], bytes: &[u8]) -> Result<bool, Violation> {
        let Some(link) = &mut self.link else { return Ok(false) };
        let Some(room) = link.sender.reserve_as_is(header, bytes.len()).map_err(Violation::new)? else {
            return Ok(false);
        };
        room.copy_from(bytes);
        link.commit();
        self.sent += 1;
        self.injected += 1;
        Ok(true)
    }

    /// Returns whether this end was woken.
    pub(crate) fn was_woken(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.hear() == Heard::Ring)
    }

    /// Declares the card asleep, as the card's process does. Returns `false` if there is work.
    pub(crate) fn sleep(&mut self, for_room: bool) -> Result<bool, Violation> {
        let Some(link) = &mut self.link else { return Ok(true) };
        let room = !for_room || link.sleep_for_room().map_err(Violation::new)?;
        Ok(room && link.sleep_for_records().map_err(Violation::new)?)
    }

    /// Returns the error that made the link unusable, if the card has found one.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        self.broken.map_or(Ok(()), |error| Err(Violation::new(error)))
    }
}

impl Uplink {
    fn header(&self, destination: u16) -> Header {
        // The switch overwrites the source whatever a card sends, so this one is deliberately
        // false.
        let source = HostId(self.host + 1);
        Header { destination: HostId(destination), source, protocol: self.traffic.protocol }
    }
}

impl ports::Link for Uplink {
    fn send(&mut self, destination: u16, packet: &[VolatileSlice<'_>]) -> bool {
        let mut pieces = Pieces::new(packet);
        let mut bytes = vec![0; pieces.len()];
        let whole = pieces.take_into(&mut bytes).is_some();
        if self.neighbours.contains(&destination) {
            self.handed = Some((destination, bytes.clone()));
        } else {
            let header = self.header(destination);
            let Some(link) = &mut self.link else { return false };
            let sent = link.send(header, packet).unwrap_or_else(|error| {
                self.broken = Some(error);
                false
            });
            if !sent {
                return false;
            }
        }
        self.sent += 1;
        self.departed.push((destination, bytes));
        whole
    }

    fn is_stopped(&self, destination: u16) -> bool {
        self.link.as_ref().is_some_and(|link| link.sender.is_stopped(HostId(destination)))
    }

    fn resumptions(&self) -> u64 {
        self.link.as_ref().map_or(0, |link| link.sender.resumptions())
    }

    fn set_groups(&mut self, groups: u64) {
        self.groups = groups;
        self.tell_groups();
    }
}
