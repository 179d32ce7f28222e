//! Apertures (section 3.2): what a descriptor says, and what an aperture allows.
//!
//! The paper's card gave no protection on the receive path, and wanted contiguous memory; this is
//! what its future revisions were to mend. An aperture is a list of pages, with a bound in bytes.
//! Each packet for it carries its number and key, and the receiving card looks at both.

/// An aperture that others may read.
pub const CLAN_APERTURE_READ: u32 = 1;
/// An aperture that others may write to.
pub const CLAN_APERTURE_WRITE: u32 = 2;
/// An aperture that only operating systems may reach: packets of privileged endpoints and windows
/// alone.
pub const CLAN_APERTURE_PRIVILEGED: u32 = 4;
/// An aperture with a part of [`CLAN_PART`] bytes for each host: byte 0 of what host `h` reaches is
/// byte `h * CLAN_PART`.
pub const CLAN_APERTURE_PARTS: u32 = 8;
/// An aperture that is a member of a group, under the group's key: it takes what is written to the
/// group.
pub const CLAN_APERTURE_GROUP: u32 = 16;

/// Bytes of a host's part of an aperture with [`CLAN_APERTURE_PARTS`].
pub const CLAN_PART: u32 = 4096;
/// How many groups there are: multicast goes to each host with a member (section 2.5).
pub const CLAN_GROUPS: u32 = 64;
/// As the host of a descriptor: this plus the number of a group. Such an aperture is written to,
/// and never read; its number is 0.
pub const CLAN_GROUP_HOST: u32 = 0xff00;
