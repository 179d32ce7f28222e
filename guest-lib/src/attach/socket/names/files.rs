//! Connections and listeners as files: what a program polls, and what it holds of them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use hamlyn_abi::uapi::*;
use hamlyn_system::{Action, System};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair, sockopt};
use zerocopy::FromZeros;

use super::Shared;
use crate::attach::{CONNECTIONS, ConnectionParts, ListenerParts, none_left};
use crate::error::{Error, Result};

/// The other ends of the files that the program polls, by the numbers of what they are for.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// None once the connection has ended.
    connections: BTreeMap<u32, Option<OwnedFd>>,
    listeners: BTreeMap<u32, Arc<OwnedFd>>,
}

impl Files {
    /// Makes the files of what has changed show it.
    pub(super) fn show(&mut self, system: &System, action: &Action) {
        match action {
            Action::Decided { connection } => self.show_connection(system, *connection),
            Action::Requests { listener } => self.show_listener(system, *listener),
            Action::Send { .. } | Action::Reopen { .. } => {}
        }
    }

    /// Writable once it is established, readable with a hang-up once it has ended.
    fn show_connection(&mut self, system: &System, number: u32) {
        let Some(file) = self.connections.get_mut(&number) else { return };
        if let Some(file) = file {
            // What fills the program's end is taken out: it has room.
            while read(&*file, &mut [0_u8; 64]).is_ok_and(|length| length != 0) {}
        }
        if system.state(number).is_none_or(|(state, ..)| state == HAMLYN_CONNECTION_ENDED) {
            *file = None;
        }
    }

    /// Readable while a request waits, and once the card is gone.
    fn show_listener(&self, system: &System, number: u32) {
        let Some(file) = self.listeners.get(&number) else { return };
        // It does not block; at worst it is as it is to be.
        let _ = match system.waiting(number) {
            Some(0) => read(file, &mut [0_u8; 8]),
            _ => write(file, &1_u64.to_ne_bytes()),
        };
    }
}

/// A connection's file, and its other end. It is neither readable nor writable: what it can hold is full.
fn connection_file() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (file, end) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The least that the kernel gives.
    sockopt::set_socket_send_buffer_size(&file, 0)?;
    while send(&file, &[0], SendFlags::NOSIGNAL).is_ok() {}
    Ok((file, end))
}

fn failed(action: impl Into<String>) -> impl FnOnce(Errno) -> Error {
    let action = action.into();
    move |errno| match errno {
        Errno::NOTCONN => Error::NotConnected,
        Errno::NOSPC => none_left(CONNECTIONS, HAMLYN_MAX_CONNECTIONS),
        _ => Error::System { action, source: errno.into() },
    }
}

/// A name that the program listens to.
#[derive(Debug)]
pub(super) struct Listener {
    shared: Arc<Shared>,
    number: u32,
    file: Arc<OwnedFd>,
}

impl Listener {
    pub(super) fn open(shared: &Arc<Shared>, name: &str, backlog: u32) -> Result<Self> {
        let opened = shared.call(|system, files| {
            let file = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
            let number = system.listen(name.as_bytes(), backlog)?;
            files.listeners.insert(number, file.clone());
            Ok((number, file))
        });
        let (number, file) = opened.map_err(failed(format!("take the name {name:?}")))?;
        Ok(Self { shared: shared.clone(), number, file })
    }
}

impl ListenerParts for Listener {
    fn next_request(&self) -> Result<Option<Box<dyn ConnectionParts>>> {
        let claimed = self.shared.call(|system, files| {
            if system.waiting(self.number) == Some(0) {
                return Ok(None);
            }
            let (file, end) = connection_file()?;
            let number = system.claim(self.number)?;
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
        let _ = self.shared.call(|system, files| {
            files.listeners.remove(&self.number);
            system.unlisten(self.number);
            Ok(())
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
        Self::make(shared, |system| system.request(host, name.as_bytes(), private))
            .map_err(failed(format!("connect to {name:?} on host {host}")))
    }

    /// A question, which stands as a connection does.
    pub(super) fn ask(shared: &Arc<Shared>, host: u32, name: &str) -> Result<Self> {
        Self::make(shared, |system| system.ask(host, name.as_bytes()))
            .map_err(failed(format!("ask for {name:?} on host {host}")))
    }

    fn make(
        shared: &Arc<Shared>,
        verb: impl FnOnce(&mut System) -> rustix::io::Result<u32>,
    ) -> rustix::io::Result<Self> {
        let (number, file) = shared.call(|system, files| {
            let (file, end) = connection_file()?;
            let number = verb(system)?;
            files.connections.insert(number, Some(end));
            Ok((number, file))
        })?;
        Ok(Self { shared: shared.clone(), number, file })
    }

    fn call(
        &self,
        action: &'static str,
        verb: impl FnOnce(&mut System) -> rustix::io::Result<()>,
    ) -> Result<()> {
        self.shared.call(|system, _| verb(system)).map_err(failed(action))
    }
}

impl ConnectionParts for Connection {
    fn state(&self) -> Result<HamlynConnectionState> {
        let mut state = HamlynConnectionState::new_zeroed();
        self.call("ask how a connection stands", |system| {
            state = system.describe(self.number);
            Ok(())
        })?;
        Ok(state)
    }

    fn accept(&self, private: &[u8]) -> Result<()> {
        self.call("accept a connection", |system| system.answer(self.number, true, private))
    }

    fn reject(&self, private: &[u8]) -> Result<()> {
        self.call("reject a connection", |system| system.answer(self.number, false, private))
    }

    fn close(&self, private: &[u8]) -> Result<()> {
        self.call("close a connection", |system| system.close(self.number, HAMLYN_END_CLOSED, private))
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.shared.call(|system, files| {
            files.connections.remove(&self.number);
            system.release(self.number);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn news(file: &OwnedFd) -> PollFlags {
        let mut polled = [PollFd::new(file, PollFlags::IN | PollFlags::OUT)];
        poll(&mut polled, Some(&Timespec::default())).unwrap();
        polled[0].revents()
    }

    /// Two connections of a host with itself, by hand: the one that asks, and the one that is asked.
    fn connected(system: &mut System) -> [u32; 2] {
        system.start();
        system.link_is(true, 1);
        let listener = system.listen(b"name", 1).unwrap();
        let asked = system.request(0, b"name", b"").unwrap();
        let carry = |system: &mut System| {
            for action in system.take_actions() {
                let Action::Send { entry, wire, mut data, .. } = action else { continue };
                data.resize(512, 0);
                system.arrived(0, entry, wire, data);
                system.answer_peers();
            }
        };
        (0..4).for_each(|_| carry(system));
        let taken = system.claim(listener).unwrap().unwrap();
        system.answer(taken, true, b"").unwrap();
        [asked, taken]
    }

    #[test]
    fn a_full_table_says_what_helps() {
        let full = failed("connect to \"name\" on host 1")(Errno::NOSPC);
        assert!(full.is_exhausted());
        assert_eq!(
            full.to_string(),
            "all 16384 connections and names are in use: close some, here or in another process: a card has no more"
        );
    }

    #[test]
    fn a_connections_file_is_writable_once_it_is_established_and_hangs_up_at_its_end() {
        let mut system = System::new(1, 8000);
        let [_, taken] = connected(&mut system);
        let (file, end) = connection_file().unwrap();
        assert_eq!(news(&file), PollFlags::empty(), "it was not decided");
        let mut files = Files::default();
        files.connections.insert(taken, Some(end));
        let decided = Action::Decided { connection: taken };
        files.show(&system, &decided);
        assert_eq!(news(&file), PollFlags::OUT);
        system.close(taken, HAMLYN_END_CLOSED, b"").unwrap();
        files.show(&system, &decided);
        assert!(news(&file).contains(PollFlags::IN | PollFlags::HUP));
        assert!(!news(&file).contains(PollFlags::ERR), "nothing was lost");
    }
}
