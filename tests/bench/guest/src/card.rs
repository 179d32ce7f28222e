//! Round trips through cards: tagged remote write (section 3.3), and messages with a metadata entry (section 2.4).
//!
//! Each message has its number at both ends, and who receives one reads all of it, as those do who receive from sockets.

use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{Card, Message, NotificationQueue, Polling, SendBuffer, Slot, Source, Terminus, Ticket};
use hamlyn_bench_guest::pattern::{check_mark, ends, mark, mark_of};
use serde_json::{Value, json};

use crate::idle::IdleOptions;
use crate::result::{Rounds, exchange_tickets, say};
use crate::{Outcome, PATIENCE, Wait};

/// More looks than a peer takes to answer: a poller yields its processor only if the peer is not running at all.
const POLL: Polling = Polling { spins: 20_000_000 };
/// To sleep at once.
const SLEEP: Polling = Polling { spins: 0 };

fn looks(wait: Wait) -> Polling {
    match wait {
        Wait::Poll => POLL,
        Wait::Sleep => SLEEP,
        Wait::Yield | Wait::Spin => Polling::default(),
    }
}

/// Entries of a notification queue: more than ever are under way.
const ENTRIES: u32 = 64;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Bytes of data
    #[arg(long, default_value_t = 16)]
    size: usize,
    /// Bytes of metadata, 0 to 60; without this option a tagged remote write, which has none (fast mode)
    #[arg(long, value_parser = clap::value_parser!(u8).range(..=60))]
    metadata: Option<u8>,
    /// How the receiver waits
    #[arg(long, value_enum, default_value = "poll")]
    wait: Wait,
    #[command(flatten)]
    idle: IdleOptions,
}

pub(crate) fn echo(options: &Options) -> Outcome {
    let card = Card::open_default()?;
    let _idle = options.idle.open(&card)?;
    let mut end = End::create(&card, options)?;
    let peer = exchange_tickets(&end.ticket()?)?;
    counted(&card, || {
        let answered = options.rounds.answer(|round| {
            // The first one comes when the peer is ready: whoever polls for that starves it of the host's cores.
            end.receive(if round == 0 { Wait::Sleep } else { options.wait }, round)?;
            end.send(&peer, round)
        })?;
        end.drain()?;
        Ok(answered)
    })
}

pub(crate) fn ping(options: &Options) -> Outcome {
    let card = Card::open_default()?;
    let _idle = options.idle.open(&card)?;
    let mut end = End::create(&card, options)?;
    let peer = exchange_tickets(&end.ticket()?)?;
    counted(&card, || {
        options.rounds.measure(|round| {
            end.send(&peer, round)?;
            end.receive(options.wait, round)
        })
    })
}

pub(crate) fn loopback(options: &Options) -> Outcome {
    let card = Card::open_default()?;
    let _idle = options.idle.open(&card)?;
    let mut end = End::create(&card, options)?;
    let own = end.ticket()?;
    counted(&card, || {
        options.rounds.measure(|round| {
            end.send(&own, round)?;
            end.receive(options.wait, round)
        })
    })
}

/// Says a result, along with what the card counted meanwhile: the warm-up's messages too.
fn counted(card: &Card, act: impl FnOnce() -> Outcome<Value>) -> Outcome {
    let before = card.statistics()?;
    let mut result = act()?;
    let counters = card.statistics()?.into_iter().zip(before);
    result["counters"] = counters.map(|((what, now), (_, then))| (what.name(), json!(now - then))).collect();
    say(&result)
}

/// One end: how it sends and how it receives.
struct End {
    metadata: Vec<u8>,
    /// The data of a small message: the application's own bytes. A longer one lies ready in the send buffer but for its
    /// number, twice: the card may still read the one before.
    bytes: Vec<u8>,
    buffer: SendBuffer,
    /// What was received.
    received: Vec<u8>,
    protocol: Protocol,
    last: Option<hamlyn::Handle>,
}

enum Protocol {
    Tagged { sender: TagSender, receiver: TagReceiver },
    Plain { terminus: Terminus, slot: Slot, queue: NotificationQueue },
}

impl End {
    fn create(card: &Card, options: &Options) -> Outcome<Self> {
        let terminus = card.create_terminus()?;
        let metadata = vec![0x5a; options.metadata.unwrap_or_default().into()];
        let bytes = vec![0xa5; options.size];
        let length = options.size.max(1);
        let buffer = terminus.create_send_buffer(2 * length)?;
        let protocol = if options.metadata.is_none() {
            let receiver = TagReceiver::create(card, length, ENTRIES)?.polling(looks(options.wait));
            Protocol::Tagged { sender: TagSender::new(terminus), receiver }
        } else {
            let queue = card.create_queue(ENTRIES)?;
            let area = card.create_area(length)?;
            let slot = card.slot(&area).metadata_entries(1).queue(&queue).create()?;
            Protocol::Plain { terminus, slot, queue }
        };
        let received = bytes.clone();
        Ok(Self { metadata, bytes, buffer, received, protocol, last: None })
    }

    fn ticket(&self) -> Outcome<Ticket> {
        Ok(match &self.protocol {
            Protocol::Tagged { receiver, .. } => receiver.ticket()?,
            Protocol::Plain { slot, .. } => slot.ticket(0)?,
        })
    }

    fn send(&mut self, peer: &Ticket, round: u64) -> Outcome {
        let length = self.bytes.len();
        mark(&mut self.metadata, round);
        let message = Message::to(peer).metadata(&self.metadata);
        let source = if length <= message.direct_limit() {
            mark(&mut self.bytes, round);
            Source::Bytes(&self.bytes)
        } else {
            let start = (round % 2) as usize * length;
            for end in ends(length) {
                self.buffer.write(start + end.start, &mark_of(round)[..end.len()])?;
            }
            Source::Piece(self.buffer.piece(start, length)?)
        };
        let handle = match &self.protocol {
            Protocol::Tagged { sender, .. } => sender.send(peer, source, 0, 7)?,
            Protocol::Plain { terminus, .. } => terminus.send(&message, source)?,
        };
        self.last = Some(handle);
        Ok(())
    }

    fn receive(&mut self, wait: Wait, round: u64) -> Outcome {
        let patience = Some(PATIENCE);
        match (&mut self.protocol, wait) {
            (Protocol::Tagged { receiver, .. }, Wait::Poll | Wait::Yield) => {
                receiver.get_tag_poll(patience).map(drop)
            }
            (Protocol::Tagged { receiver, .. }, _) => receiver.get_tag_block(patience).map(drop),
            (Protocol::Plain { queue, .. }, Wait::Poll | Wait::Yield) => {
                queue.recv_poll(looks(wait), patience).map(drop)
            }
            (Protocol::Plain { queue, .. }, _) => queue.recv_block_with(looks(wait), patience).map(drop),
        }?;
        self.read(round)
    }

    /// Reads the message: it is the one of this round, as there is never another under way.
    fn read(&mut self, round: u64) -> Outcome {
        match &self.protocol {
            Protocol::Tagged { receiver, .. } => receiver.read(0, &mut self.received)?,
            Protocol::Plain { slot, .. } => {
                slot.read(0, &mut self.received)?;
                if !self.metadata.is_empty() {
                    check_mark(&slot.metadata(0)?.user()[..self.metadata.len()], round)?;
                }
            }
        }
        Ok(check_mark(&self.received, round)?)
    }

    /// What is still in the work queue when the terminus goes would be abandoned.
    fn drain(&self) -> Outcome {
        self.last.as_ref().map_or(Ok(()), |last| Ok(last.wait(Some(PATIENCE))?))
    }
}
