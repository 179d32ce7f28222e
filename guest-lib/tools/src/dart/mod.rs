//! DART cards.

mod info;

pub(crate) use info::facts;
