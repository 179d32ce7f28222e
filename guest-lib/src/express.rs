//! Express memory (`docs/express.md`): pages that processes of two hosts share, and access by loads
//! and stores alone.
//!
//! [`Card::create_express_area`](crate::Card::create_express_area) and
//! [`Card::map_express_area`](crate::Card::map_express_area) give the pages ([`Pages`]), for
//! applications that use a layout of their own in them. [`crate::channel`] sends messages through
//! such pages.

pub use crate::core::express::pages::{ExpressArea, ExpressView, PAGE, Pages};
pub use crate::core::express::ring::Nonsense;
