//! Well-known slots (section 6.3), through which the operating systems of two hosts communicate, to
//! set connections up and monitor them.
//!
//! Slot `h` of every host, for `h` below [`ULN_WELL_KNOWN_SLOTS`], is privileged and accepts
//! only packets of the operating system of host `h`. It is in paranoid one-shot mode, so a message
//! stays unchanged until it has been read. Its message area has [`ULN_WELL_KNOWN_PLACES`] places
//! for messages. It has that many metadata entries for messages, and as many again for
//! acknowledgements, which have no data. A message with sequence number `s` goes to place and entry
//! `s % ULN_WELL_KNOWN_PLACES`. Its metadata is a `UlnWire`; its data is name and private
//! data. The card never looks at any of this. The protocol is in `docs/connections.md`.

/// Number of hosts whose operating systems can communicate: those with ids below it.
pub const ULN_WELL_KNOWN_SLOTS: u32 = 64;
/// Places for messages in a well-known slot: the maximum number in flight without acknowledgement.
pub const ULN_WELL_KNOWN_PLACES: u32 = 4;
/// Bytes of a place.
pub const ULN_WELL_KNOWN_PLACE_SIZE: u32 = 512;
/// The key of every entry. It is not a secret, because the slots accept only packets of operating
/// systems.
pub const ULN_WELL_KNOWN_KEY: u64 = 0x6b6e_6f77_6e6c_6c65;
