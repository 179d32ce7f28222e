//! Round trips through cards: tagged remote write (section 3.3), and messages with a metadata entry
//! (section 2.4).
//!
//! Each message has its number at both ends. The receiver reads all of it, as receivers from
//! sockets do.

use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{
    Card, Message, NotificationQueue, Polling, RequestBlock, SendBuffer, Slot, Source, Terminus, Ticket,
};
use hamlyn_abi::hamlyn::request::{
    HAMLYN_REQUEST_DMA, HAMLYN_REQUEST_INTERRUPT, HamlynGather, HamlynRequest,
};
use hamlyn_bench_guest::pattern::{check_mark, ends, mark, mark_of};
use serde_json::{Value, json};
use zerocopy::IntoBytes;

use crate::engine::result::{Outcome, Rounds, say};
use crate::engine::wait::{PATIENCE, Wait};
use crate::hamlyn::idle::IdleOptions;
use crate::hamlyn::tickets::exchange_tickets;

fn polling(wait: Wait) -> Polling {
    match wait {
        Wait::Poll => Polling::MOST,
        Wait::Sleep => Polling::NEVER,
        Wait::Yield | Wait::Spin => Polling::default(),
    }
}

/// Entries of a notification queue: more than are ever in flight.
pub(crate) const ENTRIES: u32 = 64;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Bytes of data
    #[arg(long, default_value_t = 16)]
    size: usize,
    /// Bytes of metadata, 0 to 60; without this option a tagged remote write, which has none (fast
    /// mode)
    #[arg(long, value_parser = clap::value_parser!(u8).range(..=60))]
    metadata: Option<u8>,
    /// Makes the card fetch metadata and data by DMA from one buffer each, like the paper's: the
    /// library sends metadata by direct I/O
    #[arg(long, requires = "metadata")]
    fetch_metadata: bool,
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
            // The first message comes only when the peer is ready. Polling for it would starve the
            // peer of the host's cores.
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

/// Prints a result together with the card's counters for the same period, including the warm-up.
pub(crate) fn counted(card: &Card, act: impl FnOnce() -> Outcome<Value>) -> Outcome {
    let before = card.statistics()?;
    let mut result = act()?;
    let counters = card.statistics()?.into_iter().zip(before);
    result["counters"] = counters.map(|((what, now), (_, then))| (what.name(), json!(now - then))).collect();
    say(&result)
}

/// Writes a long message's number to both of its ends, in one of the buffer's two places. Returns
/// the place's offset.
fn fill(buffer: &mut SendBuffer, length: usize, round: u64) -> Outcome<usize> {
    let start = (round % 2) as usize * length;
    // In the same order as `mark`, so that the start is intact in a message of fewer than 16 bytes.
    for end in ends(length).into_iter().rev() {
        buffer.write(start + end.start, &mark_of(round)[..end.len()])?;
    }
    Ok(start)
}

/// Room for metadata, in bytes.
const METADATA: usize = 64;

/// One end: its means to send and to receive.
struct End {
    metadata: Vec<u8>,
    /// The data of a small message, in the application's own bytes. The data of a longer message is
    /// in the send buffer, and only its number changes. There are two copies, because the card may
    /// still read the previous message.
    bytes: Vec<u8>,
    buffer: SendBuffer,
    /// Metadata that the card fetches, also in two copies.
    fetched: Option<SendBuffer>,
    /// The last received data.
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
        let fetched =
            options.fetch_metadata.then(|| terminus.create_send_buffer(2 * METADATA)).transpose()?;
        let protocol = if options.metadata.is_none() {
            let receiver = TagReceiver::create(card, length, ENTRIES)?;
            receiver.set_polling(polling(options.wait));
            Protocol::Tagged { sender: TagSender::new(terminus), receiver }
        } else {
            let queue = card.create_queue(ENTRIES)?;
            queue.set_polling(polling(options.wait));
            let area = card.create_area(length)?;
            let slot = card.slot(&area).metadata_entries(1).queue(&queue).create()?;
            Protocol::Plain { terminus, slot, queue }
        };
        let received = bytes.clone();
        Ok(Self { metadata, bytes, buffer, fetched, received, protocol, last: None })
    }

    fn ticket(&self) -> Outcome<Ticket> {
        Ok(match &self.protocol {
            Protocol::Tagged { receiver, .. } => receiver.ticket()?,
            Protocol::Plain { slot, .. } => slot.ticket(0)?,
        })
    }

    fn send(&mut self, peer: &Ticket, round: u64) -> Outcome {
        mark(&mut self.metadata, round);
        if self.fetched.is_some() {
            return self.send_fetched(peer, round);
        }
        let message = Message::to(peer).metadata(&self.metadata);
        let length = self.bytes.len();
        let source = if length <= message.direct_limit() {
            mark(&mut self.bytes, round);
            Source::Bytes(&self.bytes)
        } else {
            let start = fill(&mut self.buffer, length, round)?;
            Source::Piece(self.buffer.piece(start, length)?)
        };
        let handle = match &self.protocol {
            Protocol::Tagged { sender, .. } => sender.send(peer, source, 0, 7)?,
            Protocol::Plain { terminus, .. } => terminus.send(&message, source)?,
        };
        self.last = Some(handle);
        Ok(())
    }

    /// Sends a request as the paper's library wrote it: tuples for metadata and data, with none of
    /// their bytes in the request.
    fn send_fetched(&mut self, peer: &Ticket, round: u64) -> Outcome {
        let (Some(fetched), Protocol::Plain { terminus, .. }) = (&mut self.fetched, &self.protocol) else {
            return Err("a tagged remote write has no metadata to fetch".into());
        };
        let length = self.bytes.len();
        let place = (round % 2) as usize * METADATA;
        fetched.write(place, &self.metadata)?;
        let start = fill(&mut self.buffer, length, round)?;
        let tuple = |buffer: &SendBuffer, offset: usize, length: usize| HamlynGather {
            tag: buffer.tag(),
            offset: offset as u32,
            length: length as u32,
            ..HamlynGather::default()
        };
        let both = [tuple(fetched, place, self.metadata.len()), tuple(&self.buffer, start, length)];
        let tuples: Vec<HamlynGather> = both.into_iter().filter(|tuple| tuple.length > 0).collect();
        let head = HamlynRequest {
            destination: peer.destination,
            slot: peer.slot,
            metadata_index: peer.metadata_index,
            flags: HAMLYN_REQUEST_DMA | HAMLYN_REQUEST_INTERRUPT,
            key: peer.key,
            offset: peer.base,
            length: length as u32,
            metadata_length: self.metadata.len() as u32,
            gather_count: tuples.len() as u32,
            ..HamlynRequest::default()
        };
        self.last = Some(terminus.post(&RequestBlock::raw(&head, tuples.as_bytes())?)?);
        Ok(())
    }

    fn receive(&mut self, wait: Wait, round: u64) -> Outcome {
        match (&mut self.protocol, wait) {
            (Protocol::Tagged { receiver, .. }, Wait::Poll | Wait::Yield) => {
                receiver.recv_polling_timeout(PATIENCE).map(drop)
            }
            (Protocol::Tagged { receiver, .. }, _) => receiver.recv_timeout(PATIENCE).map(drop),
            (Protocol::Plain { queue, .. }, Wait::Poll | Wait::Yield) => {
                queue.recv_polling_timeout(PATIENCE).map(drop)
            }
            (Protocol::Plain { queue, .. }, _) => queue.recv_timeout(PATIENCE).map(drop),
        }?;
        self.read(round)
    }

    /// Reads and checks the message. It is the one of this round, because only one is ever in
    /// flight.
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

    /// Waits for the last request. A request that is still in the work queue when the terminus is
    /// destroyed would be abandoned.
    fn drain(&self) -> Outcome {
        self.last.as_ref().map_or(Ok(()), |last| Ok(last.wait_timeout(PATIENCE)?))
    }
}
