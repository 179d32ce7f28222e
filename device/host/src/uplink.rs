//! The link to the switch. When the switch goes away the card keeps running, and requests its port
//! until it gets it back.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hamlyn_card::card::{Identity, Place};
use hamlyn_card::ports::{self, VolatileSlice};
use hamlyn_fabric::express::Holding;
use hamlyn_fabric::{
    Header, HeaderError, Heard, HostId, Link, Protocol, Reason, Record, Request, RingError, Traffic,
    connect_to,
};

/// How long a card without a switch waits before it requests its port again.
pub(super) const RETRY: Duration = Duration::from_millis(200);
/// How long the switch may take to answer a card that starts.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the switch may take to answer later requests. The machine is blocked meanwhile, so this
/// is far below its time-out.
const IMPATIENCE: Duration = Duration::from_millis(100);

/// Properties of the card's packets for the fabric.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packets {
    /// The protocol, and whether packets must stay in order.
    pub(crate) traffic: Traffic,
    /// Size of the largest packet that the card sends.
    pub(crate) largest: usize,
}

impl Packets {
    /// Takes the properties from the card's identity.
    pub(crate) fn of(identity: &Identity) -> Result<Self, HeaderError> {
        let traffic = Traffic { protocol: Protocol::parse(identity.protocol)?, ordered: identity.ordered };
        Ok(Self { traffic, largest: identity.largest_packet })
    }
}

/// The card's end of its link to the switch.
pub(crate) struct Uplink {
    /// Where the switch listens. `None` if it is in this process.
    switch: Option<PathBuf>,
    /// Users that may own the switch.
    trusted: Vec<u32>,
    packets: Packets,
    /// The host id to request: the user's choice at first, then the last one assigned.
    wanted: Option<HostId>,
    /// Number of ports of the switch; 0 if the switch does not report it.
    ports: u16,
    link: Option<Link>,
    /// Express memory that the machine shares with others. The first switch that the card attached
    /// to created it. It stays when that switch goes away, because the machine has it mapped.
    express: Option<Holding>,
    /// The card's groups, which are kept while there is no link.
    groups: u64,
    /// Why the link is lost, if it is.
    lost: Option<Loss>,
    /// Earliest time of the next request, however often the machine wakes the card before that.
    next_attempt: Instant,
}

/// Why a link is lost.
struct Loss {
    why: String,
    /// The reason to send to the switch.
    blame: Option<Reason>,
}

impl Loss {
    /// The switch has corrupted the link's ring.
    fn of(error: &RingError) -> Loss {
        Loss { why: format!("the switch broke it: {error}"), blame: Some(Reason::Corrupt) }
    }
}

impl Uplink {
    pub(super) fn new(switch: PathBuf, trusted: Vec<u32>, wanted: Option<u16>, packets: Packets) -> Self {
        let (wanted, next_attempt) = (wanted.map(HostId), Instant::now());
        Self {
            switch: Some(switch),
            trusted,
            packets,
            wanted,
            ports: 0,
            link: None,
            express: None,
            groups: 0,
            lost: None,
            next_attempt,
        }
    }

    /// Creates a link to a switch in the same process, at `place`.
    pub(crate) fn within(
        link: Link,
        place: Place,
        packets: Packets,
        express: Option<Holding>,
    ) -> anyhow::Result<Self> {
        let next_attempt = Instant::now();
        let uplink = Self {
            switch: None,
            trusted: Vec::new(),
            packets,
            wanted: Some(HostId(place.host)),
            ports: place.ports,
            link: Some(link),
            express,
            groups: 0,
            lost: None,
            next_attempt,
        };
        uplink.check(uplink.link.as_ref())?;
        Ok(uplink)
    }

    /// Checks that the card's packets fit through a link.
    fn check(&self, link: Option<&Link>) -> anyhow::Result<()> {
        let most = link.map_or(0, Link::max_packet);
        ensure!(
            self.packets.largest <= most,
            "a packet of {} bytes is over the switch's limit of {most}",
            self.packets.largest
        );
        Ok(())
    }

    /// Requests a port from the switch.
    pub(super) fn connect(&mut self) -> anyhow::Result<HostId> {
        self.ask(PATIENCE, true)
    }

    /// Requests the port again if there is no link and it is time. Returns `true` if there is a
    /// link now.
    pub(super) fn reconnect(&mut self) -> bool {
        if self.link.is_some() || Instant::now() < self.next_attempt {
            return false;
        }
        let answer = self.ask(IMPATIENCE, false);
        self.next_attempt = Instant::now() + RETRY;
        answer.inspect_err(|error| tracing::debug!("{error:#}")).is_ok()
    }

    fn ask(&mut self, timeout: Duration, express: bool) -> anyhow::Result<HostId> {
        let switch = self.switch.as_ref().context("the switch in this process has let go of the link")?;
        let request = Request { host: self.wanted, traffic: self.packets.traffic, express };
        let mut attached = connect_to(switch, &self.trusted, request, timeout)
            .with_context(|| format!("cannot link to the switch at {}", switch.display()))?;
        self.check(Some(&attached.link))?;
        attached.link.sender.set_groups(self.groups);
        (self.wanted, self.ports) = (Some(attached.host), attached.ports);
        self.lost = None;
        self.express = self.express.take().or(attached.express);
        self.link = Some(attached.link);
        Ok(attached.host)
    }

    /// Returns the protocol of the card's packets.
    pub(super) fn protocol(&self) -> Protocol {
        self.packets.traffic.protocol
    }

    pub(super) fn host(&self) -> Option<u16> {
        self.link.as_ref().and(self.wanted).map(|host| host.0)
    }

    pub(super) fn place(&self) -> Option<Place> {
        self.host().map(|host| Place { host, ports: self.ports })
    }

    /// Returns the express memory that the machine shares with others.
    pub(super) fn express(&self) -> Option<&Holding> {
        self.express.as_ref()
    }

    pub(super) fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    /// Marks the link as lost for this reason, unless it already is.
    pub(super) fn lose(&mut self, reason: impl Display) {
        self.lost.get_or_insert_with(|| Loss { why: reason.to_string(), blame: None });
    }

    /// Handles the bell, or the hang-up of the switch.
    pub(super) fn hear(&mut self) {
        if let Some(Heard::End(end)) = self.link.as_ref().map(Link::hear) {
            self.lose(end);
        }
    }

    /// Removes and returns a lost link with the reason.
    pub(super) fn take_lost(&mut self) -> Option<(Link, String)> {
        let Loss { why, blame } = self.lost.take()?;
        let link = self.link.take()?;
        blame.into_iter().for_each(|reason| link.end(reason));
        Some((link, why))
    }

    /// Returns the next received packet.
    pub(super) fn peek(&mut self) -> Option<Record<'_>> {
        match self.link.as_mut()?.peek() {
            Ok(record) => record,
            Err(error) => {
                self.lost.get_or_insert(Loss::of(&error));
                None
            }
        }
    }

    pub(super) fn consume(&mut self) {
        if let Some(link) = &mut self.link {
            link.consume();
        }
    }

    /// Marks the card as asleep on its link: for space if it has something to send, for packets if
    /// it accepts any. Returns `false` if either has come meanwhile, or the link is lost.
    pub(super) fn sleep(&mut self, for_room: bool, for_packets: bool) -> bool {
        if self.lost.is_some() {
            return false;
        }
        let Some(link) = &mut self.link else { return true };
        let room = if for_room { link.sleep_for_room() } else { Ok(true) };
        let slept = room.and_then(|none| Ok(none && (!for_packets || link.sleep_for_records()?)));
        slept.unwrap_or_else(|error| {
            self.lost.get_or_insert(Loss::of(&error));
            false
        })
    }
}

/// Returns the sender of a packet if the packet's protocol is the card's.
pub(super) fn source_of(record: &Record<'_>, protocol: Protocol) -> Option<u16> {
    // At debug level, because a host that sends such packets could flood the log.
    match record.header() {
        Ok(header) if header.protocol == protocol => return Some(header.source.0),
        Ok(header) => tracing::debug!("a packet of protocol {} is discarded", header.protocol),
        Err(error) => tracing::debug!("a packet is discarded: {error}"),
    }
    None
}

impl ports::Link for Uplink {
    fn send(&mut self, destination: u16, packet: &[VolatileSlice<'_>]) -> bool {
        let Some(host) = self.host() else { return false };
        // The switch overwrites the source.
        let (destination, source) = (HostId(destination), HostId(host));
        let header = Header { destination, source, protocol: self.protocol() };
        let sent = self.link.as_mut().map_or(Ok(false), |link| link.send(header, packet));
        sent.unwrap_or_else(|error| {
            self.lost.get_or_insert(Loss::of(&error));
            false
        })
    }

    fn is_stopped(&self, destination: u16) -> bool {
        self.link.as_ref().is_some_and(|link| link.sender.is_stopped(HostId(destination)))
    }

    fn resumptions(&self) -> u64 {
        self.link.as_ref().map_or(0, |link| link.sender.resumptions())
    }

    fn set_groups(&mut self, groups: u64) {
        self.groups = groups;
        if let Some(link) = &mut self.link {
            link.sender.set_groups(groups);
        }
    }
}

/// The other cards of the process, from the view of one card.
pub(crate) trait Neighbours {
    /// Passes a packet directly to the card of a host, which handles it at once. Returns `false` if
    /// the packet must be sent over the link, as all packets to groups must.
    fn hand_over(&mut self, destination: u16, packet: &[VolatileSlice<'_>]) -> bool;
}

/// A process with only one card.
pub(super) struct Alone;

impl Neighbours for Alone {
    fn hand_over(&mut self, _destination: u16, _packet: &[VolatileSlice<'_>]) -> bool {
        false
    }
}

/// A card's send paths: directly to its neighbours, over the link to all other hosts.
pub(super) struct SendPaths<'a> {
    pub(super) uplink: &'a mut Uplink,
    pub(super) neighbours: &'a mut dyn Neighbours,
}

impl ports::Link for SendPaths<'_> {
    fn send(&mut self, destination: u16, packet: &[VolatileSlice<'_>]) -> bool {
        self.neighbours.hand_over(destination, packet) || self.uplink.send(destination, packet)
    }

    fn is_stopped(&self, destination: u16) -> bool {
        self.uplink.is_stopped(destination)
    }

    fn resumptions(&self) -> u64 {
        self.uplink.resumptions()
    }

    fn set_groups(&mut self, groups: u64) {
        self.uplink.set_groups(groups);
    }
}

#[cfg(test)]
mod tests {
    use hamlyn_fabric::Geometry;

    use super::*;

    fn packets(number: u8) -> Packets {
        let protocol = Protocol::parse(number).unwrap();
        Packets { traffic: Traffic { protocol, ordered: false }, largest: 4096 }
    }

    fn unlinked() -> Uplink {
        Uplink::new("/nonexistent/switch.sock".into(), vec![0], Some(3), packets(1))
    }

    #[test]
    fn missing_switch_is_not_retried_at_once() {
        let mut uplink = unlinked();
        let before = Instant::now();
        assert!(!uplink.reconnect());
        assert!(uplink.next_attempt >= before + RETRY);
        assert_eq!(uplink.host(), None);
    }

    #[test]
    fn card_does_not_sleep_with_a_lost_link() {
        let (card, switch) = Link::pair(Geometry::default()).unwrap();
        let mut uplink = Uplink { link: Some(card), ..unlinked() };
        uplink.hear();
        assert!(uplink.sleep(false, true));
        drop(switch);
        uplink.hear();
        assert!(!uplink.sleep(false, true));
        assert!(uplink.take_lost().is_some());
        assert!(uplink.sleep(false, true) && uplink.host().is_none());
    }

    #[test]
    fn foreign_and_malformed_packets_have_no_source() {
        let (mut card, mut switch) = Link::pair(Geometry::default()).unwrap();
        let header = |protocol| Header { destination: HostId(0), source: HostId(7), protocol };
        let headers = [
            header(packets(1).traffic.protocol).to_bytes(),
            header(packets(3).traffic.protocol).to_bytes(),
            [0xff; 8],
        ];
        let sources = headers.map(|header| {
            switch.sender.reserve_as_is(header, 16).unwrap().unwrap();
            switch.commit();
            let source = source_of(&card.peek().unwrap().unwrap(), packets(1).traffic.protocol);
            card.consume();
            source
        });
        assert_eq!(sources, [Some(7), None, None]);
    }
}
