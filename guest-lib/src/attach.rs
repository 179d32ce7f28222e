//! Attachments: the ways to reach a card. A card is reached through the driver, or directly through
//! its vfio-user socket. A program can also implement its own attachment.
//!
//! [`CardAttachment`] has the operations of any card, [`Attachment`] those that only a Hamlyn card
//! has.

/// Structures shared by driver and library, for custom attachments.
pub use hamlyn_abi::uapi;
/// Mapped memory, for custom attachments.
pub use hamlyn_sys::Mapping;
/// Mapped structures of the data path, for custom attachments.
pub use hamlyn_sys::hamlyn::window;

pub use crate::core::attach::{CardAttachment, ConnectionParts, ExpressParts, ListenerParts, QueueFile};
/// A card of any model, by any attachment. Each model names its own type.
pub use crate::core::card::Card;
pub use crate::core::device::Node;
pub use crate::core::doorbell::Doorbell;
pub use crate::core::model::{Model, Shared};
pub use crate::hamlyn::attach::{Attachment, QueueParts, QueueWait, TerminusParts};
pub use crate::hamlyn::device::DeviceAttachment;
#[cfg(feature = "socket")]
pub use crate::hamlyn::socket::SocketAttachment;
