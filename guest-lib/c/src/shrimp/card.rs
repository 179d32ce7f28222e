//! SHRIMP cards.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;

use hamlyn::Error;
use hamlyn::attach::Node;
use hamlyn::shrimp::{Card, Statistic};

use crate::call::{call, free, given, store};
use crate::card::ULN_NO_LINK;
use crate::memory::{items_mut, text};
use crate::ticket::print;

/// An open SHRIMP card. Any number of threads may use it at once.
pub struct shrimp_card(pub(crate) Card);

/// Properties of a card.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct shrimp_card_info {
    /// Host id, or ULN_NO_LINK while the link is down.
    pub host: u32,
    /// Version of the card's ABI: major in the upper half, minor in the lower.
    pub abi_version: u32,
    /// Number of page table entries, one for each page of this machine's memory.
    pub pages: u32,
    /// Number of columns of the mesh.
    pub columns: u32,
    /// Size of each of the card's FIFOs in bytes.
    pub fifo: u32,
    /// 1 if the card snoops this machine's stores now. If 0, stores must go to window pages;
    /// shrimp_store and shrimp_memory take care of that.
    pub snoops: u32,
    /// Number of switch ports: host ids are below it. 0 while the link is down.
    pub ports: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 9],
}

/// Opens a card, "/dev/shrimpN". NULL opens the card that the environment variable SHRIMP_CARD
/// names, or /dev/shrimp0 if it is not set. Fails with -EPROTO for a card of another model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_open(
    name: *const c_char,
    card: Option<&mut MaybeUninit<Box<shrimp_card>>>,
) -> c_int {
    call(|| {
        let to = given(card, "card")?;
        let card = if name.is_null() {
            Card::open_default()?
        } else {
            Card::attached(Arc::new(Node::open(Path::new(text(name, "name")?))?))
        };
        store(to, Box::new(shrimp_card(card)))
    })
}

/// Releases a card. It is closed when everything created from it is gone too. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_close(card: Option<Box<shrimp_card>>) {
    free(card);
}

/// Stores the card's current properties.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_get_info(
    card: Option<&shrimp_card>,
    info: Option<&mut MaybeUninit<shrimp_card_info>>,
) -> c_int {
    call(|| {
        let to = given(info, "info")?;
        let info = given(card, "card")?.0.info()?;
        let info = shrimp_card_info {
            host: info.host.unwrap_or(ULN_NO_LINK),
            abi_version: info.abi_version,
            pages: info.pages,
            columns: info.columns,
            fifo: info.fifo,
            snoops: info.snoops.into(),
            ports: info.ports.unwrap_or(0),
            reserved: [0; 9],
        };
        store(to, info)
    })
}

/// Reads the card's counters, at most `count` of them. Returns the total number of counters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_statistics(
    card: Option<&shrimp_card>,
    values: *mut u64,
    count: usize,
) -> c_int {
    call(|| {
        let statistics = given(card, "card")?.0.statistics()?;
        for (to, (_, value)) in items_mut(values, count, "values")?.iter_mut().zip(&statistics) {
            to.write(*value);
        }
        Ok(crate::call::count(statistics.len()))
    })
}

/// Writes the zero-terminated name of counter `number` into `size` bytes; HAMLYN_TEXT_SIZE is
/// enough.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_statistic_name(number: u32, text: *mut c_char, size: usize) -> c_int {
    call(|| {
        given(std::ptr::NonNull::new(text), "text")?;
        match Statistic::NAMES.get(number as usize) {
            Some(name) => print(name, text, size),
            None => Err(Error::Invalid("there is no counter of this number").into()),
        }
    })
}
