//! A two-dimensional mesh of routers, like the backplane of the SHRIMP multicomputer (section 3 of
//! that paper). It uses wormhole routing, which is oblivious and dimension-ordered.
//!
//! A packet is a worm of flits, each in the buffer of one link. Its head requests the next link of
//! its route. While it waits, the worm stays where it is and keeps its links. All packets from one
//! node to another take the same route ([`route`]), and each link is granted in the order of the
//! requests. So nothing overtakes anything between two nodes. A head waits only for links that come
//! later in one total order of all links. So there is no cyclic wait and no deadlock, as long as
//! nodes accept what arrives.
//!
//! **Cutting and joining** ([`splitting`]). A worm that is about to move may be cut if worms of
//! other sources wait for its links. The first part moves on, and the rest waits for its turn
//! behind the others. A worm that waits, and whose tail has not entered the mesh yet, may be joined
//! with the next packet of its source.
//!
//! So a node that accepts nothing blocks the nodes whose routes share a link with the packets for
//! it, and in the end every sender. That is the paper's flow control, unlike that of the crossbar
//! without a mesh.
//!
//! Time is counted in cycles, which are unrelated to seconds: a worm that is not blocked advances
//! by one link in each cycle.

mod link;
mod route;
mod splitting;
#[cfg(test)]
mod tests;

use hamlyn_fabric::{Header, HostId};
use thiserror::Error;

use crate::held::Packet;
pub use link::LinkCounters;
use link::{Claim, Link};
use route::Route;
pub use route::{Place, Port};

/// Bytes of a flit.
const FLIT: usize = 16;
/// Largest number of consecutive cycles before other work gets its turn.
const MOST_CYCLES: usize = 4096;

/// The shape of a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of nodes in a row.
    pub columns: u16,
    /// Number of rows.
    pub rows: u16,
}

impl Shape {
    /// Returns the number of nodes.
    pub fn nodes(self) -> u32 {
        u32::from(self.columns) * u32::from(self.rows)
    }
}

/// The text is not a shape.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not a mesh (wanted: columns x rows, each 1 to 256, as in 4x4)")]
pub struct NoShape(String);

impl std::str::FromStr for Shape {
    type Err = NoShape;

    fn from_str(text: &str) -> Result<Self, NoShape> {
        let number = |text: &str| text.parse().ok().filter(|number| (1..=256).contains(number));
        let sides = text.split_once('x').and_then(|(one, other)| Some((number(one)?, number(other)?)));
        sides.map(|(columns, rows)| Shape { columns, rows }).ok_or_else(|| NoShape(text.into()))
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}x{}", self.columns, self.rows)
    }
}

/// What a node does with a packet whose head has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It accepts the packet.
    Taken,
    /// It has no room: the worm waits.
    NoRoom,
}

#[derive(Debug)]
struct Worm {
    number: u64,
    packet: Packet,
    route: Route,
    /// Number of links that its head has entered, and number that its tail has left.
    head: usize,
    tail: usize,
    /// Number of flits that have not entered the mesh yet, and number that have not left it.
    behind: usize,
    left: usize,
    arrived: bool,
}

/// The mesh.
#[derive(Debug)]
pub(crate) struct Mesh {
    shape: Shape,
    links: Vec<Link>,
    /// In the order of arrival.
    worms: Vec<Worm>,
    came: u64,
    /// Whether nothing can move until a node has room again.
    is_stuck: bool,
}

impl Mesh {
    pub(crate) fn new(shape: Shape) -> Mesh {
        let links = (0..Place::count(shape)).map(|_| Link::default()).collect();
        Mesh { shape, links, worms: Vec::new(), came: 0, is_stuck: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.worms.is_empty()
    }

    /// Returns whether there is something to move.
    pub(crate) fn can_move(&self) -> bool {
        !self.worms.is_empty() && !self.is_stuck
    }

    /// Returns whether there are packets, but none can move.
    pub(crate) fn stands(&self) -> bool {
        self.is_stuck && !self.worms.is_empty()
    }

    /// Returns whether a packet waits at a node for room there.
    pub(crate) fn awaits(&self, node: HostId) -> bool {
        self.worms.iter().any(|worm| worm.packet.header.destination == node && worm.is_at_its_node())
    }

    /// Allows movement again: a node has room again, or is gone.
    pub(crate) fn stir(&mut self) {
        self.is_stuck = false;
    }

    /// Returns whether a node's link into the mesh is free.
    pub(crate) fn takes_from(&self, source: HostId) -> bool {
        self.links[Place::injection(source.0).index()].is_unclaimed()
    }

    /// Injects a packet. Allowed only if [`Mesh::takes_from`] returns `true` for its source.
    pub(crate) fn inject(&mut self, packet: Packet) {
        let Header { source, destination, .. } = packet.header;
        let route = Route::new(self.shape, source.0, destination.0);
        let flits = flits(packet.payload.len());
        let (number, head, tail) = (self.came, 0, 0);
        self.came += 1;
        self.worms.push(Worm {
            number,
            packet,
            route,
            head,
            tail,
            behind: flits,
            left: flits,
            arrived: false,
        });
        self.is_stuck = false;
    }

    /// Counts a packet that passed through while no other was in flight.
    pub(crate) fn pass(&mut self, source: HostId, destination: HostId, length: usize) {
        let route = Route::new(self.shape, source.0, destination.0);
        for step in 0..route.len() {
            self.links[route.link(step)].counters.passed(flits(length));
        }
    }

    /// Moves worms, cycle by cycle, until none can move or the limit of cycles is reached. Returns
    /// how many packets have arrived.
    ///
    /// `cut` is called for each worm that is about to move into a link or into its node. Its second
    /// argument is whether worms of other sources wait for the same links. It returns the two parts
    /// of the packet, or `None` to leave the packet whole. This function returns as soon as the
    /// link of a node in `next` into the mesh is free. So the node's next packet meets those that
    /// are in flight.
    pub(crate) fn run(
        &mut self,
        next: &[HostId],
        mut cut: impl FnMut(&Packet, bool) -> Option<(Vec<u8>, Vec<u8>)>,
        mut arrive: impl FnMut(&mut Packet) -> Arrival,
    ) -> usize {
        let mut arrived = 0;
        for _ in 0..MOST_CYCLES {
            let (mut moved, mut at) = (false, 0);
            while at < self.worms.len() {
                self.cut_up(at, &mut cut);
                let worm = &mut self.worms[at];
                let had = worm.arrived;
                moved |= worm.advance(&mut self.links, &mut arrive);
                arrived += usize::from(worm.arrived && !had);
                at += 1;
            }
            self.worms.retain(|worm| worm.left > 0);
            if !moved {
                self.is_stuck = true;
                break;
            }
            if next.iter().any(|node| self.takes_from(*node)) {
                break;
            }
        }
        arrived
    }

    /// Returns the locations and counters of the links that have been used.
    pub(crate) fn links(&self) -> impl Iterator<Item = (Place, LinkCounters)> + '_ {
        let counters = self.links.iter().enumerate().map(|(index, link)| (index, link.counters));
        let used = counters.filter(|(_, counters)| *counters != LinkCounters::default());
        used.map(|(index, counters)| (Place::at(index), counters))
    }
}

impl Worm {
    fn claim(&self) -> Claim {
        Claim { worm: self.number, source: self.packet.header.source }
    }

    fn is_at_its_node(&self) -> bool {
        self.head == self.route.len() && !self.arrived
    }

    /// Advances by one link, or by one flit into its node, if it can.
    fn advance(&mut self, links: &mut [Link], arrive: &mut impl FnMut(&mut Packet) -> Arrival) -> bool {
        if self.head < self.route.len() {
            let link = &mut links[self.route.link(self.head)];
            if !link.grant(self.claim()) {
                return false;
            }
            self.head += 1;
        } else {
            // The node is asked once: it accepts a packet as a whole.
            self.arrived |= arrive_once(self.arrived, &mut self.packet, arrive);
            if !self.arrived {
                return false;
            }
            self.left -= 1;
        }
        // All flits behind the head move up: another flit enters, or else the last link is
        // released.
        if self.behind > 0 {
            self.behind -= 1;
        } else {
            let link = &mut links[self.route.link(self.tail)];
            link.owner = None;
            link.counters.passed(flits(self.packet.payload.len()));
            self.tail += 1;
        }
        true
    }
}

fn arrive_once(arrived: bool, packet: &mut Packet, arrive: &mut impl FnMut(&mut Packet) -> Arrival) -> bool {
    arrived || arrive(packet) == Arrival::Taken
}

/// Returns the number of flits of a packet: those of a payload of `length` bytes, and one head
/// flit.
fn flits(length: usize) -> usize {
    1 + length.div_ceil(FLIT)
}
