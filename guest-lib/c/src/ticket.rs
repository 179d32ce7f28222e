//! Tickets and seeds, which a receiver gives to its senders.

use std::ffi::{c_char, c_int};
use std::ptr::NonNull;

use hamlyn::{Seed, Ticket};

use crate::call::{Failure, given};
use crate::exported::{Out, exported};
use crate::memory::bytes_mut;

/// Size of a ticket in bytes.
pub const HAMLYN_TICKET_SIZE: usize = 40;
/// Size of a seed in bytes.
pub const HAMLYN_SEED_SIZE: usize = 52;
/// Buffer size that is enough for the text of a ticket or a seed, including the terminating zero.
pub const HAMLYN_TEXT_SIZE: usize = 256;

/// Permission to write into a receiver's buffer. It may be copied, sent in a message and used on
/// any host. A ticket is a capability: any process that has it may write. It contains a checksum,
/// which is checked when the ticket is first used.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_ticket {
    /// The binary form.
    pub bytes: [u8; HAMLYN_TICKET_SIZE],
}

/// The tickets for a stream receiver's buffers, from which its sender is created. Like a ticket it
/// is a capability: any process that has it may send.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_seed {
    /// The binary form.
    pub bytes: [u8; HAMLYN_SEED_SIZE],
}

impl hamlyn_ticket {
    pub(crate) fn new(ticket: &Ticket) -> Self {
        Self { bytes: ticket.to_bytes() }
    }

    pub(crate) fn read(&self) -> Result<Ticket, Failure> {
        Ticket::from_bytes(&self.bytes).map_err(|error| Failure::argument(error.to_string()))
    }
}

impl hamlyn_seed {
    pub(crate) fn new(seed: &Seed) -> Self {
        Self { bytes: seed.to_bytes() }
    }

    pub(crate) fn read(&self) -> Result<Seed, Failure> {
        Seed::from_bytes(&self.bytes).map_err(|error| Failure::argument(error.to_string()))
    }
}

/// Writes a zero-terminated text.
pub(crate) fn print(text: &str, to: *mut c_char, size: usize) -> Result<c_int, Failure> {
    let needed = text.len() + 1;
    if size < needed {
        return Err(Failure::argument(format!("text size {size} is too little (at least {needed})")));
    }
    let to = bytes_mut(to.cast(), needed, "text")?;
    to[..text.len()].copy_from_slice(text.as_bytes());
    to[text.len()] = 0;
    Ok(0)
}

/// Writes the name of counter `number`, if the card has such a counter.
pub(crate) fn print_counter(
    name: Option<&str>,
    number: u32,
    to: *mut c_char,
    size: usize,
) -> Result<c_int, Failure> {
    given(NonNull::new(to), "text")?;
    print(name.ok_or_else(|| Failure::argument(format!("the card has no counter {number}")))?, to, size)
}

exported! {
/// Parses a ticket's text: "hamlyn1:" and digits.
fn hamlyn_ticket_parse(text: &str, ticket: Out<hamlyn_ticket>) {
    ticket.store(hamlyn_ticket::new(&text.parse().map_err(hamlyn::Error::from)?))
}

/// Writes a ticket's zero-terminated text into `size` bytes; HAMLYN_TEXT_SIZE is enough.
fn hamlyn_ticket_print(ticket: &hamlyn_ticket, text: *mut c_char, size: usize) {
    print(&ticket.read()?.to_string(), text, size)?
}

/// Parses a seed's text: "hamlynseed1:" and digits.
fn hamlyn_seed_parse(text: &str, seed: Out<hamlyn_seed>) {
    seed.store(hamlyn_seed::new(&text.parse().map_err(hamlyn::Error::from)?))
}

/// Writes a seed's zero-terminated text into `size` bytes; HAMLYN_TEXT_SIZE is enough.
fn hamlyn_seed_print(seed: &hamlyn_seed, text: *mut c_char, size: usize) {
    print(&seed.read()?.to_string(), text, size)?
}
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use hamlyn::TicketFlags;

    use super::*;

    #[test]
    fn ticket_text_round_trips_and_short_buffer_fails() {
        let ticket = Ticket {
            destination: 1,
            slot: 2,
            metadata_index: 3,
            key: 4,
            base: 5,
            length: 6,
            flags: TicketFlags::default(),
        };
        let ticket = hamlyn_ticket::new(&ticket);
        let mut text = [0x7f as c_char; HAMLYN_TEXT_SIZE];
        let place = text.as_mut_ptr();
        // SAFETY: the text has at least `size` bytes.
        let print = |ticket, size| unsafe { hamlyn_ticket_print(ticket, place, size) };
        assert_eq!(print(Some(&ticket), 88), -libc::EINVAL);
        assert_eq!(print(Some(&ticket), 89), 0);
        assert_eq!(print(None, 256), -libc::EINVAL);
        assert_eq!(text[89], 0x7f as c_char);
        let mut read = MaybeUninit::new(hamlyn_ticket { bytes: [0; HAMLYN_TICKET_SIZE] });
        // SAFETY: both texts are zero-terminated.
        let mut parse = |text: *const c_char| unsafe { hamlyn_ticket_parse(text, Some(&mut read)) };
        assert_eq!(parse(text.as_ptr()), 0);
        assert_eq!(parse(c"hamlyn1:".as_ptr()), -libc::EINVAL);
        // SAFETY: it was created with a value.
        assert_eq!(unsafe { read.assume_init() }.bytes, ticket.bytes);
    }

    #[test]
    fn sizes_match_the_library() {
        assert_eq!((HAMLYN_TICKET_SIZE, HAMLYN_SEED_SIZE), (Ticket::SIZE, Seed::SIZE));
        assert!("hamlynseed1:".len() + 2 * Seed::SIZE < HAMLYN_TEXT_SIZE);
    }
}
