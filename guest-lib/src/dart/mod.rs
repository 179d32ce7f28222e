//! The DART card: messages that carry operations on the receiver's memory and registers (Osborne,
//! *A Hybrid Deposit Model for Low Overhead Communication in High Speed LANs*).
//!
//! | paper | section | here |
//! |---|---|---|
//! | endpoint: a region of virtual memory | 3 | [`Endpoint`] |
//! | connection, and its Send Registers | 3 | [`Connection`], [`Address`] |
//! | address registers, windows | 2 | [`Bank`], [`Connection::register`] |
//! | the Operation Logic, and what a message does | 2, Figures 2 and 5 | [`Operation`] |
//! | operations stored at the receiver (the variant) | 2 | [`Bank::set_program`] |
//! | calls of stored operations | 2 | [`Operation::call`] |
//! | reads, and other questions | 3 | [`Connection::ask`] |
//! | queues: delayed and immediate; exceptions | 1, 2 | [`Queue`], [`Urgency`] |
//! | set-up by name | | [`ConnectionBuilder::reach`], [`ConnectionBuilder::admit`] |
//! | compound operations | 2 | [`programs`] |
//!
//! ```no_run
//! use hamlyn::dart::{Address, Card, Operation, Source, Step, Target, Urgency};
//!
//! let card = Card::open_default()?;
//! let (endpoint, bank) = (card.endpoint(65536)?, card.bank(4, 0)?);
//! let mut queue = card.queue(16, Urgency::Delayed)?;
//! // A process of host 1 does the same; both processes exchange their addresses.
//! let connection = card.connection(&endpoint, &bank).events(&queue).open(1)?;
//! println!("give this to the other: {}", connection.address()?);
//! let other: Address = std::env::args().nth(1).unwrap_or_default().parse()?;
//! connection.connect(&other)?;
//! // Fetch and increment register 0 there: the answer creates an event here, with the old value.
//! let question = Operation::answer(0).first(Step::Increment, Source::Operand, Target::I);
//! connection.ask(&question, &Operation::registers(7).tell(), 0, 0)?;
//! println!("it was {:?}", queue.recv()?.word(0));
//! # Ok::<(), hamlyn::Error>(())
//! ```

pub(crate) mod address;
mod attachment;
mod bank;
mod card;
pub(crate) mod channel;
mod connection;
mod endpoint;
pub(crate) mod fault;
mod model;
mod names;
mod operation;
pub mod programs;
mod queue;

pub use self::address::{Address, AddressError};
pub use self::attachment::{Attachment, Object, Page};
pub use self::bank::{Bank, Entry};
pub use self::card::{Card, CardInfo};
pub use self::connection::{Connection, ConnectionBuilder, Rights};
pub use self::endpoint::Endpoint;
pub use self::fault::{Broken, Dropped, Status, Trap};
pub use self::model::Dart;
pub use self::operation::{Comparison, Operation, Order, Source, Step, Target};
pub use self::queue::{Queue, Record, Urgency, What};
pub use hamlyn_abi::dart::statistics::DartStatistic as Statistic;
