//! What the drivers of two hosts say to each other about connections, in messages of the card's own
//! (`HAMLYN_WIRE_CARD`): `reason` says what it is, `from` is the sender's connection and `to` the
//! receiver's.
//!
//! All messages of operating systems go by the connections below [`DART_FIRST_CONNECTION`], each
//! with the host of its number, as [records](crate::kernel::wire::HamlynRecord) that a
//! WRITE_MULTIPLE puts into the sender's page of the receiver's endpoint [`DART_SYSTEM_ENDPOINT`].

/// Connections of processes begin here: those below are the operating systems', each with the host
/// of its number.
pub const DART_FIRST_CONNECTION: u32 = 64;
/// The number of the endpoint for operating systems' messages: a page for each host, and what is
/// behind them is the sender's.
pub const DART_SYSTEM_ENDPOINT: u32 = 0;
/// The key of operating systems' connections, which is no secret.
pub const DART_SYSTEM_KEY: u64 = 0x5452_4144_5359_5354;

/// Connection `from`, the other end of `to`, is no more. Behind it: the key of `to`, 8 bytes.
pub const DART_SAY_GONE: u32 = 1;
