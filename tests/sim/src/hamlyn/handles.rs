//! The library's handles of connections and listeners, for which the driver has files
//! (`connectfile.c`).

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use hamlyn::attach::{ConnectionParts, ListenerParts};
use hamlyn::{Error, Result};
use hamlyn_abi::uapi::UlnConnectionState;
use hamlyn_driver_host::{Ports, System};
use rustix::io::Errno;
use zerocopy::FromZeros;

use crate::hamlyn::machine::Machine;

/// A listener of a process.
pub(super) struct ListenerHandle {
    machine: Arc<Machine>,
    pid: u64,
    number: u32,
}

/// A connection of a process.
pub(super) struct ConnectionHandle {
    machine: Arc<Machine>,
    pid: u64,
    number: u32,
}

fn system(action: &'static str) -> impl FnOnce(Errno) -> Error {
    move |errno| match errno {
        Errno::NOTCONN => Error::NotConnected,
        _ => Error::System { action: action.into(), source: errno.into() },
    }
}

impl ListenerHandle {
    pub(super) fn open(machine: &Arc<Machine>, pid: u64, name: &str, backlog: u32) -> Result<Self> {
        let number = machine.system_call(|system, ports| system.listen(ports, name.as_bytes(), backlog));
        Ok(Self { machine: machine.clone(), pid, number: number.map_err(system("take a name"))? })
    }
}

// A machine's own debug output would be too long.
impl fmt::Debug for ListenerHandle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "listener {} of host {}", self.number, self.machine.id)
    }
}

impl fmt::Debug for ConnectionHandle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "connection {} of host {}", self.number, self.machine.id)
    }
}

impl ListenerParts for ListenerHandle {
    fn next_request(&self) -> Result<Option<Box<dyn ConnectionParts>>> {
        let claimed = self.machine.system_call(|system, ports| system.claim(ports, self.number));
        let number = claimed.map_err(system("take the next request for a connection"))?;
        let (machine, pid) = (&self.machine, self.pid);
        Ok(number.map(|number| Box::new(ConnectionHandle { machine: machine.clone(), pid, number }) as _))
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.machine.unread.as_fd()
    }
}

impl Drop for ListenerHandle {
    fn drop(&mut self) {
        let _ = self.machine.system_call(|system, ports| {
            system.unlisten(ports, self.number);
            Ok(())
        });
    }
}

impl ConnectionHandle {
    pub(super) fn request(
        machine: &Arc<Machine>,
        pid: u64,
        host: u32,
        name: &str,
        private: &[u8],
    ) -> Result<Self> {
        machine.report_link();
        let number =
            machine.system_call(|system, ports| system.request(ports, host, name.as_bytes(), private));
        Ok(Self { machine: machine.clone(), pid, number: number.map_err(system("connect"))? })
    }

    /// Asks a question. It is handled like a connection.
    pub(super) fn ask(machine: &Arc<Machine>, pid: u64, host: u32, name: &str) -> Result<Self> {
        machine.report_link();
        let number = machine.system_call(|system, ports| system.ask(ports, host, name.as_bytes()));
        Ok(Self { machine: machine.clone(), pid, number: number.map_err(system("ask for a name"))? })
    }

    fn call(
        &self,
        verb: impl FnOnce(&mut System, &mut dyn Ports) -> std::result::Result<(), Errno>,
    ) -> Result<()> {
        self.machine.system_call(verb).map_err(system("end or answer a connection"))
    }
}

impl ConnectionParts for ConnectionHandle {
    fn state(&self) -> Result<UlnConnectionState> {
        let mut state = UlnConnectionState::new_zeroed();
        self.call(|system, _| {
            state = system.describe(self.number);
            Ok(())
        })?;
        Ok(state)
    }

    fn accept(&self, private: &[u8]) -> Result<()> {
        self.call(|system, ports| system.answer(ports, self.number, true, private))
    }

    fn reject(&self, private: &[u8]) -> Result<()> {
        self.call(|system, ports| system.answer(ports, self.number, false, private))
    }

    fn close(&self, private: &[u8]) -> Result<()> {
        if self.machine.tables().killed.contains(&self.pid) {
            return Err(Error::NotConnected);
        }
        self.call(|system, ports| system.close(ports, self.number, private))
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.machine.unread.as_fd()
    }
}

impl Drop for ConnectionHandle {
    fn drop(&mut self) {
        let _ = self.call(|system, ports| {
            system.release(ports, self.number);
            Ok(())
        });
    }
}
