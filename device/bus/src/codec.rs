//! The vfio-user messages: decodes bytes to typed requests, and encodes typed replies to bytes.
//!
//! Nothing here uses a socket, so all of it can be fuzzed. [`Request::decode`] accepts any bytes.
//! It returns a request whose counts and sizes match the bytes received, or a [`CodecError`] with
//! the errno for the reply. All values have the host's byte order, as the protocol requires.

mod capabilities;
mod wire;

pub use capabilities::{Capabilities, CapabilitiesError};
pub use wire::{
    Command, DeviceInfo, DmaMap, DmaUnmap, HEADER_SIZE, Header, IrqInfo, IrqSet, MAJOR, MAX_DATA, MAX_FDS,
    MAX_MESSAGE_SIZE, MAX_WRITES, MINOR, MessageFlags, RegionAccess, RegionInfo, RegionIoFds, SparseArea,
    VersionNumbers, WriteOne,
};

use rustix::io::Errno;
use thiserror::Error;
use wire::{SPARSE_MMAP_CAPABILITY, SparseMmapCapability};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Why bytes are not a valid request. [`CodecError::errno`] is the error for the reply.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum CodecError {
    /// The command number does not exist.
    #[error("command {0} is unknown")]
    UnknownCommand(u16),
    /// A command of the protocol that this server does not support, or that only servers send.
    #[error("command {0} is not supported from a client")]
    Unsupported(Command),
    /// The size of the body does not match the command.
    #[error("{command} has a body of {got} bytes ({wanted} wanted)")]
    BodySize {
        /// The command.
        command: Command,
        /// Bytes received.
        got: usize,
        /// Bytes required by the command or by a count inside it. This is the minimum if data may
        /// follow.
        wanted: usize,
    },
    /// `argsz` is too small for the smallest reply, or for the request itself.
    #[error("{command} has argsz {argsz} (at least {least})")]
    ArgumentSize {
        /// The command.
        command: Command,
        /// The value in the request.
        argsz: u32,
        /// The smallest acceptable value.
        least: u32,
    },
    /// More data in one message than was negotiated.
    #[error("{command} is about {count} bytes of data (limit {MAX_DATA})")]
    DataCount {
        /// The command.
        command: Command,
        /// Bytes requested.
        count: u32,
    },
    /// A single write of a `REGION_WRITE_MULTI` message that has more than 8 bytes.
    #[error("a write of {0} bytes in REGION_WRITE_MULTI (limit 8)")]
    MultiWriteSize(u32),
    /// More writes in one message than the server performs without checking for other work.
    #[error("{0} writes in REGION_WRITE_MULTI (limit {MAX_WRITES})")]
    MultiWrites(u64),
}

impl CodecError {
    /// Returns the errno for the error reply.
    pub fn errno(&self) -> Errno {
        match self {
            CodecError::UnknownCommand(_) | CodecError::Unsupported(_) => Errno::OPNOTSUPP,
            CodecError::DataCount { .. } | CodecError::MultiWrites(_) => Errno::TOOBIG,
            _ => Errno::INVAL,
        }
    }
}

/// A command from the client, checked against the bytes received, but not against the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<'a> {
    /// The first message: protocol version, and a JSON object with the sender's capabilities,
    /// terminated by a NUL.
    Version(VersionNumbers, &'a [u8]),
    /// Adds guest memory that the device may access. A file descriptor may come with it.
    DmaMap(DmaMap),
    /// Removes guest memory that the device may access.
    DmaUnmap(DmaUnmap),
    /// Asks for the number of regions and interrupt types.
    DeviceGetInfo(DeviceInfo),
    /// Asks for size, flags and mappable areas of one region.
    DeviceGetRegionInfo(RegionInfo),
    /// Asks for file descriptors that represent parts of one region.
    DeviceGetRegionIoFds(RegionIoFds),
    /// Asks for the number of interrupts of one type.
    DeviceGetIrqInfo(IrqInfo),
    /// Sets eventfds, masks and triggers of interrupts. The bytes are the booleans of `DATA_BOOL`.
    DeviceSetIrqs(IrqSet, &'a [u8]),
    /// Reads from a region.
    RegionRead(RegionAccess),
    /// Writes to a region.
    RegionWrite(RegionAccess, &'a [u8]),
    /// Resets the function.
    DeviceReset,
    /// Makes several small writes in one message.
    RegionWriteMulti(Vec<WriteOne>),
}

impl<'a> Request<'a> {
    /// Decodes the body of a message whose header has this `command`.
    pub fn decode(command: u16, body: &'a [u8]) -> Result<Self, CodecError> {
        let command = Command::from_wire(command).ok_or(CodecError::UnknownCommand(command))?;
        match command {
            Command::Version => {
                let (numbers, data) = prefix(command, body)?;
                Ok(Request::Version(numbers, data))
            }
            Command::DmaMap => {
                let map: DmaMap = exact(command, body)?;
                argument_size::<DmaMap>(command, map.argsz)?;
                Ok(Request::DmaMap(map))
            }
            Command::DmaUnmap => {
                let unmap: DmaUnmap = exact(command, body)?;
                argument_size::<DmaUnmap>(command, unmap.argsz)?;
                Ok(Request::DmaUnmap(unmap))
            }
            Command::DeviceGetInfo => {
                let info: DeviceInfo = exact(command, body)?;
                argument_size::<DeviceInfo>(command, info.argsz)?;
                Ok(Request::DeviceGetInfo(info))
            }
            Command::DeviceGetRegionInfo => {
                let info: RegionInfo = exact(command, body)?;
                argument_size::<RegionInfo>(command, info.argsz)?;
                Ok(Request::DeviceGetRegionInfo(info))
            }
            Command::DeviceGetRegionIoFds => {
                let fds: RegionIoFds = exact(command, body)?;
                argument_size::<RegionIoFds>(command, fds.argsz)?;
                Ok(Request::DeviceGetRegionIoFds(fds))
            }
            Command::DeviceGetIrqInfo => {
                let info: IrqInfo = exact(command, body)?;
                argument_size::<IrqInfo>(command, info.argsz)?;
                Ok(Request::DeviceGetIrqInfo(info))
            }
            Command::DeviceSetIrqs => {
                let (set, data): (IrqSet, _) = prefix(command, body)?;
                argument_size::<IrqSet>(command, set.argsz)?;
                Ok(Request::DeviceSetIrqs(set, data))
            }
            Command::RegionRead => {
                let access: RegionAccess = exact(command, body)?;
                data_count(command, access.count)?;
                Ok(Request::RegionRead(access))
            }
            Command::RegionWrite => {
                let (access, data): (RegionAccess, &[u8]) = prefix(command, body)?;
                data_count(command, access.count)?;
                body_size(command, data.len(), access.count as usize)?;
                Ok(Request::RegionWrite(access, data))
            }
            Command::DeviceReset => {
                body_size(command, body.len(), 0)?;
                Ok(Request::DeviceReset)
            }
            Command::RegionWriteMulti => Ok(Request::RegionWriteMulti(writes(body)?)),
            Command::DmaRead
            | Command::DmaWrite
            | Command::DeviceFeature
            | Command::MigrationDataRead
            | Command::MigrationDataWrite => Err(CodecError::Unsupported(command)),
        }
    }

    /// Returns the command for the request's header.
    pub fn command(&self) -> Command {
        match self {
            Request::Version(..) => Command::Version,
            Request::DmaMap(_) => Command::DmaMap,
            Request::DmaUnmap(_) => Command::DmaUnmap,
            Request::DeviceGetInfo(_) => Command::DeviceGetInfo,
            Request::DeviceGetRegionInfo(_) => Command::DeviceGetRegionInfo,
            Request::DeviceGetRegionIoFds(_) => Command::DeviceGetRegionIoFds,
            Request::DeviceGetIrqInfo(_) => Command::DeviceGetIrqInfo,
            Request::DeviceSetIrqs(..) => Command::DeviceSetIrqs,
            Request::RegionRead(_) => Command::RegionRead,
            Request::RegionWrite(..) => Command::RegionWrite,
            Request::DeviceReset => Command::DeviceReset,
            Request::RegionWriteMulti(_) => Command::RegionWriteMulti,
        }
    }

    /// Encodes the whole message, header included, as a client sends it.
    pub fn encode(&self, id: u16, flags: MessageFlags) -> Vec<u8> {
        let count;
        let parts: [&[u8]; 2] = match self {
            Request::Version(numbers, data) => [numbers.as_bytes(), data],
            Request::DmaMap(map) => [map.as_bytes(), &[]],
            Request::DmaUnmap(unmap) => [unmap.as_bytes(), &[]],
            Request::DeviceGetInfo(info) => [info.as_bytes(), &[]],
            Request::DeviceGetRegionInfo(info) => [info.as_bytes(), &[]],
            Request::DeviceGetRegionIoFds(fds) => [fds.as_bytes(), &[]],
            Request::DeviceGetIrqInfo(info) => [info.as_bytes(), &[]],
            Request::DeviceSetIrqs(set, data) => [set.as_bytes(), data],
            Request::RegionRead(access) => [access.as_bytes(), &[]],
            Request::RegionWrite(access, data) => [access.as_bytes(), data],
            Request::DeviceReset => [&[], &[]],
            Request::RegionWriteMulti(writes) => {
                count = (writes.len() as u64).to_ne_bytes();
                [&count, writes.as_bytes()]
            }
        };
        message(Header::new(id, self.command() as u16, flags), &parts)
    }
}

/// The server's reply to a successful request. For errors see [`error_reply`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Success of `DMA_MAP`, `DEVICE_SET_IRQS` or `DEVICE_RESET`.
    Done,
    /// The negotiated version and capabilities.
    Version(VersionNumbers, String),
    /// The unmapped range, as requested.
    DmaUnmap(DmaUnmap),
    /// Number of regions and interrupt types.
    DeviceInfo(DeviceInfo),
    /// One region, with its mappable areas if the request's `argsz` has space for them.
    RegionInfo(RegionInfo, Vec<SparseArea>),
    /// Reports that no file descriptors represent parts of a region.
    RegionIoFds(RegionIoFds),
    /// One interrupt type.
    IrqInfo(IrqInfo),
    /// The bytes read.
    RegionRead(RegionAccess, Vec<u8>),
    /// The bytes written.
    RegionWrite(RegionAccess),
    /// Number of writes made.
    RegionWriteMulti(u64),
}

impl Reply {
    /// Encodes the whole reply to the command with the header `request`.
    pub fn encode(&self, request: &Header) -> Vec<u8> {
        let header = Header::new(request.id, request.command, MessageFlags::REPLY);
        match self {
            Reply::Done => message(header, &[]),
            // The protocol terminates the JSON text with a NUL.
            Reply::Version(numbers, data) => message(header, &[numbers.as_bytes(), data.as_bytes(), &[0]]),
            Reply::DmaUnmap(unmap) => message(header, &[unmap.as_bytes()]),
            Reply::DeviceInfo(info) => message(header, &[info.as_bytes()]),
            Reply::RegionInfo(info, areas) if areas.is_empty() => message(header, &[info.as_bytes()]),
            Reply::RegionInfo(info, areas) => {
                let capability = SparseMmapCapability {
                    id: SPARSE_MMAP_CAPABILITY,
                    version: 1,
                    next: 0,
                    area_count: areas.len() as u32,
                    reserved: 0,
                };
                message(header, &[info.as_bytes(), capability.as_bytes(), areas.as_bytes()])
            }
            Reply::RegionIoFds(fds) => message(header, &[fds.as_bytes()]),
            Reply::IrqInfo(info) => message(header, &[info.as_bytes()]),
            Reply::RegionRead(access, data) => message(header, &[access.as_bytes(), data]),
            Reply::RegionWrite(access) => message(header, &[access.as_bytes()]),
            Reply::RegionWriteMulti(done) => message(header, &[&done.to_ne_bytes()]),
        }
    }
}

/// Returns the size in bytes, after the header, of a region-info reply with `areas` mappable areas.
pub fn region_info_size(areas: usize) -> u32 {
    let capability =
        if areas == 0 { 0 } else { size_of::<SparseMmapCapability>() + areas * size_of::<SparseArea>() };
    (size_of::<RegionInfo>() + capability) as u32
}

/// Returns the access of a `REGION_READ` or `REGION_WRITE` message. Returns `None` for other
/// messages and if the count is over the limit of one read.
pub fn access_of(command: u16, body: &[u8]) -> Option<RegionAccess> {
    let is_access =
        [Command::RegionRead, Command::RegionWrite].map(|command| command as u16).contains(&command);
    let (access, _) = RegionAccess::read_from_prefix(body).ok().filter(|_| is_access)?;
    (access.count as usize <= MAX_DATA).then_some(access)
}

/// Encodes the reply to a failed command: a header with the error flag and an errno.
///
/// A failed `access` has the body of a successful one, with all ones for the bytes read. The client
/// of Cloud Hypervisor (crate `vfio_user`) reads a full body whatever the header says. Without one
/// it would wait forever.
pub fn error_reply(request: &Header, errno: Errno, access: Option<RegionAccess>) -> Vec<u8> {
    let mut header = Header::new(request.id, request.command, MessageFlags::REPLY | MessageFlags::ERROR);
    header.error = errno.raw_os_error() as u32;
    let Some(access) = access else { return message(header, &[]) };
    let is_read = request.command == Command::RegionRead as u16;
    let data = vec![0xff; if is_read { access.count as usize } else { 0 }];
    message(header, &[access.as_bytes(), &data])
}

fn message(mut header: Header, parts: &[&[u8]]) -> Vec<u8> {
    let size = HEADER_SIZE + parts.iter().map(|part| part.len()).sum::<usize>();
    header.size = size as u32;
    let mut bytes = Vec::with_capacity(size);
    bytes.extend_from_slice(header.as_bytes());
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

fn prefix<T: FromBytes + KnownLayout + Immutable>(
    command: Command,
    body: &[u8],
) -> Result<(T, &[u8]), CodecError> {
    let wanted = size_of::<T>();
    T::read_from_prefix(body).map_err(|_| CodecError::BodySize { command, got: body.len(), wanted })
}

fn exact<T: FromBytes + KnownLayout + Immutable>(command: Command, body: &[u8]) -> Result<T, CodecError> {
    let wanted = size_of::<T>();
    T::read_from_bytes(body).map_err(|_| CodecError::BodySize { command, got: body.len(), wanted })
}

fn argument_size<T>(command: Command, argsz: u32) -> Result<(), CodecError> {
    let least = size_of::<T>() as u32;
    if argsz < least { Err(CodecError::ArgumentSize { command, argsz, least }) } else { Ok(()) }
}

fn data_count(command: Command, count: u32) -> Result<(), CodecError> {
    if count as usize > MAX_DATA { Err(CodecError::DataCount { command, count }) } else { Ok(()) }
}

fn body_size(command: Command, got: usize, wanted: usize) -> Result<(), CodecError> {
    if got == wanted { Ok(()) } else { Err(CodecError::BodySize { command, got, wanted }) }
}

fn writes(body: &[u8]) -> Result<Vec<WriteOne>, CodecError> {
    let command = Command::RegionWriteMulti;
    let (count, rest): (u64, _) = prefix(command, body)?;
    let wanted = count.saturating_mul(size_of::<WriteOne>() as u64);
    if rest.len() as u64 != wanted {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        return Err(CodecError::BodySize { command, got: rest.len(), wanted });
    }
    if count > MAX_WRITES {
        return Err(CodecError::MultiWrites(count));
    }
    let mut writes = Vec::with_capacity(rest.len() / size_of::<WriteOne>());
    for bytes in rest.chunks_exact(size_of::<WriteOne>()) {
        let write: WriteOne = exact(command, bytes)?;
        if write.access.count > 8 {
            return Err(CodecError::MultiWriteSize(write.access.count));
        }
        writes.push(write);
    }
    Ok(writes)
}

#[cfg(test)]
mod tests;
