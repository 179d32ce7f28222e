//! Cards of all models.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::path::Path;

use hamlyn::Error;
use hamlyn::channel::Card;

use crate::call::{call, count, free, given, store};
use crate::memory::text;

/// An open card of any model that has channels. Any number of threads may use it at once.
pub struct uln_card(pub(crate) Card);

/// Opens a card by the path of its node, such as "/dev/dart0". NULL opens the card that the
/// environment names by HAMLYN_CARD, SHRIMP_CARD, CLAN_CARD or DART_CARD, else the first node in
/// /dev. Fails with -EOPNOTSUPP if this machine has no card.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_card_open(
    node: *const c_char,
    card: Option<&mut MaybeUninit<Box<uln_card>>>,
) -> c_int {
    call(|| {
        let to = given(card, "card")?;
        let card = if node.is_null() { Card::open_any() } else { Card::open(Path::new(text(node, "node")?)) };
        store(to, Box::new(uln_card(card?)))
    })
}

/// Closes a card. Its channels and listeners stay usable. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_card_close(card: Option<Box<uln_card>>) {
    free(card);
}

/// Returns the model's name: "hamlyn", "shrimp", "clan" or "dart"; NULL for a NULL card.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_card_model(card: Option<&uln_card>) -> *const c_char {
    let names: [&CStr; 4] = [c"hamlyn", c"shrimp", c"clan", c"dart"];
    let model = card.map(|card| card.0.model().as_bytes());
    let name = names.into_iter().find(|name| Some(name.to_bytes()) == model);
    name.map_or(std::ptr::null(), CStr::as_ptr)
}

/// Returns the card's host id. Fails with -ENETDOWN while its link is down.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_card_host(card: Option<&uln_card>) -> c_int {
    call(|| Ok(count(given(card, "card")?.0.host()?.ok_or(Error::LinkDown)? as usize)))
}
