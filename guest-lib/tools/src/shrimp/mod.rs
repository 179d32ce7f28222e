//! SHRIMP cards.

mod end;
mod info;

pub(crate) use end::ShrimpEnd;
pub(crate) use info::facts;
