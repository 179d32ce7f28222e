//! SHRIMP cards.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;

use hamlyn::Error;
use hamlyn::attach::Node;
use hamlyn::shrimp::{Card, Statistic};

use crate::call::{call, free, given, store};
use crate::card::HAMLYN_NO_LINK;
use crate::memory::{items_mut, text};
use crate::ticket::print;

/// An open SHRIMP card. Any number of threads may use it at once.
pub struct shrimp_card(pub(crate) Card);

/// What a card is.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct shrimp_card_info {
    /// Its host id, or HAMLYN_NO_LINK while its link is down.
    pub host: u32,
    /// Version of the card's contract: major in the upper half, minor in the lower.
    pub abi_version: u32,
    /// Entries of its page table, one for each page of this machine's memory.
    pub pages: u32,
    /// Columns of the mesh.
    pub columns: u32,
    /// Bytes of each of its FIFOs.
    pub fifo: u32,
    /// 1 if it sees this machine's stores now. 0: stores have to go to window pages, as
    /// shrimp_store and shrimp_memory know.
    pub snoops: u32,
    /// Ports of the switch, which host ids are below; 0 while the link is down.
    pub ports: u32,
    /// For what may come: zeros.
    pub reserved: [u32; 9],
}

/// Opens a card, "/dev/shrimpN". NULL is the card that the environment variable SHRIMP_CARD names,
/// else /dev/shrimp0. -EPROTO for a card of another model.
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

/// Lets a card go; it is closed when all that was made from it is gone too. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_close(card: Option<Box<shrimp_card>>) {
    free(card);
}

/// Describes a card as it is now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_get_info(
    card: Option<&shrimp_card>,
    info: Option<&mut MaybeUninit<shrimp_card_info>>,
) -> c_int {
    call(|| {
        let to = given(info, "info")?;
        let info = given(card, "card")?.0.info()?;
        let info = shrimp_card_info {
            host: info.host.unwrap_or(HAMLYN_NO_LINK),
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

/// Reads the card's counters, as many as there is room for. Returns how many there are.
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

/// Writes the name of a counter, by its place among them, with a zero behind it, into `size` bytes;
/// HAMLYN_TEXT_SIZE are enough.
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
