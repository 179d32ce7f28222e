//! Compound operations built from plain messages: several hosts work with the registers and memory
//! of one host, without its software.
//!
//! | operation | here | messages |
//! |---|---|---|
//! | fetch and increment, add, or | [`Caller::fetch`] | 1 and its answer |
//! | compare and swap | [`Caller::compare_and_swap`] | 2 and an answer |
//! | remote read | [`Caller::read`] | 1 and its answer |
//! | remote read of scattered blocks | [`Caller::gather`] | 1 and its answer, for each |
//! | lock | [`Lock`] | 1 and its answer; more under contention; 1 to release it |
//! | store indirect with postincrement; a log | [`Appender`] | 1 |
//! | queue of several producers, with backpressure | [`Producer`] | 1 |
//! | priority queue | [`Urgent`] | 1 |
//! | barrier | [`Barrier`], [`Member`] | 1 for each, and 1 to release each |
//! | remote procedure call | [`Client`], [`Server`] | 1, and 1 back |
//!
//! | operation | at the receiver |
//! |---|---|
//! | fetch and increment, add, or | one register operation |
//! | compare and swap | the new value to a private register, then replace if equal |
//! | remote read | a read |
//! | lock | a ticket, and the current turn |
//! | log | indexed, then the register advances |
//! | queue of several producers | an event, in a queue that lets messages wait |
//! | priority queue | an event only if no pending entry is as urgent |
//! | barrier | decrement, and an event when it is 0 |
//! | remote procedure call | the arguments, and an event |

mod append;
mod barrier;
mod caller;
mod lock;
mod priority;
mod producer;
mod rpc;
mod waiting;

pub use self::append::{Appender, Log};
pub use self::barrier::{Barrier, Member};
pub use self::caller::{Caller, Piece};
pub use self::lock::{Lock, LockRegisters};
pub use self::priority::{Backlog, PriorityRegisters, Urgent};
pub use self::producer::Producer;
pub use self::rpc::{Call, Client, Server};
