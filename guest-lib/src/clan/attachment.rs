//! Operations that the library needs from the driver of a CLAN card.

use std::sync::Arc;

use hamlyn_abi::clan::uapi::*;
use hamlyn_abi::uapi::UlnObject;
use hamlyn_sys::{Access, Mapping};
use zerocopy::IntoBytes;

use super::model::Clan;
use crate::core::attach::{CardAttachment, QueueFile};
use crate::core::device::Node;
use crate::core::memory::Memory;
use crate::error::Result;

/// The driver's interface to a CLAN card: the operations that need the operating system. The calls
/// and their arguments are described in `hamlyn_abi::clan::uapi`.
pub trait Attachment: CardAttachment {
    /// Allocates zeroed memory for an aperture, starting at a multiple of 8.
    ///
    /// # Errors
    /// Same as [`CardAttachment::allocate`].
    fn allocate_aperture(&self, length: usize) -> Result<Memory> {
        self.allocate(length)
    }

    /// Opens an aperture over `memory`.
    ///
    /// # Errors
    /// [`crate::Error::Exhausted`], [`crate::Error::Quota`], [`crate::Error::Locked`],
    /// [`crate::Error::System`].
    fn open_aperture(&self, argument: &mut ClanAperture, memory: &Memory) -> Result<()>;

    /// Opens a window.
    ///
    /// # Errors
    /// [`crate::Error::Exhausted`], [`crate::Error::Quota`], [`crate::Error::System`].
    fn open_window(&self, argument: &mut ClanWindow) -> Result<()>;

    /// Opens an endpoint.
    ///
    /// # Errors
    /// Same as [`Attachment::open_window`].
    fn open_endpoint(&self, argument: &mut ClanEndpoint) -> Result<()>;

    /// Opens an event queue.
    ///
    /// # Errors
    /// Same as [`Attachment::open_window`].
    fn open_events(&self, argument: &mut ClanEvents) -> Result<()>;

    /// Closes the object with this number.
    fn close(&self, what: Object, number: u32);

    /// Maps the pages at an offset that the driver returned.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn map_pages(&self, what: &str, offset: u64, length: usize, access: Access) -> Result<Arc<Mapping>>;

    /// Blocks until a bit of an endpoint is set.
    ///
    /// # Errors
    /// [`crate::Error::System`], also with `ETIMEDOUT` or `EINTR`.
    fn wait(&self, argument: &mut ClanWait) -> Result<()>;

    /// Blocks until an event queue has more records.
    ///
    /// # Errors
    /// [`crate::Error::System`], also with `ETIMEDOUT` or `EINTR`.
    fn wait_for_events(&self, argument: &mut ClanEventsWait) -> Result<()>;

    /// Sends a message.
    ///
    /// # Errors
    /// [`crate::Error::System`], also with `EHOSTUNREACH` or `EAGAIN`.
    fn send(&self, argument: &mut ClanSend) -> Result<()>;

    /// Sets an endpoint's peer.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn set_peer(&self, argument: &mut ClanPeer) -> Result<()>;

    /// Sets the event queue of an endpoint.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn set_events(&self, argument: &mut ClanEventsOf) -> Result<()>;

    /// Makes the driver carry out DMA requests.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    fn kick(&self, argument: &mut ClanKick) -> Result<()>;

    /// Returns a file that is readable while an event queue is not empty.
    fn file(&self) -> QueueFile<'_>;
}

/// Maximum size of an aperture without pages of its own, in bytes.
const SHORT: usize = 1024;

/// A byte buffer that starts at a multiple of 8, as an aperture requires.
#[derive(Debug)]
struct Words {
    words: Box<[u64]>,
    length: usize,
}

impl Words {
    fn new(length: usize) -> Self {
        Self { words: vec![0; length.div_ceil(size_of::<u64>())].into(), length }
    }
}

impl AsMut<[u8]> for Words {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.words.as_mut_bytes()[..self.length]
    }
}

/// Kinds of objects that the driver opens and closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// An aperture.
    Aperture,
    /// A window.
    Window,
    /// An endpoint.
    Endpoint,
    /// An event queue.
    Events,
}

impl Attachment for Node<Clan> {
    /// Places short apertures in the process' heap, so that a process with a thousand connections
    /// needs few pages for them.
    fn allocate_aperture(&self, length: usize) -> Result<Memory> {
        if length > SHORT {
            return self.allocate(length);
        }
        self.lend(Mapping::over(Words::new(length))).map_err(|failed| failed.error)
    }

    fn open_aperture(&self, argument: &mut ClanAperture, memory: &Memory) -> Result<()> {
        let bytes = argument.length;
        let action = format!("open an aperture of {bytes} bytes");
        let opened =
            self.create::<CLAN_IOC_APERTURE_OPEN, _>(&action, CLAN_SHARE_APERTURES, argument, &[memory]);
        opened.map_err(|error| match error {
            crate::error::Error::System { source, .. } => {
                let other = self.error(action.clone());
                self.memory_error(bytes, action, other)(source)
            }
            error => error,
        })
    }

    fn open_window(&self, argument: &mut ClanWindow) -> Result<()> {
        self.create::<CLAN_IOC_WINDOW_OPEN, _>("open a window", CLAN_SHARE_WINDOW_PAGES, argument, &[])
    }

    fn open_endpoint(&self, argument: &mut ClanEndpoint) -> Result<()> {
        self.create::<CLAN_IOC_ENDPOINT_OPEN, _>("open an endpoint", CLAN_SHARE_ENDPOINTS, argument, &[])
    }

    fn open_events(&self, argument: &mut ClanEvents) -> Result<()> {
        self.create::<CLAN_IOC_EVENTS_OPEN, _>("open an event queue", CLAN_SHARE_ENDPOINTS, argument, &[])
    }

    fn close(&self, what: Object, number: u32) {
        let mut object = UlnObject { index: number, ..UlnObject::default() };
        // A failure means that the card is gone, and the object with it.
        let _ = match what {
            Object::Aperture => {
                self.call::<CLAN_IOC_APERTURE_CLOSE, _>("close an aperture", &mut object, &[])
            }
            Object::Window => self.call::<CLAN_IOC_WINDOW_CLOSE, _>("close a window", &mut object, &[]),
            Object::Endpoint => {
                self.call::<CLAN_IOC_ENDPOINT_CLOSE, _>("close an endpoint", &mut object, &[])
            }
            Object::Events => self.call::<CLAN_IOC_EVENTS_CLOSE, _>("close an event queue", &mut object, &[]),
        };
    }

    fn map_pages(&self, what: &str, offset: u64, length: usize, access: Access) -> Result<Arc<Mapping>> {
        self.map(what, offset, length, access)
    }

    fn wait(&self, argument: &mut ClanWait) -> Result<()> {
        self.call::<CLAN_IOC_WAIT, _>("wait at an endpoint", argument, &[])
    }

    fn wait_for_events(&self, argument: &mut ClanEventsWait) -> Result<()> {
        self.call::<CLAN_IOC_EVENTS_WAIT, _>("wait at an event queue", argument, &[])
    }

    fn send(&self, argument: &mut ClanSend) -> Result<()> {
        self.call::<CLAN_IOC_SEND, _>("send a message", argument, &[])
    }

    fn set_peer(&self, argument: &mut ClanPeer) -> Result<()> {
        self.call::<CLAN_IOC_PEER, _>("name the peer of an endpoint", argument, &[])
    }

    fn set_events(&self, argument: &mut ClanEventsOf) -> Result<()> {
        self.call::<CLAN_IOC_EVENTS_OF, _>("choose the event queue of an endpoint", argument, &[])
    }

    fn kick(&self, argument: &mut ClanKick) -> Result<()> {
        self.call::<CLAN_IOC_KICK, _>("have DMA requests carried out", argument, &[])
    }

    fn file(&self) -> QueueFile<'_> {
        Node::file(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_requested_length_and_are_aligned() {
        for length in [1, 7, 8, 9, 1000, SHORT] {
            let mapping = Mapping::over(Words::new(length));
            assert_eq!((mapping.length(), mapping.address() % 8), (length, 0));
            let mut bytes = vec![1; length];
            mapping.read(0, &mut bytes);
            assert!(bytes.iter().all(|byte| *byte == 0));
        }
    }
}
