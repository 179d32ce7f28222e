//! Listeners and connections by number, in place of the files that a process has.

use hamlyn_abi::kernel::wire::{ULN_WIRE_ACCEPT, ULN_WIRE_REJECT};
use hamlyn_abi::uapi::*;
use rustix::io::{Errno, Result};
use zerocopy::FromZeros;

use crate::{Ports, System};

/// Returns the bytes padded with zeros, and their number.
fn padded<const N: usize>(bytes: &[u8]) -> Result<([u8; N], u32)> {
    let mut all = [0; N];
    all.get_mut(..bytes.len()).ok_or(Errno::INVAL)?.copy_from_slice(bytes);
    Ok((all, bytes.len() as u32))
}

fn name(bytes: &[u8]) -> Result<([u8; 64], u32)> {
    if bytes.is_empty() { Err(Errno::INVAL) } else { padded(bytes) }
}

fn private(bytes: &[u8]) -> Result<UlnPrivate> {
    let (data, length) = padded(bytes)?;
    Ok(UlnPrivate { length, reserved: 0, data })
}

impl System {
    /// Takes a name of 1 to 64 bytes, and returns the listener's number. Up to `backlog` requests
    /// may wait, 1 to `ULN_MAX_BACKLOG`.
    ///
    /// # Errors
    /// `INVAL`; `OPNOTSUPP`: the card was not started; `ADDRINUSE`; `NOSPC`: too many listeners and
    /// connections; `NOMEM`.
    pub fn listen(&mut self, ports: &mut dyn Ports, bytes: &[u8], backlog: u32) -> Result<u32> {
        let (name, name_length) = name(bytes)?;
        if backlog == 0 || backlog > ULN_MAX_BACKLOG {
            return Err(Errno::INVAL);
        }
        self.host.listen(ports, &UlnListen { name_length, backlog, name, ..UlnListen::new_zeroed() })
    }

    /// Returns the number of a listener's next request, or `None` if there is none.
    ///
    /// # Errors
    /// `NODEV`: the card was reset, or the listener does not exist.
    pub fn claim(&mut self, ports: &mut dyn Ports, listener: u32) -> Result<Option<u32>> {
        match self.host.claim(ports, listener) {
            Err(Errno::AGAIN) => Ok(None),
            claimed => claimed.map(Some),
        }
    }

    /// Gives a name back, and refuses its waiting requests.
    pub fn unlisten(&mut self, ports: &mut dyn Ports, listener: u32) {
        self.host.unlisten(ports, listener);
    }

    /// Returns the number of requests that wait for a listener, or `None` if its card was reset or
    /// it does not exist.
    #[must_use]
    pub fn waiting(&self, listener: u32) -> Option<u32> {
        self.host.waiting(listener)
    }

    /// Requests a connection, passes up to 256 bytes, and returns the connection's number.
    ///
    /// # Errors
    /// `INVAL`; `OPNOTSUPP`: the card was not started; `NETDOWN`; `HOSTUNREACH`: no such id;
    /// `NOSPC`: too many listeners and connections; `NOMEM`.
    pub fn request(&mut self, ports: &mut dyn Ports, host: u32, bytes: &[u8], private: &[u8]) -> Result<u32> {
        let ((name, name_length), (data, private_length)) = (name(bytes)?, padded(private)?);
        let connect =
            UlnConnect { host, name_length, private_length, reserved0: 0, reserved1: 0, name, data };
        self.host.request(ports, &connect, false)
    }

    /// Asks whether a process listens under a name. The question has a state like a connection, and
    /// ends with the answer.
    ///
    /// # Errors
    /// Those of [`System::request`].
    pub fn ask(&mut self, ports: &mut dyn Ports, host: u32, bytes: &[u8]) -> Result<u32> {
        let (name, name_length) = name(bytes)?;
        let connect = UlnConnect { host, name_length, name, ..UlnConnect::new_zeroed() };
        self.host.request(ports, &connect, true)
    }

    /// Accepts or rejects a requested connection, and passes up to 256 bytes.
    ///
    /// # Errors
    /// `INVAL`; `NOTCONN`: it has ended or was already answered.
    pub fn answer(&mut self, ports: &mut dyn Ports, number: u32, accept: bool, bytes: &[u8]) -> Result<()> {
        let kind = if accept { ULN_WIRE_ACCEPT } else { ULN_WIRE_REJECT };
        self.host.answer(ports, number, kind, &private(bytes)?)
    }

    /// Ends a connection from our side, and passes up to 256 bytes.
    ///
    /// # Errors
    /// `INVAL`; `NOTCONN`: it has ended.
    pub fn close(&mut self, ports: &mut dyn Ports, number: u32, bytes: &[u8]) -> Result<()> {
        self.host.close(ports, number, ULN_END_CLOSED, &private(bytes)?)
    }

    /// Releases a connection, as when its file is closed. Unless it has ended, the peer is notified
    /// that this process has died.
    pub fn release(&mut self, ports: &mut dyn Ports, number: u32) {
        self.host.release(ports, number);
    }

    /// Returns the state of a connection. A connection that does not exist has ended with the card.
    #[must_use]
    pub fn describe(&self, number: u32) -> UlnConnectionState {
        self.host.describe(number).unwrap_or_else(|| {
            let mut state = UlnConnectionState::new_zeroed();
            (state.state, state.reason) = (ULN_CONNECTION_ENDED, ULN_END_CARD_RESET);
            state
        })
    }

    /// Leaves before the card goes: gives all names back, and notifies the peers that their
    /// processes have gone.
    pub fn leave(&mut self, ports: &mut dyn Ports) {
        for listener in self.host.listeners() {
            self.unlisten(ports, listener);
        }
        for number in self.host.connections() {
            self.host.abandon(ports, number);
        }
    }
}
