//! A store that QEMU reports.

use super::api::Api;
use crate::snooper::Access;

/// A store that was just made.
pub(super) struct ReportedStore<'a> {
    pub(super) api: &'a Api,
    /// QEMU's own description of the store.
    pub(super) info: u32,
}

impl Access for ReportedStore<'_> {
    fn width(&self) -> u64 {
        // QEMU makes no store wider than 16 bytes.
        1 << self.api.shift(self.info).min(4)
    }

    fn value(&self) -> [u8; 16] {
        let [low, high] = self.api.value(self.info).words.map(u64::to_le_bytes);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&low);
        bytes[8..].copy_from_slice(&high);
        if self.api.is_big(self.info) {
            // As MOVBE stores it.
            bytes[..self.width() as usize].reverse();
        }
        bytes
    }

    fn physical(&self, address: u64) -> Option<u64> {
        self.api.physical(self.info, address)
    }
}
