//! CLAN cards.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::path::Path;

use hamlyn::Error;
use hamlyn::clan::{Card, Statistic};

use crate::call::{call, free, given, store};
use crate::card::ULN_NO_LINK;
use crate::memory::{items_mut, text};
use crate::ticket::print;

/// An open CLAN card. Objects created with it belong to this process. Objects can be used together
/// only if they were created with the same open card. Any number of threads may use it at once.
pub struct clan_card(pub(crate) Card);

/// Properties of a card.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_card_info {
    /// Host id, or ULN_NO_LINK while the link is down.
    pub host: u32,
    /// Version of the card's ABI: major in the upper half, minor in the lower.
    pub abi_version: u32,
    /// Number of apertures available to processes.
    pub apertures: u32,
    /// Number of window pages available to processes.
    pub window_pages: u32,
    /// Number of endpoints available to processes, and of event queues.
    pub endpoints: u32,
    /// Number of Tripwires of all endpoints together (section 2.5 of the paper).
    pub tripwires: u32,
    /// Maximum data in a packet, in bytes.
    pub burst: u32,
    /// Number of words that a host may have in flight to another host (section 2.2).
    pub credits: u32,
    /// Number of switch ports: host ids are below it. 0 while the link is down.
    pub ports: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 7],
}

/// Opens a card, "/dev/clanN". NULL opens the card that the environment variable CLAN_CARD names,
/// or /dev/clan0 if it is not set. Fails with -EPROTO for a card of another model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_open(
    name: *const c_char,
    card: Option<&mut MaybeUninit<Box<clan_card>>>,
) -> c_int {
    call(|| {
        let to = given(card, "card")?;
        let card = if name.is_null() {
            Card::open_default()?
        } else {
            Card::open_path(Path::new(text(name, "name")?))?
        };
        store(to, Box::new(clan_card(card)))
    })
}

/// Releases a card. It is closed when everything created with it is gone too. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_close(card: Option<Box<clan_card>>) {
    free(card);
}

/// Stores the card's current properties.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_get_info(
    card: Option<&clan_card>,
    info: Option<&mut MaybeUninit<clan_card_info>>,
) -> c_int {
    call(|| {
        let to = given(info, "info")?;
        let info = given(card, "card")?.0.info()?;
        let info = clan_card_info {
            host: info.host.unwrap_or(ULN_NO_LINK),
            abi_version: info.abi_version,
            apertures: info.apertures,
            window_pages: info.window_pages,
            endpoints: info.endpoints,
            tripwires: info.tripwires,
            burst: info.burst,
            credits: info.credits,
            ports: info.ports.unwrap_or(0),
            reserved: [0; 7],
        };
        store(to, info)
    })
}

/// Reads the card's counters, at most `count` of them. Returns the total number of counters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_statistics(card: Option<&clan_card>, values: *mut u64, count: usize) -> c_int {
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
pub unsafe extern "C" fn clan_statistic_name(number: u32, text: *mut c_char, size: usize) -> c_int {
    call(|| {
        given(std::ptr::NonNull::new(text), "text")?;
        match Statistic::NAMES.get(number as usize) {
            Some(name) => print(name, text, size),
            None => Err(Error::Invalid("there is no counter of this number").into()),
        }
    })
}
