//! Files of connections and listeners, which a program polls.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use hamlyn_abi::uapi::*;
use hamlyn_driver_host::{Ports, System};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair, sockopt};

use super::Shared;
use crate::core::attach::{ConnectionParts, ListenerParts};
use crate::core::device::connections_left;
use crate::error::{Error, Result};

/// The other ends of the files that the program polls, by the numbers of their objects.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// `None` once the connection has ended.
    connections: BTreeMap<u32, Option<OwnedFd>>,
    listeners: BTreeMap<u32, Arc<OwnedFd>>,
    /// Listeners whose files are readable. A requester can disappear silently, without a wake-up,
    /// so these are updated each time.
    readable: BTreeSet<u32>,
}

impl Files {
    /// Updates the files of changed objects.
    pub(super) fn show(&mut self, system: &mut System) {
        for number in system.take_woken().into_iter().chain(std::mem::take(&mut self.readable)) {
            self.show_connection(system, number);
            self.show_listener(system, number);
        }
    }

    /// The file is writable once the connection is established, and readable with a hang-up once it
    /// has ended.
    fn show_connection(&mut self, system: &System, number: u32) {
        let Some(file) = self.connections.get_mut(&number) else { return };
        if let Some(file) = file {
            // Draining the bytes that fill the program's end makes it writable.
            while read(&*file, &mut [0_u8; 64]).is_ok_and(|length| length != 0) {}
        }
        if system.describe(number).state == ULN_CONNECTION_ENDED {
            *file = None;
        }
    }

    /// The file is readable while a request is pending, and once the card is gone.
    fn show_listener(&mut self, system: &System, number: u32) {
        let Some(file) = self.listeners.get(&number) else { return };
        // Does not block; if it fails, the file is already in the right state.
        let _ = match system.waiting(number) {
            Some(0) => read(file, &mut [0_u8; 8]),
            _ => {
                self.readable.insert(number);
                write(file, &1_u64.to_ne_bytes())
            }
        };
    }
}

/// Returns a connection's file, and its other end. The file is neither readable nor writable: its
/// buffer is full.
fn connection_file() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (file, end) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The kernel's minimum.
    sockopt::set_socket_send_buffer_size(&file, 0)?;
    while send(&file, &[0], SendFlags::NOSIGNAL).is_ok() {}
    Ok((file, end))
}

fn failed(action: impl Into<String>) -> impl FnOnce(Errno) -> Error {
    let action = action.into();
    move |errno| match errno {
        Errno::NOTCONN => Error::NotConnected,
        Errno::NOSPC => connections_left(),
        _ => Error::System { action, source: errno.into() },
    }
}

/// A name that the program listens on.
#[derive(Debug)]
pub(super) struct Listener {
    shared: Arc<Shared>,
    number: u32,
    file: Arc<OwnedFd>,
}

impl Listener {
    pub(super) fn open(shared: &Arc<Shared>, name: &str, backlog: u32) -> Result<Self> {
        let opened = shared.call(|system, files, ports| {
            let file = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
            let number = system.listen(ports, name.as_bytes(), backlog)?;
            files.listeners.insert(number, file.clone());
            Ok((number, file))
        });
        let (number, file) = opened.map_err(failed(format!("take the name {name:?}")))?;
        Ok(Self { shared: shared.clone(), number, file })
    }
}

impl ListenerParts for Listener {
    fn next_request(&self) -> Result<Option<Box<dyn ConnectionParts>>> {
        let claimed = self.shared.call(|system, files, ports| {
            if system.waiting(self.number) == Some(0) {
                return Ok(None);
            }
            let (file, end) = connection_file()?;
            let number = system.claim(ports, self.number)?;
            Ok(number.map(|number| {
                files.connections.insert(number, Some(end));
                (number, file)
            }))
        });
        let claimed = claimed.map_err(failed("take the next request for a connection"))?;
        let shared = &self.shared;
        Ok(claimed.map(|(number, file)| Box::new(Connection { shared: shared.clone(), number, file }) as _))
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.call(|system, files, ports| {
            files.listeners.remove(&self.number);
            system.unlisten(ports, self.number);
        });
    }
}

/// A connection that the program holds.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    number: u32,
    file: OwnedFd,
}

impl Connection {
    pub(super) fn request(shared: &Arc<Shared>, host: u32, name: &str, private: &[u8]) -> Result<Self> {
        Self::make(shared, |system, ports| system.request(ports, host, name.as_bytes(), private))
            .map_err(failed(format!("connect to {name:?} on host {host}")))
    }

    /// Sends a query, which is an object like a connection.
    pub(super) fn ask(shared: &Arc<Shared>, host: u32, name: &str) -> Result<Self> {
        Self::make(shared, |system, ports| system.ask(ports, host, name.as_bytes()))
            .map_err(failed(format!("ask for {name:?} on host {host}")))
    }

    fn make(
        shared: &Arc<Shared>,
        verb: impl FnOnce(&mut System, &mut dyn Ports) -> rustix::io::Result<u32>,
    ) -> rustix::io::Result<Self> {
        let (number, file) = shared.call(|system, files, ports| {
            let (file, end) = connection_file()?;
            let number = verb(system, ports)?;
            files.connections.insert(number, Some(end));
            Ok((number, file))
        })?;
        Ok(Self { shared: shared.clone(), number, file })
    }

    fn call(
        &self,
        action: &'static str,
        verb: impl FnOnce(&mut System, &mut dyn Ports) -> rustix::io::Result<()>,
    ) -> Result<()> {
        self.shared.call(|system, _, ports| verb(system, ports)).map_err(failed(action))
    }
}

impl ConnectionParts for Connection {
    fn state(&self) -> Result<UlnConnectionState> {
        Ok(self.shared.call(|system, _, _| system.describe(self.number)))
    }

    fn accept(&self, private: &[u8]) -> Result<()> {
        self.call("accept a connection", |system, ports| system.answer(ports, self.number, true, private))
    }

    fn reject(&self, private: &[u8]) -> Result<()> {
        self.call("reject a connection", |system, ports| system.answer(ports, self.number, false, private))
    }

    fn close(&self, private: &[u8]) -> Result<()> {
        self.call("close a connection", |system, ports| system.close(ports, self.number, private))
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.call(|system, files, ports| {
            files.connections.remove(&self.number);
            system.release(ports, self.number);
        });
    }
}

#[cfg(test)]
mod tests {
    use hamlyn_abi::kernel::wire::UlnWire;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn news(file: &OwnedFd) -> PollFlags {
        let mut polled = [PollFd::new(file, PollFlags::IN | PollFlags::OUT)];
        poll(&mut polled, Some(&Timespec::default())).unwrap();
        polled[0].revents()
    }

    /// A card that returns all messages to itself, one at a time.
    #[derive(Default)]
    struct Mirror(Vec<(u32, UlnWire, Vec<u8>)>, Vec<(u32, UlnWire, Vec<u8>)>);

    impl Ports for Mirror {
        fn now(&self) -> u64 {
            0
        }
        fn post(&mut self, _: u32, entry: u32, wire: &UlnWire, data: &[u8]) -> bool {
            self.0.push((entry, *wire, data.to_vec()));
            true
        }
        fn take(&mut self) -> Option<(u32, u32)> {
            let sent = (!self.0.is_empty()).then(|| self.0.remove(0))?;
            self.1.push(sent);
            Some((0, self.1.last()?.0))
        }
        fn more(&mut self) -> bool {
            false
        }
        fn read(&mut self, _: u32, entry: u32, place: &mut [u8]) -> UlnWire {
            let (_, wire, data) = self.1.iter().rfind(|(of, ..)| *of == entry).unwrap();
            place[..data.len()].copy_from_slice(data);
            *wire
        }
        fn reopen(&mut self, _: u32, _: u32) {}
    }

    fn carry(system: &mut System, ports: &mut Mirror) {
        while !ports.0.is_empty() {
            system.arrived(ports);
            system.work(ports);
        }
    }

    fn system(ports: &mut Mirror) -> System {
        let mut system = System::new(1, 8000);
        system.open(ports);
        system.link_is(ports, Some(0), 1);
        system
    }

    #[test]
    fn full_table_error_has_a_remedy() {
        let full = failed("connect to \"name\" on host 1")(Errno::NOSPC);
        assert!(full.is_exhausted());
        assert_eq!(
            full.to_string(),
            "all 16384 connections and names are in use: close some, here or in another process: a card has no more"
        );
    }

    #[test]
    fn connection_file_shows_established_and_ended() {
        let mut ports = Mirror::default();
        let mut system = system(&mut ports);
        let listener = system.listen(&mut ports, b"name", 1).unwrap();
        system.request(&mut ports, 0, b"name", b"").unwrap();
        carry(&mut system, &mut ports);
        let taken = system.claim(&mut ports, listener).unwrap().unwrap();
        let (file, end) = connection_file().unwrap();
        let mut files = Files::default();
        files.connections.insert(taken, Some(end));
        files.show(&mut system);
        assert_eq!(news(&file), PollFlags::empty(), "it was not decided");
        system.answer(&mut ports, taken, true, b"").unwrap();
        files.show(&mut system);
        assert_eq!(news(&file), PollFlags::OUT);
        system.close(&mut ports, taken, b"").unwrap();
        files.show(&mut system);
        assert!(news(&file).contains(PollFlags::IN | PollFlags::HUP));
        assert!(!news(&file).contains(PollFlags::ERR), "nothing was lost");
    }

    #[test]
    fn listener_file_is_readable_while_request_pending() {
        let mut ports = Mirror::default();
        let mut system = system(&mut ports);
        let listener = system.listen(&mut ports, b"name", 1).unwrap();
        let file = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap());
        let mut files = Files::default();
        files.listeners.insert(listener, file.clone());
        for takes in [true, false] {
            let asked = system.request(&mut ports, 0, b"name", b"").unwrap();
            carry(&mut system, &mut ports);
            files.show(&mut system);
            assert!(news(&file).contains(PollFlags::IN));
            if takes {
                system.claim(&mut ports, listener).unwrap().unwrap();
            } else {
                system.release(&mut ports, asked);
                carry(&mut system, &mut ports);
            }
            files.show(&mut system);
            assert_eq!(news(&file), PollFlags::OUT, "taken: {takes}");
        }
        system.stop(&mut ports);
        files.show(&mut system);
        assert!(news(&file).contains(PollFlags::IN));
    }
}
