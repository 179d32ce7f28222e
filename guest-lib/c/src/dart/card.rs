//! DART cards.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::path::Path;

use hamlyn::Error;
use hamlyn::dart::{Card, Statistic};

use crate::call::{call, free, given, store};
use crate::card::HAMLYN_NO_LINK;
use crate::memory::{items_mut, text};
use crate::ticket::print;

/// An open DART card. What is made with it is this process' own; objects that work together are
/// made with the same open card. Any number of threads may use it at once.
pub struct dart_card(pub(crate) Card);

/// What a card is.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_card_info {
    /// Its host id, or HAMLYN_NO_LINK while its link is down.
    pub host: u32,
    /// Version of the card's contract: major in the upper half, minor in the lower.
    pub abi_version: u32,
    /// Connections that processes may have.
    pub connections: u32,
    /// Endpoints that processes may have.
    pub endpoints: u32,
    /// Address registers of all banks together (section 2 of the paper).
    pub registers: u32,
    /// Entries of all programs.
    pub program: u32,
    /// Queues.
    pub queues: u32,
    /// Translations of pages that the card keeps (section 3).
    pub tlb: u32,
    /// Cells that a connection may have on their way.
    pub window: u32,
    /// Ports of the switch, which host ids are below; 0 while the link is down.
    pub ports: u32,
    /// For what may come: zeros.
    pub reserved: [u32; 6],
}

/// Opens a card, "/dev/dartN". NULL is the card that the environment variable DART_CARD names, else
/// /dev/dart0. -EPROTO for a card of another model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_open(
    name: *const c_char,
    card: Option<&mut MaybeUninit<Box<dart_card>>>,
) -> c_int {
    call(|| {
        let to = given(card, "card")?;
        let card = if name.is_null() {
            Card::open_default()?
        } else {
            Card::open_path(Path::new(text(name, "name")?))?
        };
        store(to, Box::new(dart_card(card)))
    })
}

/// Lets a card go; it is closed when all that was made with it is gone too. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_close(card: Option<Box<dart_card>>) {
    free(card);
}

/// Describes a card as it is now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_get_info(
    card: Option<&dart_card>,
    info: Option<&mut MaybeUninit<dart_card_info>>,
) -> c_int {
    call(|| {
        let to = given(info, "info")?;
        let info = given(card, "card")?.0.info()?;
        let info = dart_card_info {
            host: info.host.unwrap_or(HAMLYN_NO_LINK),
            abi_version: info.abi_version,
            connections: info.connections,
            endpoints: info.endpoints,
            registers: info.registers,
            program: info.program,
            queues: info.queues,
            tlb: info.tlb,
            window: info.window,
            ports: info.ports.unwrap_or(0),
            reserved: [0; 6],
        };
        store(to, info)
    })
}

/// Reads the card's counters, as many as there is room for. Returns how many there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_statistics(card: Option<&dart_card>, values: *mut u64, count: usize) -> c_int {
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
pub unsafe extern "C" fn dart_statistic_name(number: u32, text: *mut c_char, size: usize) -> c_int {
    call(|| {
        given(std::ptr::NonNull::new(text), "text")?;
        match Statistic::NAMES.get(number as usize) {
            Some(name) => print(name, text, size),
            None => Err(Error::Invalid("there is no counter of this number").into()),
        }
    })
}
