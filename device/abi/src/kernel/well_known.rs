//! Well-known slots (section 6.3): how the operating systems of two hosts talk, to set connections
//! up and watch over them.
//!
//! Slot `h` of every host, for `h` below [`HAMLYN_WELL_KNOWN_SLOTS`], is privileged and takes
//! packets of the operating system of host `h` alone. It is in paranoid one-shot mode, so that what
//! has arrived stays as it is until it has been looked at. Its message area has
//! [`HAMLYN_WELL_KNOWN_PLACES`] places for messages; its metadata entries are as many for messages,
//! and as many again for acknowledgements, which have no data. A message with sequence number `s`
//! goes to place and entry `s % HAMLYN_WELL_KNOWN_PLACES`; a `HamlynWire` is its metadata, name and
//! private data its data. The card never looks at any of this. The protocol is in
//! `docs/connections.md`.

/// How many hosts the operating systems of can talk: those with the ids below it.
pub const HAMLYN_WELL_KNOWN_SLOTS: u32 = 64;
/// Places for messages in a well-known slot: how many may be on their way unacknowledged.
pub const HAMLYN_WELL_KNOWN_PLACES: u32 = 4;
/// Bytes of a place.
pub const HAMLYN_WELL_KNOWN_PLACE_SIZE: u32 = 512;
/// The key of every entry. It is no secret: the slots take packets of operating systems alone.
pub const HAMLYN_WELL_KNOWN_KEY: u64 = 0x6b6e_6f77_6e6c_6c65;
