//! A program of the library's upper layer: the ends of streams that it has.

use std::sync::Arc;

use hamlyn::protocol::stream::{StreamReceiver, StreamSender};
use hamlyn::{Card, Error, Manager, PeerLoss, Polling};

use crate::attachment::SimAttachment;
use crate::machine::Machine;

/// Entries of its notification queue.
const ENTRIES: u32 = 64;

/// A program with a manager.
#[derive(Debug)]
pub(crate) struct Correspondent {
    pub(crate) senders: Vec<Sending>,
    pub(crate) receivers: Vec<Receiving>,
    pub(crate) manager: Manager,
}

/// The sending end of a stream.
#[derive(Debug)]
pub(crate) struct Sending {
    /// The stream's number.
    pub(crate) stream: usize,
    pub(crate) end: StreamSender,
    /// It sends no more.
    pub(crate) closing: bool,
}

/// The receiving end of a stream.
#[derive(Debug)]
pub(crate) struct Receiving {
    /// The stream's number.
    pub(crate) stream: usize,
    pub(crate) end: StreamReceiver,
    /// Records that are held: number, position of the first byte, length.
    pub(crate) held: Vec<(u64, u64, usize)>,
}

impl Correspondent {
    /// Starts a program.
    pub(crate) fn start(machine: &Arc<Machine>, pid: u64) -> Result<Self, Error> {
        let card = Card::attached(Arc::new(SimAttachment::with_streams(machine.clone(), pid)));
        let manager = Manager::create_with(&card, ENTRIES, Polling { spins: 0 })?;
        // All memory that it ever sends from: later there may be no pages for more.
        drop(manager.allocate(1)?);
        Ok(Self { senders: Vec::new(), receivers: Vec::new(), manager })
    }

    /// It dies in the middle of what it does, so its ends tell nobody that they go.
    pub(crate) fn says_nothing(&self) {
        self.senders.iter().for_each(|sender| sender.end.peer_lost(PeerLoss::Process));
        self.receivers.iter().for_each(|receiver| receiver.end.peer_lost(PeerLoss::Process));
    }
}
