//! Access rights to apertures.

use hamlyn::clan::Rights;

use crate::call::Failure;

/// Other processes may read an aperture.
pub const CLAN_RIGHT_READ: u32 = 1;
/// Other processes may write to an aperture.
pub const CLAN_RIGHT_WRITE: u32 = 2;

pub(crate) fn rights_of(number: u32) -> Result<Rights, Failure> {
    let all = [Rights::None, Rights::Read, Rights::Write, Rights::ReadWrite];
    let found = all.into_iter().find(|rights| rights_number(*rights) == number);
    let limit = CLAN_RIGHT_READ | CLAN_RIGHT_WRITE;
    found.ok_or_else(|| Failure::argument(format!("rights {number:#x} are unknown (limit {limit:#x})")))
}

pub(crate) fn rights_number(rights: Rights) -> u32 {
    match rights {
        Rights::None => 0,
        Rights::Read => CLAN_RIGHT_READ,
        Rights::Write => CLAN_RIGHT_WRITE,
        Rights::ReadWrite => CLAN_RIGHT_READ | CLAN_RIGHT_WRITE,
    }
}
