//! The message-passing primitives of section 5.2, whose cost is counted in instructions.
//!
//! | the paper's | here | when to use it |
//! |---|---|---|
//! | single buffering | [`single`] | one message at a time, read in place |
//! | single buffering + copy | [`single::Receiver::recv_into`] | to overlap processing with sending |
//! | double buffering, three cases | [`double`] | a loop that overlaps messages and work |
//! | deliberate-update transfer | [`update`] | a lot of data, built in place, sent when complete |
//! | `csend` and `crecv` | [`nx`] | messages of any length, distinguished by types |
//!
//! All but deliberate update use an [`End`]: memory of this process that the other stores to, and
//! memory of this process whose stores go to the other. The address for stores is determined once,
//! when an end is made. After that, a primitive consists of plain loads and stores, without a call
//! into this library. Only a wait calls the library, and sleeps after a while.
//!
//! The paper maps a flag in both directions, and each side stores to its own copy. Here each side
//! has two words for a flag: the other side stores to the first one, and this side to the second
//! one. If the card does not see a machine's stores, a store also goes through the card to the
//! process' own memory. A load that is too early would find an old flag. So each side stores its
//! value to its own word, and also sends it.
//!
//! The other end is not trusted: a flag or length that it stores is loaded once, and checked.
//!
//! ```no_run
//! use hamlyn::shrimp::primitives::{End, single};
//! use hamlyn::shrimp::{Card, Handle, Mode};
//!
//! let other: Handle = std::env::args().nth(1).unwrap_or_default().parse()?;
//! let card = Card::open_default()?;
//! let own = card.export(4096, card.hosts()?)?;
//! println!("give this to the other: {}", own.handle()?);
//! let end = End::new(own, card.map(&other, 0, 4096, Mode::Single)?)?;
//!
//! let mut sender = single::Sender::new(&end)?;
//! let length = sender.length(5)?;
//! let buffer = sender.wait()?;
//! buffer.write(0, b"hello")?;
//! buffer.send(length);
//! # Ok::<(), hamlyn::Error>(())
//! ```

pub mod double;
mod end;
pub mod nx;
pub mod single;
pub mod update;

#[cfg(test)]
mod fake;

pub use self::end::End;
