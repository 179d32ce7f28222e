//! Files of listeners, connections and other objects, which the driver returns from calls.

use std::ffi::c_void;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use hamlyn_abi::uapi::*;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Updater};

use crate::device::Device;

/// A call that returns a new file.
struct Opener<'a, const CODE: u32, T> {
    argument: *mut T,
    borrowed: PhantomData<&'a mut T>,
}

impl<'a, const CODE: u32, T> Opener<'a, CODE, T> {
    fn new(argument: &'a mut T) -> Self {
        Self { argument, borrowed: PhantomData }
    }
}

// SAFETY: every use below pairs a code with the structure whose size the code carries (a test of
// hamlyn-abi). The driver reads only that structure, which is borrowed as long as the call lasts,
// and returns a descriptor that has no other owner.
unsafe impl<const CODE: u32, T> Ioctl for Opener<'_, CODE, T> {
    type Output = OwnedFd;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        CODE as Opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.argument.cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<Self::Output> {
        // SAFETY: the call has succeeded, so this is a new descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(out) })
    }
}

fn open<const CODE: u32, T>(file: &impl AsFd, argument: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: see `Opener`.
    Ok(unsafe { rustix::ioctl::ioctl(file, Opener::<'_, CODE, T>::new(argument)) }?)
}

fn call<const CODE: u32, T>(file: &OwnedFd, argument: &mut T) -> io::Result<()> {
    // SAFETY: as for `Opener`; the driver may also write the structure, of which any bytes are
    // valid.
    let call = unsafe { Updater::<'_, CODE, T>::new(argument) };
    // SAFETY: as above.
    Ok(unsafe { rustix::ioctl::ioctl(file, call) }?)
}

impl Device {
    /// Registers a name to listen under.
    ///
    /// # Errors
    /// The driver's: see `hamlyn_abi::uapi`.
    pub fn listen(&self, argument: &mut UlnListen) -> io::Result<ListenerFile> {
        open::<ULN_IOC_LISTEN, _>(self, argument).map(ListenerFile)
    }

    /// Requests a connection.
    ///
    /// # Errors
    /// The driver's: see `hamlyn_abi::uapi`.
    pub fn connect(&self, argument: &mut UlnConnect) -> io::Result<ConnectionFile> {
        open::<ULN_IOC_CONNECT, _>(self, argument).map(ConnectionFile)
    }

    /// Asks whether a name has a listener. The query is a file like a connection.
    ///
    /// # Errors
    /// The driver's: see `hamlyn_abi::uapi`.
    pub fn ask(&self, argument: &mut UlnConnect) -> io::Result<ConnectionFile> {
        open::<ULN_IOC_ASK, _>(self, argument).map(ConnectionFile)
    }

    /// Opens a file of its own for one object, for `poll(2)`.
    ///
    /// # Errors
    /// The driver's: see `hamlyn_abi::uapi`.
    pub fn object_file(&self, argument: &mut UlnObjectFile) -> io::Result<OwnedFd> {
        open::<ULN_IOC_OBJECT_FILE, _>(self, argument)
    }
}

/// A listener. Dropping it frees its name.
#[derive(Debug)]
pub struct ListenerFile(OwnedFd);

impl ListenerFile {
    /// Returns the next requested connection.
    ///
    /// # Errors
    /// The driver's; `EAGAIN` if there is none.
    pub fn next_request(&self) -> io::Result<ConnectionFile> {
        open::<ULN_IOC_NEXT_REQUEST, _>(self, &mut UlnObject::default()).map(ConnectionFile)
    }
}

impl AsFd for ListenerFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A connection. If it is dropped without being closed, the peer is notified.
#[derive(Debug)]
pub struct ConnectionFile(OwnedFd);

impl ConnectionFile {
    /// Reads the current state.
    ///
    /// # Errors
    /// The driver's.
    pub fn query(&self, state: &mut UlnConnectionState) -> io::Result<()> {
        call::<ULN_IOC_CONNECTION_QUERY, _>(&self.0, state)
    }

    /// Accepts the request.
    ///
    /// # Errors
    /// The driver's; `ENOTCONN` if the connection has ended, or the request has been answered.
    pub fn accept(&self, private: &mut UlnPrivate) -> io::Result<()> {
        call::<ULN_IOC_ACCEPT, _>(&self.0, private)
    }

    /// Rejects the request.
    ///
    /// # Errors
    /// The driver's; `ENOTCONN` if the connection has ended, or the request has been answered.
    pub fn reject(&self, private: &mut UlnPrivate) -> io::Result<()> {
        call::<ULN_IOC_REJECT, _>(&self.0, private)
    }

    /// Closes the connection.
    ///
    /// # Errors
    /// The driver's; `ENOTCONN` if the connection has ended.
    pub fn close(&self, private: &mut UlnPrivate) -> io::Result<()> {
        call::<ULN_IOC_CLOSE, _>(&self.0, private)
    }
}

impl AsFd for ConnectionFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
