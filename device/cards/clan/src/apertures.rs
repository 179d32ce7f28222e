//! Apertures (section 3.2). They include a protection on the receive path that the paper's card did
//! not have.

use std::collections::HashMap;

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::ClanOpenAperture;
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_abi::family::command::{ULN_STATUS_BAD_ADDRESS, ULN_STATUS_BAD_VALUE, ULN_STATUS_IN_USE};
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::chassis::table::Table;

use crate::packet::{FROM_SYSTEM, Header, TO_GROUP, WORD};

#[derive(Debug)]
pub(crate) struct Aperture {
    pub(crate) area: Area,
    key: u64,
    pub(crate) owner: u32,
    flags: u32,
    group: u32,
}

/// All apertures, and the aperture that is a member of each group.
#[derive(Debug)]
pub(crate) struct Apertures {
    table: Table<Aperture>,
    members: HashMap<u32, u32>,
}

/// The access that a packet requests: its source host, its length in bytes, and whether it writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) source: u16,
    pub(crate) length: u64,
    pub(crate) writes: bool,
}

impl Apertures {
    pub(crate) fn new(size: u32) -> Self {
        Self { table: Table::new(size), members: HashMap::new() }
    }

    /// Returns the groups that this host is a member of, as a bit mask.
    pub(crate) fn groups(&self) -> u64 {
        self.members.keys().fold(0, |groups, group| groups | 1 << group)
    }

    pub(crate) fn open(&mut self, index: u32, body: &ClanOpenAperture) -> Result<(), Refusal> {
        const ALL: u32 = CLAN_APERTURE_READ
            | CLAN_APERTURE_WRITE
            | CLAN_APERTURE_PRIVILEGED
            | CLAN_APERTURE_PARTS
            | CLAN_APERTURE_GROUP;
        self.table.check_vacant(index)?;
        Refusal::unless_zero(body.reserved.into())?;
        let is_member = body.flags & CLAN_APERTURE_GROUP != 0;
        if body.flags & !ALL != 0 || is_member && body.flags != CLAN_APERTURE_GROUP | CLAN_APERTURE_WRITE {
            return Err(Refusal::new(ULN_STATUS_BAD_VALUE, body.flags, ALL));
        }
        if body.group >= if is_member { CLAN_GROUPS } else { 1 } {
            return Err(Refusal::new(ULN_STATUS_BAD_VALUE, body.group, CLAN_GROUPS - 1));
        }
        if is_member && self.members.contains_key(&body.group) {
            return Err(Refusal::new(ULN_STATUS_IN_USE, body.group, 1_u32));
        }
        let area = Area::check(&body.area)?;
        if !area.is_aligned(8) {
            return Err(Refusal::new(ULN_STATUS_BAD_ADDRESS, body.area.first, 8_u32));
        }
        let ClanOpenAperture { key, owner, flags, group, .. } = *body;
        if is_member {
            self.members.insert(group, index);
        }
        self.table.open(index, Aperture { area, key, owner, flags, group });
        Ok(())
    }

    pub(crate) fn close(&mut self, index: u32) -> Result<(), Refusal> {
        let closed = self.table.vacate(index)?;
        if closed.flags & CLAN_APERTURE_GROUP != 0 {
            self.members.remove(&closed.group);
        }
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        self.table.close_all();
        self.members.clear();
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Aperture> {
        self.table.at(index)
    }

    /// Returns an aperture, if it belongs to this owner.
    pub(crate) fn owned(&self, index: u32, owner: u32) -> Option<&Aperture> {
        self.get(index).filter(|aperture| aperture.owner == owner)
    }

    /// Returns the aperture that a packet goes to, and the byte of it. Fails with the reason's
    /// counter.
    pub(crate) fn place(&self, header: &Header, access: Access) -> Result<(u32, u64), ClanStatistic> {
        let (index, aperture) = self.admit(header, access)?;
        let offset = aperture.offset(header.offset.get(), access).ok_or(ClanStatistic::RefusedRange)?;
        Ok((index, offset))
    }

    /// Returns how many bytes of a packet are in words that the aperture has whole. The packet
    /// extends beyond the aperture. Each word is an access of its own: its result must not depend
    /// on where the packet was cut or joined.
    pub(crate) fn fitting(&self, header: &Header, access: Access) -> u64 {
        let offset = header.offset.get();
        let bound = self.admit(header, access).map_or(0, |(_, aperture)| aperture.bound(access.source));
        (bound / WORD * WORD).saturating_sub(offset)
    }

    /// Returns the aperture that a packet names, if this kind of access is allowed. The range of
    /// bytes is not checked.
    fn admit(&self, header: &Header, access: Access) -> Result<(u32, &Aperture), ClanStatistic> {
        let named = header.aperture.get();
        let to_group = header.flags & TO_GROUP != 0;
        let index = if to_group { self.members.get(&named).copied() } else { Some(named) };
        let index = index.ok_or(ClanStatistic::RefusedAperture)?;
        let aperture = self.get(index).filter(|aperture| {
            aperture.key == header.key.get() && (aperture.flags & CLAN_APERTURE_GROUP != 0) == to_group
        });
        let aperture = aperture.ok_or(ClanStatistic::RefusedAperture)?;
        let needed = if access.writes { CLAN_APERTURE_WRITE } else { CLAN_APERTURE_READ };
        let is_system = header.flags & FROM_SYSTEM != 0;
        if aperture.flags & needed == 0 || aperture.flags & CLAN_APERTURE_PRIVILEGED != 0 && !is_system {
            return Err(ClanStatistic::RefusedAccess);
        }
        Ok((index, aperture))
    }
}

impl Aperture {
    /// Returns the number of bytes that a host can reach.
    fn bound(&self, source: u16) -> u64 {
        if self.flags & CLAN_APERTURE_PARTS == 0 {
            return self.area.length();
        }
        let part = u64::from(CLAN_PART);
        self.area.length().saturating_sub(u64::from(source) * part).min(part)
    }

    /// Returns the byte of the aperture's memory that a packet's first byte goes to. Returns `None`
    /// if not all bytes of the packet are within the aperture.
    fn offset(&self, offset: u64, access: Access) -> Option<u64> {
        let in_parts = self.flags & CLAN_APERTURE_PARTS != 0;
        let start = if in_parts {
            let end = offset.checked_add(access.length)?;
            if end > CLAN_PART.into() {
                return None;
            }
            u64::from(access.source) * u64::from(CLAN_PART) + offset
        } else {
            offset
        };
        self.area.contains(start, access.length).then_some(start)
    }
}
