//! Messages between the drivers of two hosts about connections, of the card's own kind
//! (`ULN_WIRE_CARD`). `reason` is the message's kind, `from` the sender's connection, and `to`
//! the receiver's.
//!
//! Messages of operating systems use the connections below [`DART_FIRST_CONNECTION`], each with the
//! host of its number. They travel as [records](crate::kernel::wire::UlnRecord), which a
//! WRITE_MULTIPLE puts into the sender's page of the receiver's endpoint [`DART_SYSTEM_ENDPOINT`].

/// First connection of processes. Those below it belong to the operating systems, each with the
/// host of its number.
pub const DART_FIRST_CONNECTION: u32 = 64;
/// Number of the endpoint for operating systems' messages. It has a page for each host; the memory
/// behind these pages is for this host's outgoing messages.
pub const DART_SYSTEM_ENDPOINT: u32 = 0;
/// The key of operating systems' connections, which is not a secret.
pub const DART_SYSTEM_KEY: u64 = 0x5452_4144_5359_5354;

/// Connection `from`, the other end of `to`, has ended. Followed by the key of `to`, 8 bytes.
pub const DART_SAY_GONE: u32 = 1;
