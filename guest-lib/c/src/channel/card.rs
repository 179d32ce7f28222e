//! Cards of all models.

use std::ffi::{CStr, c_char};
use std::path::Path;

use hamlyn::Error;
use hamlyn::channel::Card;

use crate::exported::{Out, exported};
use crate::memory::text;

/// An open card of any model that has channels. Any number of threads may use it at once.
pub struct uln_card(pub(crate) Card);

exported! {
/// Opens a card by the path of its node, such as "/dev/dart0". NULL opens the card that the
/// environment names by HAMLYN_CARD, SHRIMP_CARD, CLAN_CARD, DART_CARD or ECHO_CARD, else the first
/// node in /dev. Fails with -EOPNOTSUPP if this machine has no card.
fn uln_card_open(node: *const c_char, card: Out<Box<uln_card>>) {
    let opened = if node.is_null() { Card::open_any() } else { Card::open(Path::new(text(node, "node")?)) };
    card.store(uln_card(opened?))
}

/// Closes a card. Its channels and listeners stay usable. NULL is a no-op.
fn uln_card_close(card: Box<uln_card>);
}

/// Returns the model's name: "hamlyn", "shrimp", "clan", "dart" or "echo"; NULL for a NULL card.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_card_model(card: Option<&uln_card>) -> *const c_char {
    let names: [&CStr; 5] = [c"hamlyn", c"shrimp", c"clan", c"dart", c"echo"];
    let model = card.map(|card| card.0.model().as_bytes());
    let name = names.into_iter().find(|name| Some(name.to_bytes()) == model);
    name.map_or(std::ptr::null(), CStr::as_ptr)
}

exported! {
/// Returns the card's host id. Fails with -ENETDOWN while its link is down.
fn uln_card_host(card: &uln_card) {
    card.0.host()?.ok_or(Error::LinkDown)?
}
}
