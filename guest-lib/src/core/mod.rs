//! What any card's library needs: to attach to a card, to lend it memory, to map what it offers, to
//! wait, to connect.
//!
//! Nothing here knows a model: each has a module beside this one, with a trait of its own for what
//! its driver does ([`attach::CardAttachment`] is any card's), a [`model::Model`] that says how its
//! nodes are found, and a [`card::Card`].

pub(crate) mod attach;
pub(crate) mod card;
pub(crate) mod connection;
pub mod copies;
pub(crate) mod device;
pub(crate) mod doorbell;
pub(crate) mod express;
pub(crate) mod free;
pub(crate) mod key;
pub(crate) mod lend;
pub(crate) mod loss;
pub(crate) mod memory;
pub(crate) mod model;
pub(crate) mod place;
pub(crate) mod polling;
pub(crate) mod remote;
#[cfg(feature = "socket")]
pub(crate) mod socket;
pub(crate) mod text;
pub(crate) mod waiting;
pub(crate) mod watch;
