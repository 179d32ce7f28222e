//! Every process sends verified messages to every other process. Each message is a tagged remote
//! write, acknowledged by another one.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use common::{Outcome, print};
use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{Handle, Polling, Ticket};
use hamlyn_examples as common;
use serde_json::json;

/// Maximum number of messages in flight to a peer. Each has its own place in the peer's buffer.
const WINDOW: u32 = 8;
/// Tag bit that marks an acknowledgement.
const ACKNOWLEDGEMENT: u32 = 1 << 31;
/// Number of tag bits that hold the message's number; the sender's index is above them.
const NUMBER_BITS: u32 = 24;

/// Sends verified messages to every peer and receives as many from each. Prints a ticket, then
/// reads the tickets of all processes, including its own, from standard input: one per line,
/// ordered by index
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// This process' index
    #[arg(long)]
    index: u32,
    /// Number of processes, 2 to 100
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=100))]
    of: u32,
    /// Number of messages to each peer
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..1 << NUMBER_BITS))]
    messages: u32,
    /// Bytes in a message, 1 to 448
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=448))]
    size: u32,
    /// Seconds to wait for the next message
    #[arg(long, default_value_t = 30)]
    timeout: u64,
    /// Microseconds to poll before this side goes to sleep
    #[arg(long)]
    poll: Option<u64>,
}

/// Progress with one peer.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    sent: u32,
    acknowledged: u32,
    received: u32,
    /// One bit per place of the window, set while its message is not acknowledged. Acknowledgements
    /// may arrive in any order.
    busy: u32,
}

/// Returns the bit of a message's place.
fn place_bit(number: u32) -> u32 {
    1 << (number % WINDOW)
}

struct Process {
    options: Options,
    receiver: TagReceiver,
    sender: TagSender,
    tickets: Vec<Ticket>,
    peers: Vec<Progress>,
    last: Option<Handle>,
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        if options.index >= options.of {
            let (index, limit) = (options.index, options.of - 1);
            return Err(format!("index {index} is out of range (limit {limit})").into());
        }
        let card = options.card.open()?;
        let polling =
            options.poll.map(|poll| Polling::up_to(Duration::from_micros(poll))).unwrap_or_default();
        let bytes = options.of * WINDOW * options.size;
        // One window of messages and one of acknowledgements per peer.
        let receiver = TagReceiver::create(&card, bytes as usize, options.of * WINDOW * 2 + 2)?;
        receiver.set_polling(polling);
        print(&json!({ "index": options.index, "ticket": receiver.ticket()?.to_string() }))?;
        let tickets = (0..options.of).map(|_| common::read_ticket()).collect::<Outcome<_>>()?;
        let sender = TagSender::new(card.create_terminus()?);
        let peers = vec![Progress::default(); options.of as usize];
        Process { options, receiver, sender, tickets, peers, last: None }.run()
    })
}

impl Process {
    fn run(mut self) -> Outcome {
        while !self.is_done() {
            let sent = self.send_what_may()?;
            let tag = if sent {
                self.receiver.try_recv()?
            } else {
                Some(self.receiver.recv_polling_timeout(Duration::from_secs(self.options.timeout))?)
            };
            if let Some(tag) = tag {
                self.take(tag)?;
            }
        }
        // Dropping the terminus would abandon what is still in its work queue.
        let timeout = common::seconds(self.options.timeout);
        self.last.map_or(Ok(()), |handle| handle.wait_timeout(timeout))?;
        let others = u64::from(self.options.of - 1);
        let messages = others * u64::from(self.options.messages);
        print(&json!({ "sent": messages, "received": messages, "verified": true }))
    }

    fn is_done(&self) -> bool {
        let all = self.options.messages;
        self.others().all(|peer| {
            let progress = self.peers[peer as usize];
            progress.acknowledged == all && progress.received == all
        })
    }

    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let own = self.options.index;
        (0..self.options.of).filter(move |peer| *peer != own)
    }

    /// Sends one message to each peer that has room for it. Returns whether any was sent.
    fn send_what_may(&mut self) -> Outcome<bool> {
        let mut any = false;
        for peer in self.others() {
            let progress = self.peers[peer as usize];
            if progress.sent < self.options.messages && progress.busy & place_bit(progress.sent) == 0 {
                let (own, number) = (self.options.index, progress.sent);
                let mut data = vec![0; self.options.size as usize];
                common::fill_pattern(seed(own, peer), number as usize * data.len(), &mut data);
                let tag = own << NUMBER_BITS | number;
                let handle = self.sender.send(
                    &self.tickets[peer as usize],
                    &data[..],
                    self.place(own, number),
                    tag,
                )?;
                self.last = Some(handle);
                self.peers[peer as usize].sent += 1;
                self.peers[peer as usize].busy |= place_bit(number);
                any = true;
            }
        }
        Ok(any)
    }

    /// Returns the offset of `sender`'s message in a receiver's buffer.
    fn place(&self, sender: u32, number: u32) -> u32 {
        (sender * WINDOW + number % WINDOW) * self.options.size
    }

    fn take(&mut self, tag: u32) -> Outcome {
        let peer = (tag & !ACKNOWLEDGEMENT) >> NUMBER_BITS;
        let number = tag & ((1 << NUMBER_BITS) - 1);
        let own = self.options.index;
        let Some(progress) = self.peers.get_mut(peer as usize).filter(|_| peer != own) else {
            return Err(format!("message from process {peer}, of which there is none").into());
        };
        if tag & ACKNOWLEDGEMENT != 0 {
            progress.acknowledged += 1;
            progress.busy &= !place_bit(number);
            return Ok(());
        }
        progress.received += 1;
        let mut data = vec![0; self.options.size as usize];
        self.receiver.read(self.place(peer, number) as usize, &mut data)?;
        if let Some(byte) = common::find_difference(seed(peer, own), number as usize * data.len(), &data) {
            return Err(format!("byte {byte} of message {number} from process {peer} is wrong").into());
        }
        let tag = ACKNOWLEDGEMENT | own << NUMBER_BITS | number;
        self.last = Some(self.sender.send(&self.tickets[peer as usize], &[], 0, tag)?);
        Ok(())
    }
}

fn seed(from: u32, to: u32) -> u64 {
    u64::from(from) << 32 | u64::from(to)
}
