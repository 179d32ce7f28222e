//! The Hamlyn card: termini, slots, tickets and queues (section 3 of the paper), and the protocols
//! on top of them.

#[cfg(feature = "tokio")]
pub mod asynchronous;
pub(crate) mod attach;
pub(crate) mod card;
pub(crate) mod channel;
mod cursor;
pub(crate) mod device;
pub(crate) mod errors;
pub(crate) mod fetch;
pub(crate) mod group;
pub(crate) mod manager;
pub(crate) mod message_area;
pub(crate) mod metadata;
pub(crate) mod notification;
pub mod protocol;
mod record;
pub(crate) mod request;
pub(crate) mod seed;
pub(crate) mod send_buffer;
pub(crate) mod slot;
#[cfg(feature = "socket")]
pub(crate) mod socket;
pub(crate) mod terminus;
pub(crate) mod ticket;
pub(crate) mod ticket_errors;
mod work_queue;
