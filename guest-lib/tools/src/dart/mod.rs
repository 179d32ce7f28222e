//! DART cards.

mod end;
mod info;

pub(crate) use end::DartEnd;
pub(crate) use info::facts;
