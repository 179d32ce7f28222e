//! Pages alone, which two processes of two hosts share.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::attach::Attachment;
use hamlyn::express::{ExpressArea, ExpressView, Pages};

use crate::call::{Failure, call, free, given, store};
use crate::card::hamlyn_card;

/// Pages that this process has made for a process of another host.
pub struct hamlyn_express_area(ExpressArea<dyn Attachment>);

/// Pages that a process of another host has made, as this one has them mapped.
pub struct hamlyn_express_view(ExpressView<dyn Attachment>);

/// What there is of express memory with a host.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_express_info {
    /// Bytes that the two hosts share, half of which are this host's to give; 0: there are none.
    pub part: u64,
    /// Pages that are this host's to give.
    pub pages: u32,
    /// Of these, pages that areas have.
    pub used: u32,
    /// Pages that areas had, until the other host confirms that nobody there sees them any more.
    pub leaving: u32,
    /// Pages of the other host's that are mapped here.
    pub viewed: u32,
    /// Pages that areas of this user have.
    pub held: u32,
    /// How many he may hold as things stand.
    pub limit: u32,
    /// For what may come: zeros.
    pub reserved: [u32; 4],
}

/// What an area and a view give of their memory.
fn memory(pages: &Pages) -> Result<*mut c_void, Failure> {
    Ok(pages.bytes(0, pages.len())?.as_ptr().cast_mut().cast())
}

/// Describes what there is with a host. -EOPNOTSUPP if this card has no express memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_express_get_info(
    card: Option<&hamlyn_card>,
    host: u32,
    info: Option<&mut MaybeUninit<hamlyn_express_info>>,
) -> c_int {
    call(|| {
        let to = given(info, "info")?;
        let found = given(card, "card")?.0.express(host)?;
        store(
            to,
            hamlyn_express_info {
                part: found.part,
                pages: found.pages,
                used: found.used,
                leaving: found.leaving,
                viewed: found.viewed,
                held: found.held,
                limit: found.limit,
                reserved: [0; 4],
            },
        )
    })
}

/// Makes pages for a process of another host: `length` bytes, a multiple of 4096, of zeros.
/// -EHOSTUNREACH if there is no express memory with that host, -ENOSPC if too few pages are free,
/// -EDQUOT if too few of the user's share.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_express_area_create(
    card: Option<&hamlyn_card>,
    host: u32,
    length: usize,
    area: Option<&mut MaybeUninit<Box<hamlyn_express_area>>>,
) -> c_int {
    call(|| {
        let to = given(area, "area")?;
        let area = given(card, "card")?.0.create_express_area(host, length)?;
        store(to, Box::new(hamlyn_express_area(area)))
    })
}

/// Takes the pages out of both processes. Nobody gets them before the other host has confirmed
/// that. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_express_area_destroy(area: Option<Box<hamlyn_express_area>>) {
    free(area);
}

/// What a process of the other host has to know to map them: a number, and a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_express_area_name(
    area: Option<&hamlyn_express_area>,
    number: Option<&mut MaybeUninit<u32>>,
    key: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let (number, key) = (given(number, "number")?, given(key, "key")?);
        let area = &given(area, "area")?.0;
        number.write(area.number());
        store(key, area.key())
    })
}

/// Where an area's memory is, until it is destroyed, and how many bytes. The other process may
/// change any of them at any moment: load a word once, check it, and then use it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_express_area_memory(
    area: Option<&hamlyn_express_area>,
    memory: Option<&mut MaybeUninit<*mut c_void>>,
    length: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    call(|| {
        let (to, length) = (given(memory, "memory")?, given(length, "length")?);
        let area = &given(area, "area")?.0;
        length.write(area.len());
        store(to, self::memory(area)?)
    })
}

/// Maps pages that a process of another host has made, once. Waits for that host's answer. -EACCES
/// if there are none of that number, or not with that key, -EBUSY if somebody has mapped them,
/// -EHOSTUNREACH if there is no express memory with that host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_express_view_map(
    card: Option<&hamlyn_card>,
    host: u32,
    number: u32,
    key: u64,
    view: Option<&mut MaybeUninit<Box<hamlyn_express_view>>>,
) -> c_int {
    call(|| {
        let to = given(view, "view")?;
        let view = given(card, "card")?.0.map_express_area(host, number, key)?;
        store(to, Box::new(hamlyn_express_view(view)))
    })
}

/// Unmaps them. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_express_view_destroy(view: Option<Box<hamlyn_express_view>>) {
    free(view);
}

/// Where a view's memory is, until it is destroyed, and how many bytes. When the other end is gone
/// it shows memory that nobody else sees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_express_view_memory(
    view: Option<&hamlyn_express_view>,
    memory: Option<&mut MaybeUninit<*mut c_void>>,
    length: Option<&mut MaybeUninit<usize>>,
) -> c_int {
    call(|| {
        let (to, length) = (given(memory, "memory")?, given(length, "length")?);
        let view = &given(view, "view")?.0;
        length.write(view.len());
        store(to, self::memory(view)?)
    })
}

/// Keeps stores before it before loads behind it, for the other machine as well: an emulated
/// processor makes too little of C's atomic_thread_fence().
#[unsafe(no_mangle)]
pub extern "C" fn hamlyn_express_barrier() {
    Pages::barrier();
}
