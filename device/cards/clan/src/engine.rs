//! The DMA engine (section 3.4). One engine serves all endpoints that have requests, in turn.

use std::collections::VecDeque;
use std::mem::offset_of;

use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::CLAN_EVENT_DMA;
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_card::chassis::table::Table;
use hamlyn_card::ports::{DmaFault, Ports, VolatileSlice, barrier_before_last_look};
use zerocopy::{FromZeros, IntoBytes};

use crate::apertures::Apertures;
use crate::memory;
use crate::packet::{FROM_SYSTEM, Header, READ, WORD, WRITE};
use crate::peer::{ANSWERS, By, Leaving};
use crate::peers::Peers;
use crate::reads::{LOADS, Reader, Reads, Waiting};
use crate::telling::Telling;
use crate::windows::Remote;

/// Number of turns without a packet before the card handles arrivals and packets that wait to
/// leave.
const TURNS: usize = 16;

/// The engine's work for an endpoint.
#[derive(Debug, Default)]
struct Work {
    /// The engine serves the endpoint, because there may be requests.
    is_active: bool,
    /// Number of requests that have ended, modulo 2^32.
    done: u32,
    current: Option<Current>,
    /// The last request has failed, and the next is chained to it.
    has_failed: bool,
}

/// The request that is being executed.
#[derive(Debug, Clone, Copy)]
struct Current {
    request: ClanRequest,
    remote: Remote,
    /// Number of bytes that are done.
    progress: u64,
}

/// The work for all endpoints, and whose turn it is.
#[derive(Debug)]
pub(crate) struct Engine {
    works: Table<Work>,
    /// The endpoints that the engine can serve, in the order of their turns. An endpoint whose
    /// packet is under way is not among them.
    turns: VecDeque<u32>,
    /// Number of consecutive turns that found no room. If all endpoints are blocked, the engine
    /// tries nothing until something has changed.
    blocked: usize,
}

/// The parts of the card that the engine works with.
pub(crate) struct Around<'a> {
    pub(crate) ports: &'a Ports<'a>,
    pub(crate) apertures: &'a Apertures,
    pub(crate) telling: &'a mut Telling,
    pub(crate) peers: &'a mut Peers,
    pub(crate) reads: &'a mut Reads,
}

/// The result of a turn.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// A packet waits to leave. The endpoint's next turn comes when the packet has left or was
    /// answered.
    Made,
    /// A request has ended or begun, so there is more to do.
    Again,
    /// There is no room for its packet yet.
    Blocked,
    /// There are no requests.
    Idle,
}

impl Engine {
    pub(crate) fn new(endpoints: u32) -> Self {
        Self { works: Table::new(endpoints), turns: VecDeque::new(), blocked: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.works.close_all();
        self.turns.clear();
        self.blocked = 0;
    }

    /// Begins to serve an endpoint that is opened.
    pub(crate) fn open(&mut self, index: u32) {
        self.works.open(index, Work::default());
    }

    /// Forgets an endpoint that is closed.
    pub(crate) fn close(&mut self, index: u32) {
        self.works.close(index);
        self.forget(index);
    }

    /// Lets blocked endpoints try again: something has changed, so there may be room.
    pub(crate) fn stir(&mut self) {
        self.blocked = 0;
    }

    /// Removes an endpoint from the turns.
    fn forget(&mut self, index: u32) {
        self.turns.retain(|turn| *turn != index);
    }

    /// Handles the owner's announcement of requests.
    pub(crate) fn look_for_requests(&mut self, ports: &Ports<'_>, telling: &mut Telling, index: u32) {
        let Some(work) = self.works.at_mut(index) else { return };
        let Some(endpoint) = telling.endpoint(index) else { return };
        if !std::mem::replace(&mut work.is_active, true) {
            let told = endpoint.store(ports.dma, CLAN_STATE_IDLE, 0);
            self.turns.push_back(index);
            self.stir();
            telling.note(told);
        }
    }

    /// Begins another use of an endpoint. The packets of the earlier use no longer concern it.
    pub(crate) fn begin_use(&mut self, around: &mut Around<'_>, index: u32, used_as: u32) {
        for (index, before) in around.telling.endpoints().begin_use(index, used_as) {
            around.peers.forget_writer(before);
            around.reads.give_up(|waiting| waiting.tag == before && waiting.reader == Reader::Request);
            if self.works.at(index).is_some_and(|work| work.current.is_some()) {
                self.forget(index);
                self.finish(around.ports, around.telling, index, CLAN_DMA_TIMEOUT);
            }
        }
    }

    /// Gives endpoints their turns until one has made a packet, [`TURNS`] at most. Returns whether
    /// there may be more to do.
    pub(crate) fn run(&mut self, around: &mut Around<'_>) -> bool {
        let mut worked = false;
        for _ in 0..TURNS {
            if self.blocked >= self.turns.len() {
                return worked;
            }
            let Some(index) = self.turns.pop_front() else { return worked };
            match self.turn(around, index) {
                Ok(Turn::Made) => return true,
                Ok(Turn::Again) => {
                    worked = true;
                    self.stir();
                    self.turns.push_back(index);
                }
                Ok(Turn::Blocked) => {
                    self.blocked += 1;
                    self.turns.push_back(index);
                }
                Ok(Turn::Idle) => self.stir(),
                // The owner's memory is not there. The owner may ring again.
                Err(fault) => {
                    around.telling.note(Err(fault));
                    self.rest(index);
                }
            }
        }
        // There may be more to do.
        true
    }

    fn rest(&mut self, index: u32) {
        if let Some(work) = self.works.at_mut(index) {
            work.is_active = false;
        }
    }

    fn turn(&mut self, around: &mut Around<'_>, index: u32) -> Result<Turn, DmaFault> {
        match self.works.at(index).and_then(|work| work.current) {
            Some(current) => self.carry_on(around, index, current),
            None => self.fetch(around, index),
        }
    }

    /// Takes the next request, if there is one.
    fn fetch(&mut self, around: &mut Around<'_>, index: u32) -> Result<Turn, DmaFault> {
        let dma = around.ports.dma;
        let Some(work) = self.works.at_mut(index) else { return Ok(Turn::Idle) };
        let Some(endpoint) = around.telling.endpoint(index) else { return Ok(Turn::Idle) };
        // Out-of-range counts are ignored.
        let has_more = |put: u32, done: u32| (1..=endpoint.requests).contains(&put.wrapping_sub(done));
        if !has_more(endpoint.load(dma, CLAN_STATE_PUT)?, work.done) {
            endpoint.store(dma, CLAN_STATE_IDLE, 1)?;
            barrier_before_last_look();
            if !has_more(endpoint.load(dma, CLAN_STATE_PUT)?, work.done) {
                work.is_active = false;
                return Ok(Turn::Idle);
            }
            endpoint.store(dma, CLAN_STATE_IDLE, 0)?;
        }
        let mut request = ClanRequest::new_zeroed();
        let address = endpoint.memory.locate(dma, endpoint.request_at(work.done))?;
        dma.read(address, VolatileSlice::from(request.as_mut_bytes()))?;
        match check(&request).filter(|_| !work.has_failed) {
            Some(remote) => work.current = Some(Current { request, remote, progress: 0 }),
            None => {
                let result = if work.has_failed { CLAN_DMA_SKIPPED } else { CLAN_DMA_BAD_REQUEST };
                let remote = Remote { host: 0, aperture: 0, key: 0 };
                work.current = Some(Current { request, remote, progress: 0 });
                self.end(around.ports, around.telling, index, result)?;
            }
        }
        Ok(Turn::Again)
    }

    /// Makes the next packet of a request.
    fn carry_on(&mut self, around: &mut Around<'_>, index: u32, current: Current) -> Result<Turn, DmaFault> {
        let Current { request, remote, progress } = current;
        let Some(endpoint) = around.telling.endpoint(index) else { return Ok(Turn::Idle) };
        let offset = request.offset + progress;
        // A packet ends at a word boundary, except at the end of the request.
        let length = (request.length - progress).min(around.peers.burst() - offset % WORD);
        let next = Next {
            index,
            owner: endpoint.owner,
            tag: endpoint.tag,
            privileged: endpoint.privileged,
            remote,
            offset,
            length,
            local: request.local_aperture,
            local_offset: request.local_offset + progress,
        };
        let local = around.apertures.owned(next.local, next.owner);
        if !local.is_some_and(|local| local.area.contains(next.local_offset, length)) {
            return self.ended(around, index, CLAN_DMA_BAD_LOCAL);
        }
        if !around.peers.can_reach(remote) {
            return self.ended(around, index, CLAN_DMA_TIMEOUT);
        }
        if let Some(group) = remote.group() {
            return self.write_to_group(around, &next, group);
        }
        if !around.peers.has_room(remote.host, next.privileged) {
            let fails = next.privileged || around.peers.is_dead(remote.host, around.ports.clock.now());
            return if fails { self.ended(around, index, CLAN_DMA_TIMEOUT) } else { Ok(Turn::Blocked) };
        }
        if request.opcode == CLAN_DMA_READ { Ok(read(around, &next)) } else { self.write(around, &next) }
    }

    /// Ends the request. The endpoint then has its next turn.
    fn ended(&mut self, around: &mut Around<'_>, index: u32, result: u32) -> Result<Turn, DmaFault> {
        self.end(around.ports, around.telling, index, result)?;
        Ok(Turn::Again)
    }

    /// Takes the next bytes out of memory. If they are not there, ends the request and returns
    /// `None`.
    fn gather(&mut self, around: &mut Around<'_>, next: &Next) -> Result<Option<Vec<u8>>, DmaFault> {
        let (dma, local) = (around.ports.dma, around.apertures.owned(next.local, next.owner));
        match local.map(|local| memory::read(dma, &local.area, next.local_offset, next.length)) {
            Some(Ok(data)) => Ok(Some(data)),
            _ => self.end(around.ports, around.telling, next.index, CLAN_DMA_MEMORY).map(|()| None),
        }
    }

    /// Writes the next bytes. A request of the operating system does not wait for its packet to
    /// leave: such requests go to all hosts, and must not wait for one.
    fn write(&mut self, around: &mut Around<'_>, next: &Next) -> Result<Turn, DmaFault> {
        let Some(data) = self.gather(around, next)? else { return Ok(Turn::Again) };
        let header = next.remote.addressed(next.header(WRITE));
        let by = if next.privileged { By::Copy } else { By::Request };
        around.peers.put(next.remote.host, Leaving { header, data, owner: next.owner, by });
        if next.privileged {
            self.advance(around.ports, around.telling, next.tag, next.length);
        }
        Ok(Turn::Made)
    }

    /// Copies the next bytes for each member of a group. Waits for members without room, but only
    /// for a limited time. A member that lags behind loses only its own copy.
    fn write_to_group(&mut self, around: &mut Around<'_>, next: &Next, group: u32) -> Result<Turn, DmaFault> {
        let members = around.peers.members(group);
        let Some(lagging) = around.peers.group_room(&members, around.ports.clock.now()) else {
            return Ok(Turn::Blocked);
        };
        let Some(data) = self.gather(around, next)? else { return Ok(Turn::Again) };
        let header = next.remote.addressed(next.header(WRITE));
        for host in members {
            if lagging.contains(&host) {
                around.telling.copy_lost(around.ports, next.index, (host, group), next.offset);
            } else {
                let data = data.clone();
                around.peers.put(host, Leaving { header, data, owner: next.owner, by: By::Copy });
            }
        }
        self.advance(around.ports, around.telling, next.tag, next.length);
        Ok(Turn::Made)
    }

    /// Handles a piece of a read that has arrived.
    pub(crate) fn read_arrived(
        &mut self,
        ports: &Ports<'_>,
        telling: &mut Telling,
        apertures: &Apertures,
        read: &Waiting,
    ) {
        let Some((index, endpoint)) = telling.endpoints().tagged(read.tag) else { return };
        let current = self.works.at(index).and_then(|work| work.current);
        let Some(Current { request, progress, .. }) = current else { return };
        let place = request.local_offset + progress;
        let local = apertures.owned(request.local_aperture, endpoint.owner);
        let local = local.filter(|local| local.area.contains(place, read.length));
        let result = match local.map(|local| memory::write(ports.dma, &local.area, place, &read.data)) {
            Some(Ok(())) => return self.advance(ports, telling, read.tag, read.length),
            Some(Err(_)) => CLAN_DMA_MEMORY,
            None => CLAN_DMA_BAD_LOCAL,
        };
        self.finish(ports, telling, index, result);
    }

    /// Fails the request of an endpoint whose packet has failed.
    pub(crate) fn failed(&mut self, ports: &Ports<'_>, telling: &mut Telling, tag: u32, result: u32) {
        if let Some((index, _)) = telling.endpoints().tagged(tag) {
            self.finish(ports, telling, index, result);
        }
    }

    /// Ends a request, and gives the endpoint its next turn.
    fn finish(&mut self, ports: &Ports<'_>, telling: &mut Telling, index: u32, result: u32) {
        let ended = self.end(ports, telling, index, result);
        telling.note(ended);
        self.turns.push_back(index);
    }

    /// Advances an endpoint's request by `length` bytes: a packet has left, or a piece of a read
    /// has arrived.
    pub(crate) fn advance(&mut self, ports: &Ports<'_>, telling: &mut Telling, tag: u32, length: u64) {
        let Some((index, _)) = telling.endpoints().tagged(tag) else { return };
        let current = self.works.at_mut(index).and_then(|work| work.current.as_mut());
        let Some(current) = current else { return };
        current.progress += length;
        if current.progress < current.request.length {
            self.turns.push_back(index);
        } else {
            self.finish(ports, telling, index, CLAN_DMA_DONE);
        }
    }

    /// Ends the request: writes its result and the number of ended requests, and notifies the owner
    /// on request.
    fn end(
        &mut self,
        ports: &Ports<'_>,
        telling: &mut Telling,
        index: u32,
        result: u32,
    ) -> Result<(), DmaFault> {
        let Some(work) = self.works.at_mut(index) else { return Ok(()) };
        let Some(Current { request, .. }) = work.current.take() else { return Ok(()) };
        let number = work.done;
        work.done = number.wrapping_add(1);
        let is_done = result == CLAN_DMA_DONE;
        work.has_failed = !is_done && request.flags & CLAN_DMA_CHAIN != 0;
        telling.count(if is_done { ClanStatistic::RequestsDone } else { ClanStatistic::RequestsFailed });
        let Some(endpoint) = telling.endpoint(index) else { return Ok(()) };
        let place = endpoint.request_at(number) + offset_of!(ClanRequest, result) as u64;
        endpoint.store(ports.dma, place as u32, result)?;
        endpoint.store(ports.dma, CLAN_STATE_DONE, number.wrapping_add(1))?;
        if request.flags & CLAN_DMA_NOTIFY != 0 {
            telling.happened(ports, index, CLAN_BIT_DMA, CLAN_EVENT_DMA)
        } else {
            Ok(())
        }
    }
}

/// Requests the next bytes of a read.
fn read(around: &mut Around<'_>, next: &Next) -> Turn {
    let host = next.remote.host;
    let asked = around.reads.bytes(host) + next.length + LOADS as u64 * WORD;
    if asked > ANSWERS as u64 / 2 {
        return Turn::Blocked;
    }
    let (bytes, whose) = ((next.offset, next.length), (next.tag, next.owner));
    let number = around.reads.begin(Reader::Request, next.remote, bytes, whose, around.ports.clock.now());
    let data = (next.length as u32).to_le_bytes().to_vec();
    let header = Header { tag: number.into(), ..next.header(READ) };
    around.peers.put(host, Leaving { header, data, owner: next.owner, by: By::Request });
    Turn::Made
}

/// The next packet of a request.
struct Next {
    /// The endpoint, its owner, the tag of its packets, and whether it is the operating system's.
    index: u32,
    owner: u32,
    tag: u32,
    privileged: bool,
    remote: Remote,
    offset: u64,
    length: u64,
    /// The aperture that holds the bytes, and the first of them.
    local: u32,
    local_offset: u64,
}

impl Next {
    fn header(&self, kind: u8) -> Header {
        Header {
            flags: if self.privileged { FROM_SYSTEM } else { 0 },
            tag: self.tag.into(),
            key: self.remote.key.into(),
            aperture: self.remote.aperture.into(),
            offset: self.offset.into(),
            ..Header::of(kind)
        }
    }
}

/// Returns the destination of a request, or `None` if the request is invalid.
fn check(request: &ClanRequest) -> Option<Remote> {
    const FLAGS: u32 = CLAN_DMA_CHAIN | CLAN_DMA_NOTIFY;
    let remote = Remote::new(request.host, request.aperture, request.key)?;
    let is_known = match request.opcode {
        CLAN_DMA_WRITE => true,
        CLAN_DMA_READ => remote.group().is_none(),
        _ => false,
    };
    let fits = request.length > 0
        && request.length <= CLAN_MAX_TRANSFER
        && request.offset.checked_add(request.length).is_some()
        && request.local_offset.checked_add(request.length).is_some();
    (is_known && fits && request.flags & !FLAGS == 0 && request.reserved == 0).then_some(remote)
}
