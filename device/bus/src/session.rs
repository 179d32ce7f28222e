//! One client: what it may ask, and what it is answered.

use crate::codec::{
    Capabilities, CapabilitiesError, CodecError, DeviceInfo, DmaMap, DmaUnmap, Header, IrqSet, MAX_FDS,
    MAX_MESSAGE_SIZE, MessageFlags, RegionAccess, RegionInfo, RegionIoFds, Reply, Request, VersionNumbers,
    error_reply,
};
use crate::dma::{MAX_MAPS, MapError, MapRequest, Peer};
use crate::endpoint::{AccessError, Endpoint, REGION_COUNT};
use crate::function::{Answer, Function, ReadToken, ResetCause};
use crate::irq::{IRQ_TYPES, SetIrqsError};
use crate::late::{LateReads, all_ones};
use crate::socket::{Connection, Message};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use thiserror::Error;
use tracing::{debug, warn};

/// The protocol that is spoken here. Minor versions only add to each other.
const MAJOR: u16 = 0;
const MINOR: u16 = 1;

const DEVICE_RESET: u32 = 1 << 0;
const DEVICE_PCI: u32 = 1 << 1;
const UNMAP_ALL: u32 = 1 << 1;

/// Why a message is refused.
#[derive(Debug, Error)]
enum Refusal {
    #[error("it came before VERSION")]
    BeforeVersion,
    #[error("the version is agreed on already")]
    SecondVersion,
    #[error("protocol version {0} is not {MAJOR}")]
    Major(u16),
    #[error("it has {0} bytes (limit {MAX_MESSAGE_SIZE})")]
    Oversized(u32),
    #[error("too many file descriptors came with it (limit {MAX_FDS})")]
    TooManyFds,
    #[error("unmap flags {0:#x} are not supported")]
    UnmapFlags(u32),
    #[error("the region's memory cannot be handed over: {0}")]
    Handover(#[source] io::Error),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Capabilities(#[from] CapabilitiesError),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Map(#[from] MapError),
    #[error(transparent)]
    Irqs(#[from] SetIrqsError),
}

impl Refusal {
    fn errno(&self) -> Errno {
        match self {
            Refusal::BeforeVersion | Refusal::SecondVersion => Errno::PROTO,
            Refusal::Major(_) => Errno::PROTONOSUPPORT,
            Refusal::Oversized(_) => Errno::MSGSIZE,
            Refusal::UnmapFlags(_) => Errno::OPNOTSUPP,
            Refusal::Handover(error) => Errno::from_io_error(error).unwrap_or(Errno::IO),
            Refusal::Codec(error) => error.errno(),
            Refusal::Map(MapError::Overlap { .. }) => Errno::EXIST,
            Refusal::Map(MapError::TooMany | MapError::TooManyFiles) => Errno::NOSPC,
            _ => Errno::INVAL,
        }
    }
}

/// What follows from a message that was not refused.
enum Outcome {
    Reply(Reply),
    /// A reply with a region's memory.
    WithFd(Reply, OwnedFd),
    /// The card answers this read later.
    Later(RegionAccess, ReadToken),
}

/// A client and what it has agreed on.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) late: LateReads,
    negotiated: bool,
    peer: Peer,
    /// A refused map is in the log: firmware maps and unmaps all memory many times, once is enough.
    map_refusal_reported: bool,
}

impl Session {
    pub(crate) fn new(client: OwnedFd) -> Self {
        let process = socket_peercred(&client).ok().map(|peer| peer.pid.as_raw_nonzero().get());
        Session {
            connection: Connection::new(client),
            late: LateReads::default(),
            negotiated: false,
            peer: Peer::new(process),
            map_refusal_reported: false,
        }
    }

    /// Do what a message asks, and answer it.
    pub(crate) fn handle(
        &mut self,
        message: Message,
        endpoint: &mut Endpoint,
        function: &mut dyn Function,
        token: ReadToken,
        deadline: Duration,
    ) {
        let header = message.header;
        if !header.is_command() {
            // No command of ours is under way, so nothing can be answered.
            endpoint.counters.refused += 1;
            debug!("a reply that nobody waits for (command {}) is ignored", header.command);
            return;
        }
        endpoint.counters.count(header.command);
        let (bytes, fd) = match self.dispatch(message, endpoint, function, token) {
            Ok(Outcome::Reply(reply)) => (reply.encode(&header), None),
            Ok(Outcome::WithFd(reply, fd)) => (reply.encode(&header), Some(fd)),
            Ok(Outcome::Later(access, _)) if self.late.is_full() => {
                endpoint.counters.expired_reads += 1;
                (all_ones(&header, access), None)
            }
            Ok(Outcome::Later(access, token)) => {
                if !header.flags().contains(MessageFlags::NO_REPLY) {
                    self.late.add(token, header, access, deadline);
                }
                return;
            }
            Err(refusal) => {
                endpoint.counters.refused += 1;
                self.report(&header, &refusal);
                (error_reply(&header, refusal.errno()), None)
            }
        };
        if !header.flags().contains(MessageFlags::NO_REPLY) {
            self.connection.send(bytes, fd);
        }
    }

    fn dispatch(
        &mut self,
        message: Message,
        endpoint: &mut Endpoint,
        function: &mut dyn Function,
        token: ReadToken,
    ) -> Result<Outcome, Refusal> {
        if message.oversized {
            return Err(Refusal::Oversized(message.header.size));
        }
        if message.too_many_fds {
            return Err(Refusal::TooManyFds);
        }
        // Descriptors that a command has no use for are closed with the message.
        let fds = message.fds;
        let request = Request::decode(message.header.command, &message.body)?;
        if let Request::Version(numbers, data) = request {
            return self.negotiate(numbers, data);
        }
        if !self.negotiated {
            return Err(Refusal::BeforeVersion);
        }
        let reply = match request {
            Request::Version(..) => return Err(Refusal::SecondVersion),
            Request::DmaMap(map) => self.map(&map, fds, endpoint, function)?,
            Request::DmaUnmap(unmap) => self.unmap(unmap, endpoint, function)?,
            Request::DeviceGetInfo(_) => device_info(),
            Request::DeviceGetRegionInfo(info) => return region_info(&info, endpoint),
            Request::DeviceGetRegionIoFds(fds) => region_io_fds(&fds)?,
            Request::DeviceGetIrqInfo(info) => Reply::IrqInfo(endpoint.irq_info(info.index)?),
            Request::DeviceSetIrqs(set, data) => set_irqs(&set, data, fds, endpoint)?,
            Request::RegionRead(access) => return read(access, token, endpoint, function),
            Request::RegionWrite(access, data) => {
                self.write(&access, data, endpoint, function)?;
                Reply::RegionWrite(access)
            }
            Request::RegionWriteMulti(writes) => {
                for write in &writes {
                    let data = &write.data[..write.access.count as usize];
                    self.write(&write.access, data, endpoint, function)?;
                }
                Reply::RegionWriteMulti(writes.len() as u64)
            }
            Request::DeviceReset => {
                self.give_up_late_reads();
                endpoint.reset(function, ResetCause::DeviceReset);
                Reply::Done
            }
        };
        Ok(Outcome::Reply(reply))
    }

    fn negotiate(&mut self, proposed: VersionNumbers, data: &[u8]) -> Result<Outcome, Refusal> {
        if self.negotiated {
            return Err(Refusal::SecondVersion);
        }
        if proposed.major != MAJOR {
            return Err(Refusal::Major(proposed.major));
        }
        let capabilities = Capabilities::decode(data)?;
        debug!("client: version {}.{}, {capabilities:?}", proposed.major, proposed.minor);
        self.negotiated = true;
        let numbers = VersionNumbers { major: MAJOR, minor: proposed.minor.min(MINOR) };
        Ok(Outcome::Reply(Reply::Version(numbers, capabilities.answer(MAX_MAPS).encode())))
    }

    fn map(
        &mut self,
        map: &DmaMap,
        fds: Vec<OwnedFd>,
        endpoint: &mut Endpoint,
        function: &mut dyn Function,
    ) -> Result<Reply, Refusal> {
        let DmaMap { flags, address, size, offset, .. } = *map;
        endpoint.bus.dma.map(MapRequest { flags, address, size, offset }, fds, &self.peer)?;
        function.memory_changed(&endpoint.bus);
        Ok(Reply::Done)
    }

    fn unmap(
        &mut self,
        unmap: DmaUnmap,
        endpoint: &mut Endpoint,
        function: &mut dyn Function,
    ) -> Result<Reply, Refusal> {
        match unmap.flags {
            0 => endpoint.bus.dma.unmap(unmap.address, unmap.size)?,
            UNMAP_ALL => endpoint.bus.dma.unmap_all(),
            flags => return Err(Refusal::UnmapFlags(flags)),
        }
        function.memory_changed(&endpoint.bus);
        Ok(Reply::DmaUnmap(unmap))
    }

    fn write(
        &mut self,
        access: &RegionAccess,
        data: &[u8],
        endpoint: &mut Endpoint,
        function: &mut dyn Function,
    ) -> Result<(), AccessError> {
        if endpoint.write(function, access, data)? {
            self.give_up_late_reads();
        }
        Ok(())
    }

    /// A refused message can be a guest's doing, who could flood the log; a refused map or version is what the person
    /// has set up.
    fn report(&mut self, header: &Header, refusal: &Refusal) {
        let for_a_person = match refusal {
            Refusal::Map(_) => !std::mem::replace(&mut self.map_refusal_reported, true),
            Refusal::Major(_) => true,
            _ => false,
        };
        if for_a_person {
            warn!("message refused (command {}): {refusal}", header.command);
        } else {
            debug!("message refused (command {}): {refusal}", header.command);
        }
    }

    /// The function is reset: it has forgotten what it was to answer.
    fn give_up_late_reads(&mut self) {
        for reply in self.late.give_up() {
            self.connection.send(reply, None);
        }
    }
}

fn device_info() -> Reply {
    Reply::DeviceInfo(DeviceInfo {
        argsz: size_of::<DeviceInfo>() as u32,
        flags: DEVICE_RESET | DEVICE_PCI,
        region_count: REGION_COUNT,
        irq_count: IRQ_TYPES,
    })
}

/// The region's memory goes with the areas in which it may be mapped.
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

/// No part of any region has a descriptor of its own (QEMU never asks).
fn region_io_fds(fds: &RegionIoFds) -> Result<Reply, Refusal> {
    let index = fds.index;
    if index >= REGION_COUNT {
        return Err(AccessError::Index { what: "region", index, limit: REGION_COUNT }.into());
    }
    Ok(Reply::RegionIoFds(RegionIoFds { argsz: size_of::<RegionIoFds>() as u32, flags: 0, index, count: 0 }))
}

fn set_irqs(set: &IrqSet, data: &[u8], fds: Vec<OwnedFd>, endpoint: &mut Endpoint) -> Result<Reply, Refusal> {
    endpoint.bus.interrupts.set(set.index, set.flags, (set.start, set.count), data, fds)?;
    Ok(Reply::Done)
}

fn read(
    access: RegionAccess,
    token: ReadToken,
    endpoint: &mut Endpoint,
    function: &mut dyn Function,
) -> Result<Outcome, Refusal> {
    let mut data = vec![0; access.count as usize];
    match endpoint.read(function, &access, token, &mut data)? {
        Answer::Now => Ok(Outcome::Reply(Reply::RegionRead(access, data))),
        Answer::Later => Ok(Outcome::Later(access, token)),
    }
}
