//! Parts that any card's library needs: attaching to a card, lending it memory, mapping what it
//! provides, waiting and connecting.
//!
//! This module is independent of the models. Each model has a module beside this one. That module
//! has a trait for the model's driver operations ([`attach::CardAttachment`] is any card's), a
//! [`model::Model`] that tells how its nodes are found, and a [`card::Card`].

pub(crate) mod attach;
pub(crate) mod card;
pub(crate) mod carrier;
pub(crate) mod connection;
pub(crate) mod copies;
pub(crate) mod device;
pub(crate) mod doorbell;
pub(crate) mod error_kind;
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
