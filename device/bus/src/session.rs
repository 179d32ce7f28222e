//! One client: its requests and their replies.

use crate::budget::Budget;
use crate::codec::{
    Capabilities, DeviceInfo, DmaMap, DmaUnmap, Header, IrqSet, MAJOR, MINOR, MessageFlags, RegionAccess,
    RegionInfo, RegionIoFds, Reply, Request, VersionNumbers, WriteOne, access_of, error_reply,
};
use crate::dma::{MAX_MAPS, MapError, MapRequest, Opening, Peer};
use crate::endpoint::{AccessError, Endpoint, REGION_COUNT};
use crate::function::{Answer, Function, ReadToken, ResetCause};
use crate::irq::IRQ_TYPES;
use crate::late::LateReads;
use crate::looks::Looks;
use crate::refusal::Refusal;
use crate::shared_file::{Opened, SharedFileError};
use crate::socket::{Connection, Message};
use hamlyn_door::{Kept, Limited, credentials};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

const DEVICE_RESET: u32 = 1 << 0;
const DEVICE_PCI: u32 = 1 << 1;
const UNMAP_ALL: u32 = 1 << 1;

/// How long a client's porter may take to map a file. A file on a filesystem that does not answer
/// is not usable as memory.
const MAP_DEADLINE: Duration = Duration::from_secs(5);
/// Minimum size of memory without a file that is reported to the user. Flash chips are smaller;
/// BARs of neighbours may be as large.
const LARGE: u64 = 64 << 20;
/// Number of writes of a list between two checks of the clock.
const WRITES_UNWATCHED: usize = 4;

/// Result of a message that was not refused.
enum Outcome {
    Reply(Reply),
    /// A reply with a region's memory.
    WithFd(Reply, OwnedFd),
    /// The card answers this read later.
    Later(RegionAccess, ReadToken),
    /// There is more to do.
    Work(Work),
}

/// How long an access waits after its deadline, each time that the function drops something for it.
const GRACE: Duration = Duration::from_millis(10);

/// The rest of a message. No other message of this client is handled before it is done.
#[derive(Debug)]
enum Work {
    /// Remaining writes, with the total number of writes.
    Writes(std::vec::IntoIter<WriteOne>, u64),
    /// A read that the function is not ready for.
    Read(RegionAccess, ReadToken),
    /// A write that the function is not ready for.
    Write(RegionAccess, Vec<u8>),
    /// A map whose file the client's porter opens.
    Map { request: MapRequest, opened: Receiver<Result<Opened, SharedFileError>>, time: Looks },
}

/// Progress of a session's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The work is done.
    Done,
    /// The work continues after the bell has rung, or when the function is ready.
    Waits,
    /// The work continues in the next turn, because its time is used up.
    Spent,
}

/// The context of a session's turn.
pub(crate) struct Turn<'a> {
    pub(crate) endpoint: &'a mut Endpoint,
    pub(crate) function: &'a mut dyn Function,
    pub(crate) read_deadline: Duration,
    pub(crate) access_deadline: Duration,
    pub(crate) budget: &'a mut Budget,
    /// The client's porter rings this bell.
    pub(crate) bell: &'a Arc<OwnedFd>,
    pub(crate) log: &'a Limited,
}

impl Turn<'_> {
    /// Whether an access can be made now.
    fn is_ready(&mut self, access: &RegionAccess) -> bool {
        !self.endpoint.is_trapped(access) || self.function.is_ready(&self.endpoint.bus)
    }
}

/// A client, and what was negotiated with it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) late: LateReads,
    /// Deadline for the negotiation of the version; `None` once it is done.
    version_due: Option<Instant>,
    peer: Peer,
    work: Option<(Header, Work)>,
    /// Deadline for the function to be ready for the work, if it was not ready when last asked. It
    /// is kept until the function accepts an access: an access after others that have expired does
    /// not wait again.
    held: Option<Looks>,
    /// A refused map was logged. Firmware maps and unmaps all memory many times, so it is logged
    /// only once.
    map_refusal_reported: bool,
    /// A remark about the client's memory was logged.
    remarked: bool,
    /// Memory without a file was logged.
    fileless: bool,
}

impl Session {
    pub(crate) fn new(client: Kept<OwnedFd>, patience: Duration) -> Self {
        let process = credentials(&client).ok().and_then(|peer| peer.process);
        Session {
            connection: Connection::new(client),
            late: LateReads::default(),
            version_due: Some(Instant::now() + patience),
            peer: Peer::new(process),
            work: None,
            held: None,
            map_refusal_reported: false,
            remarked: false,
            fileless: false,
        }
    }

    /// Whether work of the last message is left.
    pub(crate) fn is_busy(&self) -> bool {
        self.work.is_some()
    }

    /// Whether the session waits for its porter or for the function.
    pub(crate) fn waits(&self) -> bool {
        self.is_held() || matches!(self.work, Some((_, Work::Map { .. })))
    }

    /// Whether the session waits for the function.
    pub(crate) fn is_held(&self) -> bool {
        let is_access = |work: &Work| matches!(work, Work::Read(..) | Work::Write(..) | Work::Writes(..));
        self.held.is_some() && self.work.as_ref().is_some_and(|(_, work)| is_access(work))
    }

    /// Whether the client has missed the deadline for the version.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.version_due.is_some_and(|due| due <= now)
    }

    /// Whether the client has hung up. It may have left messages to read.
    pub(crate) fn has_left(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.connection, PollFlags::RDHUP)], Some(&now)) == Ok(1)
    }

    /// Returns the time of the next check without an event.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        let work = match &self.work {
            Some((_, Work::Map { time, .. })) => Some(time.next()),
            Some(_) => self.held.as_ref().map(Looks::next),
            None => None,
        };
        [self.late.next_due(), self.version_due, work].into_iter().flatten().min()
    }

    /// Handles and answers a message. If it only starts to, the session [is busy](Session::is_busy)
    /// afterwards.
    pub(crate) fn handle(&mut self, message: Message, turn: &mut Turn<'_>, token: ReadToken) {
        let header = message.header;
        if !header.is_command() {
            // The server has sent no command, so this answers nothing.
            turn.endpoint.counters.refused += 1;
            debug!("an unexpected reply (command {}) is ignored", header.command);
            return;
        }
        turn.endpoint.counters.count(header.command);
        let access = access_of(header.command, &message.body);
        let result = self.dispatch(message, turn, token);
        self.settle(header, access, result, turn);
    }

    /// Refuses a message that is too large to be read.
    pub(crate) fn refuse_oversized(&mut self, header: Header, turn: &mut Turn<'_>) {
        self.settle(header, None, Err(Refusal::Oversized(header.size)), turn);
    }

    /// Continues the rest of the last message.
    pub(crate) fn go_on(&mut self, turn: &mut Turn<'_>) -> Step {
        let Some((header, work)) = self.work.take() else { return Step::Done };
        let (step, result) = match work {
            Work::Read(access, token) => match self.may_go_on(&access, turn) {
                Some(true) => (Step::Done, self.read(access, token, turn)),
                Some(false) => (Step::Done, Ok(Outcome::Reply(ones(access)))),
                None => (Step::Waits, Ok(Outcome::Work(Work::Read(access, token)))),
            },
            Work::Write(access, data) => match self.may_go_on(&access, turn) {
                Some(true) => {
                    let done = self.write(&access, &data, turn).map(|()| Reply::RegionWrite(access));
                    (Step::Done, done.map(Outcome::Reply).map_err(Refusal::from))
                }
                Some(false) => (Step::Done, Ok(Outcome::Reply(Reply::RegionWrite(access)))),
                None => (Step::Waits, Ok(Outcome::Work(Work::Write(access, data)))),
            },
            Work::Writes(writes, count) => self.go_on_writing(writes, count, turn),
            Work::Map { request, opened, time } => self.go_on_mapping(request, opened, time, turn),
        };
        // An access that had to wait is in bounds, so it cannot fail.
        self.settle(header, None, result, turn);
        step
    }

    /// Returns whether an access can be made now, or `None` if it has to wait. `Some(false)` means
    /// that it has waited for the maximum time, and is answered without the function.
    fn may_go_on(&mut self, access: &RegionAccess, turn: &mut Turn<'_>) -> Option<bool> {
        if turn.is_ready(access) {
            self.held = None;
            return Some(true);
        }
        let now = Instant::now();
        if !self.held.get_or_insert_with(|| Looks::new(now, turn.access_deadline)).is_over(now) {
            return None;
        }
        if turn.function.access_expired(&turn.endpoint.bus) {
            self.held = Some(Looks::new(now, GRACE));
            return None;
        }
        turn.endpoint.counters.expired_accesses += 1;
        if let Some(unsaid) = turn.log.turn() {
            let waited = turn.access_deadline;
            warn!("an access was not taken by the card in {waited:?}: answered without it{unsaid}");
        }
        Some(false)
    }

    fn go_on_writing(
        &mut self,
        mut writes: std::vec::IntoIter<WriteOne>,
        count: u64,
        turn: &mut Turn<'_>,
    ) -> (Step, Result<Outcome, Refusal>) {
        if writes.len() > WRITES_UNWATCHED {
            turn.budget.begin();
        }
        loop {
            for _ in 0..WRITES_UNWATCHED.min(writes.len()) {
                let Some(access) = writes.as_slice().first().map(|next| next.access) else { break };
                let Some(taken) = self.may_go_on(&access, turn) else {
                    return (Step::Waits, Ok(Outcome::Work(Work::Writes(writes, count))));
                };
                let Some(write) = writes.next().filter(|_| taken) else { continue };
                let data = &write.data[..write.access.count as usize];
                if let Err(error) = self.write(&write.access, data, turn) {
                    return (Step::Done, Err(error.into()));
                }
            }
            if writes.len() == 0 {
                return (Step::Done, Ok(Outcome::Reply(Reply::RegionWriteMulti(count))));
            }
            if turn.budget.is_spent() {
                return (Step::Spent, Ok(Outcome::Work(Work::Writes(writes, count))));
            }
        }
    }

    fn go_on_mapping(
        &mut self,
        request: MapRequest,
        opened: Receiver<Result<Opened, SharedFileError>>,
        mut time: Looks,
        turn: &mut Turn<'_>,
    ) -> (Step, Result<Outcome, Refusal>) {
        let result = match opened.try_recv() {
            Ok(result) => turn.endpoint.bus.dma.finish(request, result),
            Err(TryRecvError::Empty) if !time.is_over(Instant::now()) => {
                return (Step::Waits, Ok(Outcome::Work(Work::Map { request, opened, time })));
            }
            Err(_) => Err(MapError::Slow),
        };
        let result = result.map(|remark| {
            if let Some(remark) = remark.filter(|_| !std::mem::replace(&mut self.remarked, true)) {
                if let Some(unsaid) = turn.log.turn() {
                    warn!("{remark}{unsaid}");
                }
            }
            turn.function.memory_changed(&turn.endpoint.bus);
            Outcome::Reply(Reply::Done)
        });
        (Step::Done, result.map_err(Refusal::from))
    }

    /// Does not ask the function while the maximum number of reads is deferred, so that the
    /// function does not have to track more.
    fn read(&self, access: RegionAccess, token: ReadToken, turn: &mut Turn<'_>) -> Result<Outcome, Refusal> {
        if self.late.is_full() && turn.endpoint.is_trapped(&access) {
            turn.endpoint.counters.expired_reads += 1;
            return Ok(Outcome::Reply(ones(access)));
        }
        let mut data = vec![0; access.count as usize];
        match turn.endpoint.read(turn.function, &access, token, &mut data)? {
            Answer::Now => Ok(Outcome::Reply(Reply::RegionRead(access, data))),
            Answer::Later => Ok(Outcome::Later(access, token)),
        }
    }

    /// Answers a message, or keeps the rest of its work. `access` is the message's access, if it is
    /// one.
    fn settle(
        &mut self,
        header: Header,
        access: Option<RegionAccess>,
        result: Result<Outcome, Refusal>,
        turn: &mut Turn<'_>,
    ) {
        let (bytes, fd) = match result {
            Ok(Outcome::Reply(reply)) => (reply.encode(&header), None),
            Ok(Outcome::WithFd(reply, fd)) => (reply.encode(&header), Some(fd)),
            Ok(Outcome::Work(work)) => {
                self.work = Some((header, work));
                return;
            }
            Ok(Outcome::Later(access, token)) => {
                if !header.flags().contains(MessageFlags::NO_REPLY) {
                    self.late.add(token, header, access, turn.read_deadline);
                }
                return;
            }
            Err(refusal) => {
                turn.endpoint.counters.refused += 1;
                self.report(&header, &refusal, turn.log);
                (error_reply(&header, refusal.errno(), access), None)
            }
        };
        if !header.flags().contains(MessageFlags::NO_REPLY) {
            self.connection.send(bytes, fd);
        }
    }

    fn dispatch(
        &mut self,
        message: Message,
        turn: &mut Turn<'_>,
        token: ReadToken,
    ) -> Result<Outcome, Refusal> {
        if message.fds_lost {
            return Err(Refusal::NoDescriptors);
        }
        if message.too_many_fds {
            return Err(Refusal::TooManyFds);
        }
        // Descriptors that the command does not use are dropped with the message.
        let fds = message.fds;
        let request = Request::decode(message.header.command, &message.body)?;
        if let Request::Version(numbers, data) = request {
            return self.negotiate(numbers, data);
        }
        if self.version_due.is_some() {
            return Err(Refusal::BeforeVersion);
        }
        let reply = match request {
            Request::Version(..) => return Err(Refusal::SecondVersion),
            Request::DmaMap(map) => return self.map(&map, fds, turn),
            Request::DmaUnmap(unmap) => unmap_memory(unmap, turn)?,
            Request::DeviceGetInfo(_) => device_info(),
            Request::DeviceGetRegionInfo(info) => return region_info(&info, turn.endpoint),
            Request::DeviceGetRegionIoFds(fds) => region_io_fds(&fds)?,
            Request::DeviceGetIrqInfo(info) => Reply::IrqInfo(turn.endpoint.irq_info(info.index)?),
            Request::DeviceSetIrqs(set, data) => set_irqs(&set, data, fds, turn.endpoint)?,
            Request::RegionRead(access) if !turn.is_ready(&access) => {
                return Ok(Outcome::Work(Work::Read(access, token)));
            }
            Request::RegionRead(access) => {
                self.held = None;
                return self.read(access, token, turn);
            }
            Request::RegionWrite(access, data) if !turn.is_ready(&access) => {
                return Ok(Outcome::Work(Work::Write(access, data.to_vec())));
            }
            Request::RegionWrite(access, data) => {
                self.held = None;
                self.write(&access, data, turn)?;
                Reply::RegionWrite(access)
            }
            Request::RegionWriteMulti(writes) => {
                let count = writes.len() as u64;
                return Ok(Outcome::Work(Work::Writes(writes.into_iter(), count)));
            }
            Request::DeviceReset => {
                self.give_up_late_reads();
                turn.endpoint.reset(turn.function, ResetCause::DeviceReset);
                Reply::Done
            }
        };
        Ok(Outcome::Reply(reply))
    }

    fn negotiate(&mut self, proposed: VersionNumbers, data: &[u8]) -> Result<Outcome, Refusal> {
        if self.version_due.is_none() {
            return Err(Refusal::SecondVersion);
        }
        if proposed.major != MAJOR {
            return Err(Refusal::Major(proposed.major));
        }
        let capabilities = Capabilities::decode(data)?;
        debug!("client: version {}.{}, {capabilities:?}", proposed.major, proposed.minor);
        self.version_due = None;
        let numbers = VersionNumbers { major: MAJOR, minor: proposed.minor.min(MINOR) };
        Ok(Outcome::Reply(Reply::Version(numbers, capabilities.answer(MAX_MAPS).encode())))
    }

    /// The porter opens a map's file, because the client has chosen the file.
    fn map(
        &mut self,
        map: &DmaMap,
        fds: Vec<Kept<OwnedFd>>,
        turn: &mut Turn<'_>,
    ) -> Result<Outcome, Refusal> {
        let DmaMap { flags, address, size, offset, .. } = *map;
        let request = MapRequest { flags, address, size, offset };
        let Some(opening) = turn.endpoint.bus.dma.prepare(request, fds, self.peer)? else {
            self.report_fileless(request, turn);
            turn.function.memory_changed(&turn.endpoint.bus);
            return Ok(Outcome::Reply(Reply::Done));
        };
        let opened = self.open(opening, turn.bell);
        let time = Looks::new(Instant::now(), MAP_DEADLINE);
        Ok(Outcome::Work(Work::Map { request, opened, time }))
    }

    /// Logs once that a large part of memory has no file. The user may have omitted one of several
    /// memory backends.
    fn report_fileless(&mut self, MapRequest { address, size, .. }: MapRequest, turn: &Turn<'_>) {
        let is_told = size < LARGE || !turn.endpoint.bus.dma.is_used();
        if is_told || std::mem::replace(&mut self.fileless, true) {
            return;
        }
        if let Some(unsaid) = turn.log.turn() {
            let mib = size >> 20;
            info!(
                "{mib} MiB at guest address {address:#x} have no shared file: if they are memory, give each \
                 memory backend share=on, else DMA fails there{unsaid}"
            );
        }
    }

    fn open(&self, opening: Opening, bell: &Arc<OwnedFd>) -> Receiver<Result<Opened, SharedFileError>> {
        let (tell, told) = sync_channel(1);
        let bell = Arc::clone(bell);
        self.connection.porter().run(move || {
            // If the client is gone, the result is dropped.
            let _ = tell.send(opening.open());
            let _ = rustix::io::write(&*bell, &1_u64.to_ne_bytes());
        });
        told
    }

    fn write(&mut self, access: &RegionAccess, data: &[u8], turn: &mut Turn<'_>) -> Result<(), AccessError> {
        if turn.endpoint.write(turn.function, access, data)? {
            self.give_up_late_reads();
        }
        Ok(())
    }

    /// Logs a refused message. A guest can cause most refusals and could flood the log, so they are
    /// logged at debug level. A refused map or version is a matter of the user's setup.
    fn report(&mut self, header: &Header, refusal: &Refusal, log: &Limited) {
        let for_a_person = match refusal {
            Refusal::Map(_) => !std::mem::replace(&mut self.map_refusal_reported, true),
            Refusal::Major(_) | Refusal::NoDescriptors => true,
            _ => false,
        };
        match for_a_person.then(|| log.turn()).flatten() {
            Some(unsaid) => warn!("message refused (command {}): {refusal}{unsaid}", header.command),
            None => debug!("message refused (command {}): {refusal}", header.command),
        }
    }

    /// Answers all deferred reads, because a function that was reset has forgotten them.
    fn give_up_late_reads(&mut self) {
        for reply in self.late.give_up() {
            self.connection.send(reply, None);
        }
    }
}

impl Drop for Session {
    /// Hangs up at once, however long the client's porter takes to close the socket.
    fn drop(&mut self) {
        self.connection.part();
        self.connection.porter().dismiss();
    }
}

/// Returns the reply to a read that the function does not answer.
fn ones(access: RegionAccess) -> Reply {
    Reply::RegionRead(access, vec![0xff; access.count as usize])
}

fn unmap_memory(unmap: DmaUnmap, turn: &mut Turn<'_>) -> Result<Reply, Refusal> {
    match unmap.flags {
        0 => turn.endpoint.bus.dma.unmap(unmap.address, unmap.size)?,
        UNMAP_ALL => turn.endpoint.bus.dma.unmap_all(),
        flags => return Err(Refusal::UnmapFlags(flags)),
    }
    turn.function.memory_changed(&turn.endpoint.bus);
    Ok(Reply::DmaUnmap(unmap))
}

fn device_info() -> Reply {
    Reply::DeviceInfo(DeviceInfo {
        argsz: size_of::<DeviceInfo>() as u32,
        flags: DEVICE_RESET | DEVICE_PCI,
        region_count: REGION_COUNT,
        irq_count: IRQ_TYPES,
    })
}

/// The memory of the region is only passed together with the areas where it may be mapped.
fn region_info(info: &RegionInfo, endpoint: &Endpoint) -> Result<Outcome, Refusal> {
    let (info, areas) = endpoint.region_info(info.index, info.argsz)?;
    let fd =
        if areas.is_empty() { None } else { endpoint.region_fd(info.index).map_err(Refusal::Handover)? };
    let reply = Reply::RegionInfo(info, areas);
    Ok(match fd {
        Some(fd) => Outcome::WithFd(reply, fd),
        None => Outcome::Reply(reply),
    })
}

/// No part of any region has a separate descriptor (QEMU never asks for one).
fn region_io_fds(fds: &RegionIoFds) -> Result<Reply, Refusal> {
    let index = fds.index;
    if index >= REGION_COUNT {
        return Err(AccessError::Index { what: "region", index, limit: REGION_COUNT }.into());
    }
    Ok(Reply::RegionIoFds(RegionIoFds { argsz: size_of::<RegionIoFds>() as u32, flags: 0, index, count: 0 }))
}

fn set_irqs(
    set: &IrqSet,
    data: &[u8],
    fds: Vec<Kept<OwnedFd>>,
    endpoint: &mut Endpoint,
) -> Result<Reply, Refusal> {
    endpoint.bus.interrupts.set(set.index, set.flags, (set.start, set.count), data, fds)?;
    Ok(Reply::Done)
}
