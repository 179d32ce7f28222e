//! A vfio-user client: one request at a time, each with its reply.
//!
//! The crate `vfio_user` is not suitable. Its client ignores the error in a reply, waits for data
//! that a refused read does not return, and stops the process on a reply of unexpected size.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use zerocopy::{FromBytes, IntoBytes};

use super::message::*;

/// Timeout for the card's answer: as long as stock QEMU is told to wait.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Longest accepted reply, in bytes.
const MAX_REPLY: usize = 1 << 20;
/// Maximum number of file descriptors in a message.
const MAX_FDS: usize = 8;
/// Size of the header, in bytes.
const HEADER: usize = size_of::<Header>();

/// A connection to a card's socket.
#[derive(Debug)]
pub(crate) struct Client {
    connection: Mutex<Connection>,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    next_id: u16,
}

/// A region that can be mapped.
#[derive(Debug)]
pub(crate) struct MappableRegion {
    pub(crate) file: OwnedFd,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Client {
    /// Connects and negotiates the version.
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        Self::negotiate(UnixStream::connect(path)?)
    }

    pub(crate) fn negotiate(stream: UnixStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let client = Self { connection: Mutex::new(Connection { stream, next_id: 0 }) };
        let version = Version { major: 0, minor: 0 };
        let capabilities = b"{\"capabilities\":{\"max_msg_fds\":8,\"max_data_xfer_size\":1048576}}\0";
        let (reply, _) =
            client.call(VERSION, &[version.as_bytes(), capabilities], &[]).map_err(turned_away)?;
        let (answer, _) = Version::read_from_prefix(&reply).map_err(|_| short("version"))?;
        if answer.major != 0 {
            return Err(io::Error::other(format!(
                "vfio-user version {} is not known (limit 0)",
                answer.major
            )));
        }
        Ok(client)
    }

    /// Returns a file to poll, which hangs up when the card's process ends.
    pub(crate) fn hang_up(&self) -> io::Result<OwnedFd> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.stream.as_fd().try_clone_to_owned()
    }

    /// Lends memory to the card at `address`.
    pub(crate) fn dma_map(&self, address: u64, size: u64, file: BorrowedFd<'_>) -> io::Result<()> {
        let argsz = size_of::<DmaMap>() as u32;
        let map = DmaMap { argsz, flags: DMA_READ_WRITE, offset: 0, address, size };
        self.call(DMA_MAP, &[map.as_bytes()], &[file]).map(drop)
    }

    /// Ends the loan of memory.
    pub(crate) fn dma_unmap(&self, address: u64, size: u64) -> io::Result<()> {
        let unmap = DmaUnmap { argsz: size_of::<DmaUnmap>() as u32, flags: 0, address, size };
        self.call(DMA_UNMAP, &[unmap.as_bytes()], &[]).map(drop)
    }

    /// Returns the file behind a region.
    pub(crate) fn region(&self, index: u32) -> io::Result<MappableRegion> {
        // Room for the capabilities, so that one request is enough.
        let question = RegionInfo { argsz: 4096, index, ..RegionInfo::default() };
        let (reply, files) = self.call(DEVICE_GET_REGION_INFO, &[question.as_bytes()], &[])?;
        let (info, _) = RegionInfo::read_from_prefix(&reply).map_err(|_| short("region info"))?;
        match files.into_iter().next() {
            Some(file) => Ok(MappableRegion { file, offset: info.offset, size: info.size }),
            None => Err(io::Error::other(format!("region {index} comes without a file to map"))),
        }
    }

    /// Makes vector `vector` of MSI-X signal an eventfd.
    pub(crate) fn set_vector(&self, vector: u32, eventfd: BorrowedFd<'_>) -> io::Result<()> {
        let argsz = size_of::<SetIrqs>() as u32;
        let set = SetIrqs { argsz, flags: IRQS_EVENTFD_TRIGGER, index: IRQS_MSIX, start: vector, count: 1 };
        self.call(DEVICE_SET_IRQS, &[set.as_bytes()], &[eventfd]).map(drop)
    }

    /// Reads from a region.
    pub(crate) fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let access = RegionAccess { offset, region, count: data.len() as u32 };
        let (reply, _) = self.call(REGION_READ, &[access.as_bytes()], &[])?;
        let answer = reply.get(size_of::<RegionAccess>()..).filter(|answer| answer.len() == data.len());
        data.copy_from_slice(answer.ok_or_else(|| short("region read"))?);
        Ok(())
    }

    /// Reads a u32 from a region.
    pub(crate) fn read_u32(&self, region: u32, offset: u32) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.read(region, offset.into(), &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Writes to a region, and blocks until the card has processed the write.
    pub(crate) fn write(&self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        let access = RegionAccess { offset, region, count: data.len() as u32 };
        self.call(REGION_WRITE, &[access.as_bytes(), data], &[]).map(drop)
    }

    /// Writes a u32 to a region.
    pub(crate) fn write_u32(&self, region: u32, offset: u32, value: u32) -> io::Result<()> {
        self.write(region, offset.into(), &value.to_le_bytes())
    }

    /// Writes to a region without waiting. The card processes the write before any later message.
    pub(crate) fn post(&self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        let access = RegionAccess { offset, region, count: data.len() as u32 };
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.command(REGION_WRITE, FLAGS_NO_REPLY, &[access.as_bytes(), data], &[]).map(drop)
    }

    /// Sends a command and waits for its reply. Returns the body and the attached files.
    fn call(
        &self,
        command: u16,
        body: &[&[u8]],
        files: &[BorrowedFd<'_>],
    ) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let id = connection.command(command, 0, body, files)?;
        let (header, body, files) = connection.receive()?;
        if header.flags & FLAGS_TYPE != FLAGS_REPLY || header.id != id || header.command != command {
            let (kind, answered) = (header.flags & FLAGS_TYPE, header.command);
            return Err(io::Error::other(format!(
                "vfio-user message of type {kind} and command {answered} came instead of the reply to {command}"
            )));
        }
        if header.flags & FLAGS_ERROR != 0 {
            return Err(io::Error::from_raw_os_error(i32::try_from(header.error).unwrap_or(i32::MAX)));
        }
        Ok((body, files))
    }
}

impl Connection {
    /// Sends a command. Returns its id.
    fn command(
        &mut self,
        command: u16,
        flags: u32,
        body: &[&[u8]],
        files: &[BorrowedFd<'_>],
    ) -> io::Result<u16> {
        self.next_id = self.next_id.wrapping_add(1);
        let id = self.next_id;
        let size = HEADER + body.iter().map(|part| part.len()).sum::<usize>();
        let header = Header { id, command, size: size as u32, flags, ..Header::default() };
        let mut message = header.as_bytes().to_vec();
        body.iter().for_each(|part| message.extend_from_slice(part));
        self.send(&message, files)?;
        Ok(id)
    }

    /// Sends a whole message; the files are attached to its first bytes.
    fn send(&mut self, message: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(io::Error::other(format!("{} files in a message (limit {MAX_FDS})", files.len())));
        }
        let sent = sendmsg(&self.stream, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)?;
        self.stream.write_all(&message[sent..])
    }

    fn receive(&mut self) -> io::Result<(Header, Vec<u8>, Vec<OwnedFd>)> {
        let mut head = [0; HEADER];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let message = recvmsg(self.stream.as_fd(), &mut [IoSliceMut::new(&mut head)], &mut control, flags)?;
        let received = message.bytes;
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                files.extend(rights);
            }
        }
        if message.flags.contains(ReturnFlags::CTRUNC) && files.len() < MAX_FDS {
            // This process has no free file descriptors.
            return Err(Errno::MFILE.into());
        }
        self.stream.read_exact(&mut head[received..])?;
        let header = Header::read_from_bytes(&head).map_err(|_| short("header"))?;
        let size = header.size as usize;
        if !(HEADER..=MAX_REPLY).contains(&size) {
            return Err(io::Error::other(format!("vfio-user message of {size} bytes (limit {MAX_REPLY})")));
        }
        let mut body = vec![0; size - HEADER];
        self.stream.read_exact(&mut body)?;
        Ok((header, body, files))
    }
}

fn short(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("vfio-user {what} reply has the wrong size"))
}

/// Explains a hang-up: a card that has a client hangs up on the next one.
fn turned_away(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => io::Error::new(
            error.kind(),
            "the card hung up: another process or machine has it, and one at a time may (or it has just ended)",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change to a reply's header, and the reply's body.
    type Reply = (fn(&mut Header), Vec<u8>);

    /// Starts a card that answers each command with the next of these replies.
    fn against(replies: Vec<Reply>) -> UnixStream {
        let (client, mut server) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            for (change, body) in replies {
                let mut head = [0; HEADER];
                server.read_exact(&mut head).unwrap();
                let mut header = Header::read_from_bytes(&head).unwrap();
                server.read_exact(&mut vec![0; header.size as usize - HEADER]).unwrap();
                header.flags = FLAGS_REPLY;
                header.size = (HEADER + body.len()) as u32;
                change(&mut header);
                server.write_all(header.as_bytes()).unwrap();
                server.write_all(&body).unwrap();
            }
        });
        client
    }

    fn as_it_is(_: &mut Header) {}

    fn version() -> Reply {
        (as_it_is, b"\0\0\0\0{}\0".to_vec())
    }

    fn read_reply(data: &[u8]) -> Vec<u8> {
        let access = RegionAccess { offset: 8, region: 0, count: data.len() as u32 };
        [access.as_bytes(), data].concat()
    }

    #[test]
    fn read_returns_data_or_refusal_reason() {
        let refuse: fn(&mut Header) = |header| {
            header.flags |= FLAGS_ERROR;
            header.error = 22;
        };
        let replies = vec![
            version(),
            (as_it_is, read_reply(&[1, 2, 3, 4])),
            (refuse, vec![]),
            (as_it_is, read_reply(&[9; 4])),
        ];
        let client = Client::negotiate(against(replies)).unwrap();
        assert_eq!(client.read_u32(REGION_BAR0, 8).unwrap(), 0x0403_0201);
        assert_eq!(client.read_u32(REGION_BAR0, 8).unwrap_err().raw_os_error(), Some(22));
        assert_eq!(client.read_u32(REGION_BAR0, 8).unwrap(), 0x0909_0909, "the stream is still in step");
    }

    #[test]
    fn nonsense_is_an_error() {
        let wrong: [Reply; 6] = [
            (as_it_is, read_reply(&[1, 2])),
            (as_it_is, vec![]),
            (|header| header.id ^= 1, read_reply(&[1; 4])),
            (|header| header.flags = 0, read_reply(&[1; 4])),
            (|header| header.size = 3, vec![]),
            (|header| header.size = u32::MAX, vec![]),
        ];
        for (number, reply) in wrong.into_iter().enumerate() {
            let client = Client::negotiate(against(vec![version(), reply])).unwrap();
            assert!(client.read_u32(REGION_BAR0, 8).is_err(), "{number}");
        }
    }

    #[test]
    fn wrong_version_and_hang_up_are_errors() {
        let reply = (as_it_is as fn(&mut Header), b"\x01\0\0\0{}\0".to_vec());
        let error = Client::negotiate(against(vec![reply])).unwrap_err();
        assert_eq!(error.to_string(), "vfio-user version 1 is not known (limit 0)");
        let error = Client::negotiate(against(vec![])).unwrap_err().to_string();
        assert!(error.contains("one at a time may"), "{error}");
    }

    #[test]
    fn a_region_without_a_file_cannot_be_mapped() {
        let info = RegionInfo { argsz: 32, size: 4096, ..RegionInfo::default() };
        let replies = vec![version(), (as_it_is as fn(&mut Header), info.as_bytes().to_vec())];
        let error = Client::negotiate(against(replies)).unwrap().region(2).unwrap_err();
        assert_eq!(error.to_string(), "region 2 comes without a file to map");
    }
}
