//! The contract between driver and library: the ioctls of `/dev/hamlynN`, and of any other card's
//! `/dev/<model>N`.
//!
//! One open file is one protection domain. An object that it creates belongs to it alone, and is
//! destroyed when the file is closed or its process dies. Every structure has reserved fields. They
//! must be zero on input (otherwise the call fails with `EINVAL`), and are zero on output. An
//! unknown request code fails with `ENOTTY`. The library checks [`UlnQuery::capabilities`]
//! before it uses anything newer than version 2.
//!
//! Errors that all calls share:
//! - `EFAULT`: the structure cannot be read or written.
//! - `EINVAL`: a field is invalid.
//! - `ENODEV`: the card is gone or does not answer.
//! - `ENOSPC`: the card's table is full.
//! - `ENOENT`: not an object of this file.
//! - `ENOMEM`: out of memory, or the pinned memory of the caller's user would exceed the caller's
//!   `RLIMIT_MEMLOCK`.
//! - `EOPNOTSUPP`: the memory cannot be shared with the card, because the machine would have to
//!   copy it.
//! - `EDQUOT`: the user that opened the file holds as much of the card as one user may
//!   ([`UlnShareQuery`]).
//!
//! | part | what any card's driver does |
//! |---|---|
//! | [`call`] | has a version, and call numbers for each model |
//! | [`query`] | describes the card |
//! | [`object`] | has objects, which calls name and wait for |
//! | [`check`] | has counters and self-tests |
//! | [`share`] | limits each user to a share |
//! | [`connection`] | has names and connections |
//! | [`express`] | has memory that processes of two hosts share |
//!
//! The rest belongs to a model, in `uapi.rs` of its folder. The Hamlyn card's part is re-exported
//! here, where it used to be.

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
