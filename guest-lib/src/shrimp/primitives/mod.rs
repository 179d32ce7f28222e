//! The message-passing primitives of section 5.2, whose cost is counted in instructions.
//!
//! | the paper's | here | when to use it |
//! |---|---|---|
//! | single buffering | [`single`] | one message at a time, read where it has arrived |
//! | single buffering + copy | [`single::Receiver::receive`] | the sender is to go on while the message is worked on |
//! | double buffering, three cases | [`double`] | a loop whose next message travels while this one is worked on |
//! | deliberate-update transfer | [`update`] | data that is made in place and sent when it is complete, a lot of it |
//! | `csend` and `crecv` | [`nx`] | messages of any length, told apart by types |
//!
//! All but deliberate update stand on an [`End`]: memory of this process that the other stores to,
//! and memory of this process whose stores go to the other's. To which address stores go is decided
//! once, when an end is made. From there on a primitive is plain loads and stores, and no call into
//! this library: only who has to wait makes one, and sleeps after a while.
//!
//! The paper maps a flag for both ways, and each side stores to its own copy. Here each side has
//! two words for it: one that the other stores to, and one that it stores to itself. Where the card
//! does not see a machine's stores, a store takes its way through the card to the process' own
//! memory, too, and who looks too early would find an old flag. So each side stores what it says in
//! its own word, and sends it.
//!
//! Whoever is at the other end is not trusted: what he stores in a flag or as a length is loaded
//! once, and checked.
//!
//! ```no_run
//! use hamlyn::shrimp::primitives::{End, single};
//! use hamlyn::shrimp::{Card, Handle, Mode};
//!
//! let other: Handle = std::env::args().nth(1).unwrap_or_default().parse()?;
//! let card = Card::open_default()?;
//! let own = card.export(4096, card.hosts()?)?;
//! println!("give this to the other: {}", own.handle()?);
//! let end = End::new(own, card.map(&other, 0, 4096, Mode::Single)?, None)?;
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
