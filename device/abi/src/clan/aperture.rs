//! Apertures (section 3.2): what a descriptor names, and what an aperture allows.
//!
//! The paper's card gave no protection on the receive path, and needed contiguous memory; its
//! future revisions were to change both. Here an aperture is a list of pages with a bound in bytes.
//! Each packet for it carries its number and key, and the receiving card checks both.

/// Aperture flag: allows remote reads.
pub const CLAN_APERTURE_READ: u32 = 1;
/// Aperture flag: allows remote writes.
pub const CLAN_APERTURE_WRITE: u32 = 2;
/// Aperture flag: only operating systems may access it. Packets must come from privileged endpoints
/// and windows.
pub const CLAN_APERTURE_PRIVILEGED: u32 = 4;
/// Aperture flag: it has a part of [`CLAN_PART`] bytes for each host. Byte 0 that host `h` accesses
/// is byte `h * CLAN_PART`.
pub const CLAN_APERTURE_PARTS: u32 = 8;
/// Aperture flag: it is a member of a group, under the group's key, and receives what is written to
/// the group.
pub const CLAN_APERTURE_GROUP: u32 = 16;

/// Bytes of each host's part of an aperture with [`CLAN_APERTURE_PARTS`].
pub const CLAN_PART: u32 = 4096;
/// Number of groups. Multicast goes to each host with a member (section 2.5).
pub const CLAN_GROUPS: u32 = 64;
/// In the host field of a descriptor: this plus the number of a group. Such an aperture is written
/// to and never read; its number is 0.
pub const CLAN_GROUP_HOST: u32 = 0xff00;
