//! The fake card's express memory and names. There are two hosts, this one and [`OTHER`], whose
//! processes are both in this process.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use hamlyn::attach::{ConnectionParts, ExpressParts, ListenerParts};
use hamlyn::{Error, Result};
use hamlyn_abi::uapi::*;
use hamlyn_sys::Mapping;
use rustix::io::Errno;
use zerocopy::FromZeros;

use super::card::Card;

/// The other host's id.
pub(crate) const OTHER: u32 = 6;

/// An existing area.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) maker: u32,
    host: u32,
    pub(super) memory: Arc<Mapping>,
    viewed: bool,
}

fn refused(errno: Errno) -> Error {
    Error::System { action: "fake".into(), source: errno.into() }
}

impl Card {
    pub(super) fn create_area(&mut self, maker: u32, host: u32, length: usize) -> Result<ExpressParts> {
        if !self.has_express {
            return Err(refused(Errno::HOSTUNREACH));
        }
        let memory = Arc::new(Mapping::anonymous(length).unwrap());
        let number = self.number();
        self.areas.insert(number, Area { maker, host, memory: memory.clone(), viewed: false });
        Ok(ExpressParts { number, key: key_of(number), memory })
    }

    pub(super) fn map_area(&mut self, host: u32, maker: u32, area: u32, key: u64) -> Result<ExpressParts> {
        let found = self.areas.get_mut(&area).filter(|area| area.maker == maker && area.host == host);
        let found = found.filter(|_| key == key_of(area)).ok_or_else(|| refused(Errno::ACCESS))?;
        if self.other_memory {
            return Err(refused(Errno::HOSTUNREACH));
        }
        if std::mem::replace(&mut found.viewed, true) {
            return Err(refused(Errno::BUSY));
        }
        let memory = found.memory.clone();
        Ok(ExpressParts { number: self.number(), key: 0, memory })
    }

    /// Destroys an area. Its remaining views read as zeros.
    pub(super) fn destroy_area(&mut self, number: u32) {
        if let Some(area) = self.areas.remove(&number) {
            area.memory.write(0, &vec![0; area.memory.length()]);
        }
    }
}

fn key_of(area: u32) -> u64 {
    0xe5e5_0000 + u64::from(area)
}

/// A connection with both sides: side 0 has asked, side 1 was asked.
#[derive(Debug)]
pub(super) struct Link {
    states: [UlnConnectionState; 2],
    /// The other ends of the sides' files.
    theirs: [UnixStream; 2],
}

impl Link {
    fn tell(&mut self, side: usize, state: u32, reason: u32, private: &[u8]) {
        let told = &mut self.states[side];
        if told.state == ULN_CONNECTION_ENDED {
            return;
        }
        (told.state, told.reason) = (state, reason);
        told.private_length = private.len() as u32;
        told.data[..private.len()].copy_from_slice(private);
        // Like the driver's file: writable once established, readable once ended. The recipient may
        // have gone meanwhile.
        let mut theirs = &self.theirs[side];
        if state == ULN_CONNECTION_ENDED {
            let _ = theirs.write_all(b"news");
        } else {
            while theirs.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {}
        }
    }
}

#[derive(Debug)]
pub(super) struct Side {
    link: Arc<Mutex<Link>>,
    side: usize,
    file: UnixStream,
}

/// Creates both sides of a request that no listener has taken yet.
pub(super) fn request(from: u32, to: u32, private: &[u8]) -> (Side, Side) {
    let [(one, their_one), (other, their_other)] = [0, 1].map(|_| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        [&ours, &theirs].into_iter().for_each(|file| file.set_nonblocking(true).unwrap());
        // A full socket is neither readable nor writable.
        while (&ours).write(&[0; 4096]).is_ok() {}
        (ours, theirs)
    });
    let states = [to, from].map(|host| UlnConnectionState {
        state: ULN_CONNECTION_CONNECTING,
        host,
        ..FromZeros::new_zeroed()
    });
    let mut link = Link { states, theirs: [their_one, their_other] };
    link.states[1].private_length = private.len() as u32;
    link.states[1].data[..private.len()].copy_from_slice(private);
    let link = Arc::new(Mutex::new(link));
    (Side { link: link.clone(), side: 0, file: one }, Side { link, side: 1, file: other })
}

impl ConnectionParts for Side {
    fn state(&self) -> Result<UlnConnectionState> {
        Ok(self.link.lock().unwrap().states[self.side])
    }

    fn accept(&self, private: &[u8]) -> Result<()> {
        let mut link = self.link.lock().unwrap();
        link.tell(0, ULN_CONNECTION_ESTABLISHED, 0, private);
        link.states[1].state = ULN_CONNECTION_ESTABLISHED;
        Ok(())
    }

    fn reject(&self, private: &[u8]) -> Result<()> {
        self.link.lock().unwrap().tell(0, ULN_CONNECTION_ENDED, ULN_END_REJECTED, private);
        Ok(())
    }

    fn close(&self, private: &[u8]) -> Result<()> {
        let mut link = self.link.lock().unwrap();
        link.tell(1 - self.side, ULN_CONNECTION_ENDED, ULN_END_CLOSED, private);
        Ok(())
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let mut link = self.link.lock().unwrap();
        link.tell(1 - self.side, ULN_CONNECTION_ENDED, ULN_END_DIED, b"");
    }
}

#[derive(Debug)]
pub(super) struct FakeListener {
    pub(super) card: Arc<Mutex<Card>>,
    pub(super) name: String,
    pub(super) file: UnixStream,
}

impl ListenerParts for FakeListener {
    fn next_request(&self) -> Result<Option<Box<dyn ConnectionParts>>> {
        let mut card = self.card.lock().unwrap();
        let Some((requests, _)) = card.names.get_mut(&self.name) else { return Ok(None) };
        Ok(requests.pop_front().map(|side| Box::new(side) as Box<dyn ConnectionParts>))
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
