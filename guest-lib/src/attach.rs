//! The two ways to reach a card: through the driver, or straight through the card's vfio-user
//! socket; and what it takes to make one of one's own.
//!
//! [`CardAttachment`] is what any card does, [`Attachment`] what a Hamlyn card does besides.

/// What driver and library agree on, for an attachment of one's own.
pub use hamlyn_abi::uapi;
/// Mapped memory, for an attachment of one's own.
pub use hamlyn_sys::Mapping;
/// The mapped structures of the data path, for an attachment of one's own.
pub use hamlyn_sys::hamlyn::window;

pub use crate::core::attach::{CardAttachment, ConnectionParts, ListenerParts, QueueFile};
/// A card of any model, by whatever reaches it: each model names its own.
pub use crate::core::card::Card;
pub use crate::core::device::Node;
pub use crate::core::doorbell::Doorbell;
pub use crate::core::express::pages::ExpressParts;
pub use crate::core::model::{Model, Shared};
pub use crate::hamlyn::attach::{Attachment, QueueParts, QueueWait, TerminusParts};
pub use crate::hamlyn::device::DeviceAttachment;
#[cfg(feature = "socket")]
pub use crate::hamlyn::socket::SocketAttachment;
