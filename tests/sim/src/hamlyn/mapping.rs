//! Memory that the library has mapped, from the engine's view.

use std::cell::RefCell;
use std::sync::Arc;

use hamlyn_sys::Mapping;

use crate::engine::shared::{Pool, Shared, recycled};
use crate::engine::violation::Violation;

impl Shared for Mapping {
    fn length(&self) -> usize {
        self.length()
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        self.read(at, into);
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.write(at, bytes);
    }

    fn load(&self, at: usize) -> u32 {
        self.load_u32_acquire(at)
    }

    fn store(&self, at: usize, value: u32) {
        self.store_u32_release(at, value);
    }
}

/// Returns a mapping that an earlier simulation may have used, with arbitrary contents.
pub(super) fn mapping(length: u64) -> Result<Arc<Mapping>, Violation> {
    thread_local! {
        static MAPPINGS: Pool<Mapping> = const { RefCell::new(Vec::new()) };
    }
    MAPPINGS.with(|mappings| {
        recycled(mappings, length, |length| Mapping::anonymous(length).map_err(Violation::new))
    })
}
