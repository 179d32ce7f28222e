//! A two-dimensional mesh of routers, as the backplane of the SHRIMP multicomputer (section 3 of
//! that paper): wormhole routing, oblivious and in order of dimensions.
//!
//! A packet is a worm of flits, each of which is in the buffer of one link. Its head asks for the
//! next link of its route; while it has to wait the worm stands where it is, and keeps its links.
//! All packets from one node to another take the same route ([`route`]), and a link goes to those
//! who want it in the order in which they came to ask, so nothing overtakes anything between two
//! nodes. A head waits only for links that come later in one order of all links, so worms never
//! wait in a circle: there is no deadlock, as long as nodes take what arrives.
//!
//! **Cutting and joining** ([`splitting`]). A worm that is about to move may be cut if worms of
//! other sources wait for its links: the first part moves on, and the rest waits for its turn
//! behind the others. A worm that waits, and whose tail is still to come into the mesh, may be
//! joined with the next packet of its source.
//!
//! Who takes nothing therefore stops those whose routes share a link with the packets for it, and
//! in the end whoever sends: that is the paper's flow control, and not what the crossbar does
//! without a mesh.
//!
//! Time is counted in cycles, and has nothing to do with seconds: a worm that is not held up
//! advances by one link in each.

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
/// Cycles in a row, after which others have their turn.
const MOST_CYCLES: usize = 4096;

/// The shape of a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Nodes in a row.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

impl Shape {
    /// How many nodes it has.
    pub fn nodes(self) -> u32 {
        u32::from(self.columns) * u32::from(self.rows)
    }
}

/// A text that is no shape.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no mesh (wanted: columns x rows, each 1 to 256, as in 4x4)")]
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
    /// It has it.
    Taken,
    /// It has no room: the worm waits.
    NoRoom,
}

#[derive(Debug)]
struct Worm {
    number: u64,
    packet: Packet,
    route: Route,
    /// Links that its head has come into, and those that its tail has left.
    head: usize,
    tail: usize,
    /// Flits that are still to come into the mesh, and that are still to leave it.
    behind: usize,
    left: usize,
    arrived: bool,
}

/// The mesh.
#[derive(Debug)]
pub(crate) struct Mesh {
    shape: Shape,
    links: Vec<Link>,
    /// In the order in which they came.
    worms: Vec<Worm>,
    came: u64,
    /// Nothing can move until a node has room again.
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

    /// Whether there is something to move.
    pub(crate) fn can_move(&self) -> bool {
        !self.worms.is_empty() && !self.is_stuck
    }

    /// Whether there is something that cannot move.
    pub(crate) fn stands(&self) -> bool {
        self.is_stuck && !self.worms.is_empty()
    }

    /// Whether a packet waits at a node for room there.
    pub(crate) fn awaits(&self, node: HostId) -> bool {
        self.worms.iter().any(|worm| worm.packet.header.destination == node && worm.is_at_its_node())
    }

    /// A node has room again, or is gone: what stood may move.
    pub(crate) fn stir(&mut self) {
        self.is_stuck = false;
    }

    /// Whether a node's link into the mesh is free.
    pub(crate) fn takes_from(&self, source: HostId) -> bool {
        self.links[Place::injection(source.0).index()].is_unclaimed()
    }

    /// Takes a packet in; [`Mesh::takes_from`] says when it can be.
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

    /// Counts a packet that came through while nothing else was on its way.
    pub(crate) fn pass(&mut self, source: HostId, destination: HostId, length: usize) {
        let route = Route::new(self.shape, source.0, destination.0);
        for step in 0..route.len() {
            self.links[route.link(step)].counters.passed(flits(length));
        }
    }

    /// Moves what can move, cycle by cycle, until nothing can or for a while. Returns how many
    /// packets have arrived.
    ///
    /// `cut` is asked about each worm that is about to move into a link or into its node, and
    /// whether worms of other sources wait for its links. It returns the two parts of the packet,
    /// or `None` to leave the packet whole. As soon as the link of a node in `next` into the mesh
    /// is free, this returns, so that the node's next packet meets those that are on their way.
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

    /// Counters of the links that were of use, with where they are.
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
            // The node is asked once: a packet that it has begun to take it takes whole.
            self.arrived |= arrive_once(self.arrived, &mut self.packet, arrive);
            if !self.arrived {
                return false;
            }
            self.left -= 1;
        }
        // All flits behind the head move up: another one comes in, or else the last link is left.
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

/// Flits of a packet with a payload of so many bytes: those, and one of head.
fn flits(length: usize) -> usize {
    1 + length.div_ceil(FLIT)
}
