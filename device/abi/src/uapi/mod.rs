//! The contract between driver and library: the ioctls of `/dev/hamlynN`, and of any other card's
//! `/dev/<model>N`.
//!
//! One open file is one protection domain: what it creates belongs to it alone and goes when it is
//! closed or its process dies. Every structure has reserved fields; they must be zero going in
//! (`EINVAL` otherwise) and come out zero. A request code that the driver does not know is answered
//! `ENOTTY`; the library asks [`HamlynQuery::capabilities`] before it uses anything newer than
//! version 2.
//!
//! Errors all calls share: `EFAULT` (the structure cannot be read or written), `EINVAL` (a field
//! that means nothing), `ENODEV` (the card is gone or does not answer), `ENOSPC` (the card's table
//! is full), `ENOENT` (not an object of this file), `ENOMEM` (also: what the caller's user has
//! pinned would pass the caller's `RLIMIT_MEMLOCK`), `EOPNOTSUPP` (the memory cannot be shared with
//! the card: the machine would have to copy it), `EDQUOT` (the user who opened the file holds as
//! much of the card as one user may: [`HamlynShareQuery`]).
//!
//! | part | what any card's driver does |
//! |---|---|
//! | [`call`] | the version, and which numbers are whose |
//! | [`query`] | says what the card is |
//! | [`object`] | has objects that are named, and waited for |
//! | [`check`] | counters, self-tests |
//! | [`share`] | shares of users |
//! | [`connection`] | names and connections |
//! | [`express`] | memory that processes of two hosts share |
//!
//! The rest is a model's own, in `uapi.rs` of its folder. The Hamlyn card's can be had from here,
//! too, where it once was.

pub mod call;
pub mod check;
pub mod connection;
pub mod express;
pub mod object;
pub mod query;
pub mod share;

pub use self::call::*;
pub use self::check::*;
pub use self::connection::*;
pub use self::express::*;
pub use self::object::*;
pub use self::query::*;
pub use self::share::*;
pub use crate::hamlyn::uapi::*;
