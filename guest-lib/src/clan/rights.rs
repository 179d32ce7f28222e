//! Access rights to apertures.

use hamlyn_abi::clan::aperture::{CLAN_APERTURE_READ, CLAN_APERTURE_WRITE};

/// Access rights of other hosts to an aperture. The owner's own DMA requests may always use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rights {
    /// No access: the aperture is only for the owner's DMA requests.
    None,
    /// Other hosts may read it.
    Read,
    /// Other hosts may write to it.
    Write,
    /// Other hosts may read it and write to it.
    ReadWrite,
}

impl Rights {
    /// Returns the rights as `CLAN_APERTURE_READ` and `CLAN_APERTURE_WRITE`.
    pub(super) fn flags(self) -> u32 {
        match self {
            Rights::None => 0,
            Rights::Read => CLAN_APERTURE_READ,
            Rights::Write => CLAN_APERTURE_WRITE,
            Rights::ReadWrite => CLAN_APERTURE_READ | CLAN_APERTURE_WRITE,
        }
    }

    pub(super) fn of_flags(flags: u32) -> Option<Self> {
        let all = [Rights::None, Rights::Read, Rights::Write, Rights::ReadWrite];
        all.into_iter().find(|rights| rights.flags() == flags)
    }
}
