//! CLAN cards.

mod end;
mod info;

pub(crate) use end::ClanEnd;
pub(crate) use info::facts;
