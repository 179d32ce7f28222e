//! The bytes of an endpoint, and the effects of WRITE and READ on them.

/// Size of a block, in bytes. A mask has one bit for each 4.
pub(crate) const BLOCK: usize = 32;

pub(crate) struct Endpoint(pub(crate) Vec<u8>);

impl Endpoint {
    /// Returns each selected byte of a block at an address: its place in the block, and in memory.
    /// `None` is a trap.
    fn selected(&self, address: u64, mask: u8) -> Option<Vec<(usize, usize)>> {
        if address % 4 != 0 {
            return None;
        }
        let start = usize::try_from(address).ok()?;
        let end = start.checked_add(BLOCK)?;
        let pairs: Vec<_> = (0..BLOCK).zip(start..end).filter(|(at, _)| mask >> (at / 4) & 1 == 0).collect();
        pairs.iter().all(|(_, place)| *place < self.0.len()).then_some(pairs)
    }

    pub(crate) fn write(&mut self, address: u64, mask: u8, data: [u8; BLOCK]) -> Option<()> {
        for (at, place) in self.selected(address, mask)? {
            self.0[place] = data[at];
        }
        Some(())
    }

    pub(crate) fn read(&self, address: u64, mask: u8) -> Option<[u8; BLOCK]> {
        let mut data = [0; BLOCK];
        for (at, place) in self.selected(address, mask)? {
            data[at] = self.0[place];
        }
        Some(data)
    }
}
