//! A program of the library's upper layer, with its connections, and its ends of streams and
//! channels.

use std::sync::Arc;

use hamlyn::channel::{self, Channel, Receiver, Sender};
use hamlyn::protocol::stream::{StreamReceiver, StreamSender};
use hamlyn::{Card, Connecting, Connection, Error, Listener, Manager, PeerLoss, Polling, Question};

use crate::hamlyn::areas::forget_view;
use crate::hamlyn::attachment::SimAttachment;
use crate::hamlyn::machine::Machine;
use crate::hamlyn::matrix::AreaName;

/// Entries of its notification queue.
const ENTRIES: u32 = 64;

/// Names that programs listen to. There are more of them than processes on any host.
pub(super) const NAMES: [&str; 3] = ["weather", "tides", "w"];

/// A program with a manager.
#[derive(Debug)]
pub(super) struct Correspondent {
    pub(super) senders: Vec<Sending>,
    pub(super) receivers: Vec<Receiving>,
    /// The name that it listens to.
    pub(super) listener: Option<Listener>,
    pub(super) asking: Vec<Asking>,
    pub(super) wondering: Vec<Wondering>,
    pub(super) open: Vec<Open>,
    pub(super) joining: Vec<Joining>,
    pub(super) talking: Vec<Talking>,
    pub(super) manager: Manager,
    /// The card, for channels.
    pub(super) card: channel::Card,
    attachment: Arc<SimAttachment>,
}

/// The sending end of a stream.
#[derive(Debug)]
pub(super) struct Sending {
    /// The stream's number.
    pub(super) stream: usize,
    pub(super) end: StreamSender,
    /// It sends no more.
    pub(super) closing: bool,
}

/// The receiving end of a stream.
#[derive(Debug)]
pub(super) struct Receiving {
    /// The stream's number.
    pub(super) stream: usize,
    pub(super) end: StreamReceiver,
    /// Records that are held: number, position of the first byte, length.
    pub(super) held: Vec<(u64, u64, usize)>,
}

/// A question that a program has asked.
#[derive(Debug)]
pub(super) struct Wondering {
    pub(super) name: String,
    /// When it was asked, in milliseconds.
    pub(super) asked: u64,
    pub(super) question: Question,
}

/// A connection that it has asked for.
#[derive(Debug)]
pub(super) struct Asking {
    /// The connection's number.
    pub(super) record: usize,
    pub(super) connecting: Connecting,
    /// The receiver of the seed that it passed.
    pub(super) receiver: Option<StreamReceiver>,
    /// The channel's end of the offer that it passed.
    pub(super) end: Option<channel::End>,
}

/// A connection that is established.
#[derive(Debug)]
pub(super) struct Open {
    /// The connection's number (`record`), and which side this is (`side`).
    pub(super) record: usize,
    pub(super) side: usize,
    pub(super) connection: Connection,
}

/// A connection that is to become a channel.
#[derive(Debug)]
pub(super) struct Joining {
    pub(super) record: usize,
    pub(super) side: usize,
    pub(super) connection: Connection,
    pub(super) end: channel::End,
    /// The other side's offer.
    pub(super) offer: Vec<u8>,
    pub(super) view: Asked,
}

/// A view that was asked for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) machine: Arc<Machine>,
    pub(super) pid: u64,
    pub(super) of: AreaName,
    pub(super) key: u64,
}

impl Drop for Asked {
    fn drop(&mut self) {
        forget_view(&self.machine, self.pid, self.of, self.key);
    }
}

/// A channel of a program.
#[derive(Debug)]
pub(super) struct Talking {
    pub(super) record: usize,
    pub(super) side: usize,
    /// The area to which it stores its messages.
    pub(super) of: AreaName,
    /// Present until the program has closed it, or was told of the end.
    pub(super) sender: Option<Sender>,
    pub(super) receiver: Receiver,
    /// The queue whose interrupt wakes each end, while it sleeps. A program also looks once a
    /// second; these do not, so that a lost wake-up is found.
    pub(super) asleep: [Option<u32>; 2],
}

pub(super) const SENDER: usize = 0;
pub(super) const RECEIVER: usize = 1;

impl Talking {
    pub(super) fn new(record: usize, side: usize, of: AreaName, channel: Channel) -> Self {
        let Channel { mut sender, mut receiver } = channel;
        sender.set_polling(Polling::NEVER);
        receiver.set_polling(Polling::NEVER);
        Self { record, side, of, sender: Some(sender), receiver, asleep: [None; 2] }
    }
}

impl Correspondent {
    /// Starts a program.
    pub(super) fn start(machine: &Arc<Machine>, pid: u64) -> Result<Self, Error> {
        let attachment = Arc::new(SimAttachment::with_streams(machine.clone(), pid));
        let card = Card::attached(attachment.clone());
        let manager = Manager::create_with(&card, ENTRIES, Polling::NEVER)?;
        // Allocates all memory that it will send from: later there may be no pages for more.
        drop(manager.allocate(1)?);
        Ok(Self {
            senders: Vec::new(),
            receivers: Vec::new(),
            listener: None,
            asking: Vec::new(),
            wondering: Vec::new(),
            open: Vec::new(),
            joining: Vec::new(),
            talking: Vec::new(),
            manager,
            card: card.into(),
            attachment,
        })
    }

    /// Returns the queue that an end of its channels has armed last.
    pub(super) fn armed(&self) -> u32 {
        self.attachment.armed()
    }

    /// Wakes the ends that sleep until a message comes to one of these queues.
    pub(super) fn wake(&mut self, queues: &[u32]) {
        for asleep in self.talking.iter_mut().flat_map(|talking| &mut talking.asleep) {
            asleep.take_if(|queue| queues.contains(queue));
        }
    }

    /// Called when it dies in the middle of its actions, so that its ends do not tell their peers.
    pub(super) fn says_nothing(&self) {
        self.senders.iter().for_each(|sender| sender.end.peer_lost(PeerLoss::Process));
        self.receivers.iter().for_each(|receiver| receiver.end.peer_lost(PeerLoss::Process));
    }
}
