//! Pages that two processes on two hosts share.

use std::ffi::c_void;

use hamlyn::attach::Attachment;
use hamlyn::express::{ExpressArea, ExpressView, Pages};

use crate::call::Failure;
use crate::card::hamlyn_card;
use crate::exported::{Out, exported};

/// Pages that this process has created for a process on another host.
pub struct hamlyn_express_area(ExpressArea<dyn Attachment>);

/// Pages that a process on another host has created, mapped into this process.
pub struct hamlyn_express_view(ExpressView<dyn Attachment>);

/// State of the express memory shared with a host.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_express_info {
    /// Number of bytes that the two hosts share. Half of them are for this host to allocate. 0 if
    /// there are none.
    pub part: u64,
    /// Number of pages that this host can allocate.
    pub pages: u32,
    /// Number of these pages that areas use.
    pub used: u32,
    /// Number of pages released by areas, until the other host confirms that they are not mapped
    /// there.
    pub leaving: u32,
    /// Number of the other host's pages that are mapped here.
    pub viewed: u32,
    /// Number of pages in areas of this user.
    pub held: u32,
    /// Number of pages that this user may currently hold.
    pub limit: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 4],
}

/// Returns the address of the memory of an area or a view.
fn memory(pages: &Pages) -> Result<*mut c_void, Failure> {
    Ok(pages.bytes(0, pages.len())?.as_ptr().cast_mut().cast())
}

exported! {
/// Stores the state of the express memory shared with a host. Fails with -EOPNOTSUPP if this card
/// has no express memory.
fn hamlyn_express_get_info(card: &hamlyn_card, host: u32, info: Out<hamlyn_express_info>) {
    let found = card.0.express(host)?;
    info.store(hamlyn_express_info {
        part: found.part,
        pages: found.pages,
        used: found.used,
        leaving: found.leaving,
        viewed: found.viewed,
        held: found.held,
        limit: found.limit,
        reserved: [0; 4],
    })
}

/// Creates zeroed pages for a process on another host. `length` is a multiple of 4096. Fails with
/// -EHOSTUNREACH if there is no express memory with that host. Fails with -ENOSPC if too few pages
/// are free, and with -EDQUOT if this would exceed the user's share.
fn hamlyn_express_area_create(
    card: &hamlyn_card,
    host: u32,
    length: usize,
    area: Out<Box<hamlyn_express_area>>,
) {
    area.store(hamlyn_express_area(card.0.create_express_area(host, length)?))
}

/// Unmaps the pages from both processes. They are reused only after the other host has confirmed
/// that. NULL is a no-op.
fn hamlyn_express_area_destroy(area: Box<hamlyn_express_area>);

/// Stores the number and the key with which a process on the other host can map the pages.
fn hamlyn_express_area_name(area: &hamlyn_express_area, number: Out<u32>, key: Out<u64>) {
    number.store(area.0.number());
    key.store(area.0.key())
}

/// Stores the address of an area's memory, valid until the area is destroyed, and its number of
/// bytes. The other process may change any byte at any time: load a word once, check it, then use
/// it.
fn hamlyn_express_area_memory(area: &hamlyn_express_area, memory: Out<*mut c_void>, length: Out<usize>) {
    length.store(area.0.len());
    memory.store(self::memory(&area.0)?)
}

/// Maps pages that a process on another host has created, once. Waits for that host's answer. Fails
/// with -EACCES if there are no pages of that number or the key does not match, and with -EBUSY if
/// they are already mapped. Fails with -EHOSTUNREACH if there is no express memory with that host.
fn hamlyn_express_view_map(
    card: &hamlyn_card,
    host: u32,
    number: u32,
    key: u64,
    view: Out<Box<hamlyn_express_view>>,
) {
    view.store(hamlyn_express_view(card.0.map_express_area(host, number, key)?))
}

/// Unmaps the pages. NULL is a no-op.
fn hamlyn_express_view_destroy(view: Box<hamlyn_express_view>);

/// Stores the address of a view's memory, valid until the view is destroyed, and its number of
/// bytes. Once the other end is gone, the view shows memory that no other process sees.
fn hamlyn_express_view_memory(view: &hamlyn_express_view, memory: Out<*mut c_void>, length: Out<usize>) {
    length.store(view.0.len());
    memory.store(self::memory(&view.0)?)
}
}

/// Orders all earlier stores before all later loads, also as seen by the other machine. An emulated
/// processor does too little for C's atomic_thread_fence().
#[unsafe(no_mangle)]
pub extern "C" fn hamlyn_express_barrier() {
    Pages::barrier();
}
