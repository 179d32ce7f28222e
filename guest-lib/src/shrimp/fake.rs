//! A send buffer without a card, for tests.

use std::sync::Arc;

use hamlyn_sys::Mapping;

use super::outlet::Outlet;
use super::own_memory::Span;
use crate::core::memory::Memory;
use crate::core::place::PAGE;

/// Pages without a card: stored values stay there.
pub(super) struct Pages {
    pub(super) memory: Arc<Memory>,
    pub(super) seen: Arc<Mapping>,
    pub(super) commands: Arc<Mapping>,
    pub(super) window: Arc<Mapping>,
    pub(super) outlet: Outlet,
}

/// Creates an outlet of `length` bytes that begins at `place` of its page.
pub(super) fn outlet(place: usize, length: usize, snoops: bool, mode: u32) -> Pages {
    let memory = Arc::new(Memory::anonymous(place + length).unwrap());
    outlet_over(Span::new(memory, place, length), snoops, mode)
}

/// Creates an outlet over existing memory.
pub(super) fn outlet_over(span: Span, snoops: bool, mode: u32) -> Pages {
    let size = (span.place() + span.len()).next_multiple_of(PAGE);
    let [seen, commands, window] = [(); 3].map(|()| Arc::new(Mapping::anonymous(size).unwrap()));
    let memory = span.memory().clone();
    let outlet = Outlet::new(span, Some(seen.clone()), commands.clone(), window.clone(), mode);
    outlet.set_seen(snoops);
    Pages { memory, seen, commands, window, outlet }
}
