//! Hamlyn cards.

mod end;
mod info;

pub(crate) use end::HamlynEnd;
pub(crate) use info::facts;
