//! Memory regions that peers may read or write (fi_mr(3)).

use std::collections::HashMap;

use crate::memory::Area;

/// A registered region.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) area: Area,
    /// Address that peers use for its first byte.
    pub(crate) base: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// The regions of a domain, by key.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    regions: HashMap<u64, Region>,
    last: u64,
}

impl Regions {
    /// Registers a region under a key, or under one that nothing has. Returns the key; `None` if
    /// the key is taken.
    pub(crate) fn insert(&mut self, key: Option<u64>, region: Region) -> Option<u64> {
        let key = match key {
            Some(key) if self.regions.contains_key(&key) => return None,
            Some(key) => key,
            None => {
                // Keys of a program's own choice may be in the way.
                while self.regions.contains_key(&self.last) {
                    self.last += 1;
                }
                self.last
            }
        };
        self.regions.insert(key, region);
        Some(key)
    }

    pub(crate) fn remove(&mut self, key: u64) {
        self.regions.remove(&key);
    }

    /// The memory of a peer's operation. The error is an `errno`.
    pub(crate) fn find(&self, key: u64, place: u64, length: u64, writes: bool) -> Result<Area, i32> {
        let region = self.regions.get(&key).ok_or(crate::abi::FI_ENOKEY)?;
        if !(if writes { region.writable } else { region.readable }) {
            return Err(libc::EACCES);
        }
        let offset = place.checked_sub(region.base).ok_or(libc::EFAULT)?;
        let end = offset.checked_add(length).ok_or(libc::EFAULT)?;
        if end > region.area.len() as u64 {
            return Err(libc::EFAULT);
        }
        Ok(region.area.cut(offset as usize, length as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_outside_a_region_are_refused() {
        let mut bytes = [7_u8; 16];
        let mut regions = Regions::default();
        // SAFETY: the array outlives the regions.
        let area = unsafe { Area::one(bytes.as_mut_ptr(), 16) };
        let region = Region { area, base: 0x1000, readable: true, writable: false };
        let key = regions.insert(None, region).expect("a free key");
        assert_eq!(regions.find(key, 0x1004, 12, false).map(|area| area.len()), Ok(12));
        assert_eq!(regions.find(key, 0x1004, 13, false), Err(libc::EFAULT));
        assert_eq!(regions.find(key, 0xfff, 1, false), Err(libc::EFAULT));
        assert_eq!(regions.find(key, u64::MAX, u64::MAX, false), Err(libc::EFAULT));
        assert_eq!(regions.find(key, 0x1000, 1, true), Err(libc::EACCES));
        regions.remove(key);
        assert_eq!(regions.find(key, 0x1000, 1, false), Err(crate::abi::FI_ENOKEY));
    }
}
