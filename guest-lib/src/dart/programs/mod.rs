//! Compound operations, of messages as they are: what several hosts do with one host's registers
//! and memory, while that one's software has nothing to do with it.
//!
//! | | messages | at the receiver |
//! |---|---|---|
//! | fetch and increment, add, or: [`Caller::fetch`] | 1 and its answer | one register operation |
//! | compare and swap: [`Caller::compare_and_swap`] | 2 and an answer | the new value to a register of one's own, then replace if equal |
//! | remote read, of scattered blocks too: [`Caller::read`], [`Caller::gather`] | 1 and its answer, for each | a read |
//! | lock: [`Lock`] | 1 and its answer; while others have it, more; 1 to give it back | a ticket, and whose turn it is |
//! | store indirect with postincrement; a log: [`Appender`] | 1 | indexed, then the register moves on |
//! | queue of several producers, with back-pressure: [`Producer`] | 1 | an event, in a queue that lets messages wait |
//! | priority queue: [`Urgent`] | 1 | an event only if nothing there is as urgent |
//! | barrier: [`Barrier`], [`Member`] | 1 for each, and 1 to release each | decrement, and an event when it is 0 |
//! | remote procedure call: [`Client`], [`Server`] | 1, and 1 back | the arguments, and an event |

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
