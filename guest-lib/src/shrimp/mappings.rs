//! The driver's mappings of a send buffer: one for each export of its destination.

use std::sync::Arc;

use hamlyn_abi::shrimp::uapi::*;
use hamlyn_abi::uapi::UlnObject;
use hamlyn_sys::{Access, Mapping};
use rustix::io::Errno;

use super::handle::Handle;
use super::model::Shrimp;
use super::own_memory::Span;
use super::pieces::Piece;
use super::receive_buffer::refused;
use super::refusals::{errno, explain};
use crate::core::device::Node;
use crate::core::place::PAGE;
use crate::error::Result;

/// The mappings of a send buffer. Dropping this unmaps them.
#[derive(Debug)]
pub(super) struct Mappings {
    node: Arc<Node<Shrimp>>,
    made: Vec<ShrimpMap>,
    /// Size of the pages that each mapping touches, in bytes.
    sizes: Vec<usize>,
}

impl Mappings {
    /// Maps memory to the bytes of a receive buffer from `offset` on, in this `SHRIMP_MODE_*`. The
    /// caller has checked the range.
    pub(super) fn make(
        node: &Arc<Node<Shrimp>>,
        memory: &Span,
        handle: &Handle,
        offset: u64,
        mode: u32,
    ) -> Result<Self> {
        let mut mappings = Self { node: node.clone(), made: Vec::new(), sizes: Vec::new() };
        let mut flags = SHRIMP_MAP_WITHDRAWABLE;
        for argument in arguments(memory, handle, offset, mode) {
            let mut made = ShrimpMap { mode: mode | flags, ..argument };
            let mut asked = mappings.ask(memory, &mut made);
            let is_first = mappings.made.is_empty();
            if is_first && matches!(&asked, Err(error) if errno(error) == Some(Errno::INVAL)) {
                // An older driver pins the other host's pages.
                flags = 0;
                made.mode = mode;
                asked = mappings.ask(memory, &mut made);
            }
            asked?;
            let place = made.address as usize % PAGE;
            mappings.sizes.push((place + made.length as usize).next_multiple_of(PAGE));
            mappings.made.push(made);
        }
        Ok(mappings)
    }

    fn ask(&self, memory: &Span, made: &mut ShrimpMap) -> Result<()> {
        let (node, export, end) = (made.node, made.export, made.offset + made.length);
        let action = format!("map {} bytes to export {export} of host {node}", made.length);
        let asked =
            self.node.create::<SHRIMP_IOC_MAP, _>(&action, SHRIMP_SHARE_MAPPINGS, made, &[memory.memory()]);
        asked.map_err(|error| refused(&self.node, made.length, action, explain(node, export, end, error)))
    }

    pub(super) fn commands(&self) -> Result<Arc<Mapping>> {
        self.map("command pages", |made| made.commands_offset)
    }

    pub(super) fn window(&self) -> Result<Arc<Mapping>> {
        self.map("window pages", |made| made.window_offset)
    }

    /// Maps the memory's pages again, if the driver can withdraw them temporarily.
    pub(super) fn seen(&self) -> Result<Option<Arc<Mapping>>> {
        if self.made.iter().any(|made| made.mode & SHRIMP_MAP_WITHDRAWABLE == 0) {
            return Ok(None);
        }
        self.map("a mapping's memory", |made| made.commands_offset + SHRIMP_MEMORY_OFFSET).map(Some)
    }

    /// Maps the pages of all mappings at an offset, contiguously.
    fn map(&self, what: &str, offset: impl Fn(&ShrimpMap) -> u64) -> Result<Arc<Mapping>> {
        let parts: Vec<_> = self.made.iter().map(offset).zip(self.sizes.iter().copied()).collect();
        self.node.map_parts(what, &parts, Access::ReadWrite)
    }

    /// Returns `SHRIMP_STATE_*` of the buffer, and the export that it is about. If a mapping has
    /// ended, it is that of the first such mapping.
    pub(super) fn state(&self) -> Result<(u32, u32)> {
        let mut found = (SHRIMP_STATE_MAPPED, 0);
        for made in &self.made {
            let mut state = ShrimpState { mapping: made.mapping, ..ShrimpState::default() };
            self.node.call::<SHRIMP_IOC_STATE, _>("ask how a mapping stands", &mut state, &[])?;
            found = (state.state, made.export);
            if state.state != SHRIMP_STATE_MAPPED {
                break;
            }
        }
        Ok(found)
    }
}

impl Drop for Mappings {
    fn drop(&mut self) {
        for made in &self.made {
            let mut object = UlnObject { index: made.mapping, ..UlnObject::default() };
            // A failure means that the card is gone, and the mapping with it.
            let _ = self.node.call::<SHRIMP_IOC_UNMAP, _>("end a mapping", &mut object, &[]);
        }
    }
}

/// Returns the arguments for the driver, one for each export.
fn arguments(memory: &Span, handle: &Handle, offset: u64, mode: u32) -> impl Iterator<Item = ShrimpMap> {
    let (node, mut address) = (handle.node, memory.card_address());
    handle.pieces(offset, memory.len() as u64).map(move |Piece { export, key, offset, length }| {
        let argument = ShrimpMap { address, length, key, offset, node, export, mode, ..ShrimpMap::default() };
        address += length;
        argument
    })
}

#[cfg(test)]
mod tests {
    use hamlyn_abi::shrimp::entry::SHRIMP_MODE_SINGLE;

    use super::super::own_memory::OwnMemory;
    use super::*;
    use crate::core::lend::Pages;

    fn asked(own: &OwnMemory, range: std::ops::Range<usize>, handle: &Handle, offset: u64) -> Vec<[u64; 4]> {
        let span = own.span(range).unwrap();
        let each = arguments(&span, handle, offset, SHRIMP_MODE_SINGLE);
        each.map(|map| [map.address - own.address(), map.length, map.export.into(), map.offset]).collect()
    }

    #[test]
    fn adjacent_ranges_of_page_map_separately() {
        let own = OwnMemory::new(Pages::new(2 * PAGE)).unwrap();
        let (one, other) = (Handle::new(1, 5, 50, 8192), Handle::new(2, 6, 60, 8192));
        assert_eq!(asked(&own, 0..5000, &one, 0), [[0, 5000, 5, 0]]);
        assert_eq!(asked(&own, 5000..8192, &other, 904), [[5000, 3192, 6, 904]]);
    }

    #[test]
    fn more_than_4_mib_needs_several_mappings() {
        const MIB: usize = 1 << 20;
        let own = OwnMemory::new(Pages::new(11 * MIB)).unwrap();
        let exports = [(5, 50), (6, 60), (7, 70)].into_iter();
        let handle = Handle::of_exports(1, 100, 10 * MIB as u64, exports);
        let limit = SHRIMP_MAX_BUFFER;
        let rest = 10 * MIB as u64 - (limit - 100) - limit;
        assert_eq!(
            asked(&own, 100..100 + 10 * MIB, &handle, 0),
            [[100, limit - 100, 5, 0], [limit, limit, 6, 0], [2 * limit, rest, 7, 0]]
        );
    }
}
