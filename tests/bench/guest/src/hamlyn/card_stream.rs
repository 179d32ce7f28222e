//! One-way bandwidth through cards. The sender keeps its work queue full. Only the last message of
//! a lap notifies the receiver's process (section 1: the others only move data); it arrives after
//! all others.

use std::collections::VecDeque;

use hamlyn::{
    Card, Handle, Message, MessageArea, NotificationQueue, Pages, SendBuffer, Slot, Source, Terminus, Ticket,
};
use serde_json::json;

use crate::engine::laps::{Lap, Laps, Sum};
use crate::engine::result::{Meter, Outcome, say};
use crate::engine::wait::PATIENCE;
use crate::hamlyn::tickets::exchange_tickets;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    laps: Laps,
    /// Maximum messages in flight
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=32))]
    window: u32,
    /// Uses the program's own memory
    #[arg(long)]
    own: bool,
    /// Number of a message to leave out, to test that the receiver detects it
    #[arg(long, hide = true)]
    leave_out: Option<u64>,
}

impl Options {
    /// Returns the memory for the receiver's places.
    fn area(&self, card: &Card) -> Outcome<MessageArea> {
        let bytes = self.laps.bytes();
        Ok(if self.own { card.lend(Pages::new(bytes))? } else { card.create_area(bytes)? })
    }

    /// Returns the memory for the sender's places.
    fn buffer(&self, terminus: &Terminus) -> Outcome<SendBuffer> {
        let bytes = self.laps.bytes();
        Ok(if self.own { terminus.lend(Pages::new(bytes))? } else { terminus.create_send_buffer(bytes)? })
    }
}

/// The receiver's report after it has checked a lap: all bytes are correct.
const RIGHT: [u8; 8] = *b"as sent.";
const WRONG: [u8; 8] = *b"not so..";

pub(crate) fn sink(options: &Options) -> Outcome {
    let laps = options.laps;
    let card = Card::open_default()?;
    let area = options.area(&card)?;
    let queue = card.create_queue(64)?;
    let slot = card.slot(&area).metadata_entries(1).queue(&queue).create()?;
    let terminus = card.create_terminus()?;
    let peer = exchange_tickets(&slot.ticket(0)?)?;
    let mut sum = Sum::default();
    for lap in laps.laps() {
        let meter = Meter::start();
        queue.recv_timeout(PATIENCE)?;
        sum.add(&lap, meter);
        terminus.send(&Message::to(&peer), &[0; 8])?.wait_timeout(PATIENCE)?;
        let found = laps.check(&lap, |at, bytes| Ok(slot.read(at, bytes)?));
        let word = if found.is_ok() { RIGHT } else { WRONG };
        terminus.send(&Message::to(&peer), &word)?.wait_timeout(PATIENCE)?;
        found?;
    }
    say(&json!({ "messages": laps.count, "cpu_ns": sum.cpu_ns }))
}

pub(crate) fn send(options: &Options) -> Outcome {
    let card = Card::open_default()?;
    let area = card.create_area(RIGHT.len())?;
    let queue = card.create_queue(8)?;
    let slot = card.slot(&area).metadata_entries(1).queue(&queue).create()?;
    let terminus = card.create_terminus()?;
    let buffer = options.buffer(&terminus)?;
    let peer = exchange_tickets(&slot.ticket(0)?)?;
    let mut sender = Sender { options, terminus, buffer, peer, under_way: VecDeque::new() };
    sender.send_all(&queue, |_| hear_verdict(&queue, &slot))
}

/// Sends from a process to itself (Figure 10): both ends of every lap.
pub(crate) fn send_self(options: &Options) -> Outcome {
    let laps = options.laps;
    let card = Card::open_default()?;
    let area = options.area(&card)?;
    let queue = card.create_queue(8)?;
    let slot = card.slot(&area).metadata_entries(1).queue(&queue).create()?;
    let terminus = card.create_terminus()?;
    let buffer = options.buffer(&terminus)?;
    let mut sender = Sender { options, terminus, buffer, peer: slot.ticket(0)?, under_way: VecDeque::new() };
    sender.send_all(&queue, |lap| laps.check(lap, |at, bytes| Ok(slot.read(at, bytes)?)))
}

/// The sender of laps.
struct Sender<'a> {
    options: &'a Options,
    terminus: Terminus,
    buffer: SendBuffer,
    peer: Ticket,
    under_way: VecDeque<Handle>,
}

impl Sender<'_> {
    /// Sends all laps and prints the result. A notification in `queue` shows that a lap has
    /// arrived; then `look` checks its bytes.
    fn send_all(&mut self, queue: &NotificationQueue, look: impl Fn(&Lap) -> Outcome) -> Outcome {
        let laps = self.options.laps;
        let mut sum = Sum::default();
        for lap in laps.laps() {
            laps.fill(&lap, |at, bytes| Ok(self.buffer.write(at, bytes)?))?;
            let meter = Meter::start();
            self.send(&lap)?;
            wait(queue)?;
            sum.add(&lap, meter);
            look(&lap)?;
        }
        let (bytes, all) = (laps.count * laps.size as u64, laps.all());
        say(
            &json!({ "bytes": bytes, "messages": laps.count, "all": all, "ns": sum.ns, "cpu_ns": sum.cpu_ns }),
        )
    }

    fn send(&mut self, lap: &Lap) -> Outcome {
        let laps = self.options.laps;
        for number in lap.messages.clone() {
            if self.options.leave_out == Some(number) {
                continue;
            }
            if self.under_way.len() == self.options.window as usize {
                let oldest = self.under_way.pop_front();
                oldest.map_or(Ok(()), |handle| handle.wait_timeout(PATIENCE))?;
            }
            let place = laps.place(number);
            let source = Source::Piece(self.buffer.piece(place, laps.size)?);
            let message = Message::to(&self.peer).offset(place as u32);
            let message = if number + 1 < lap.messages.end { message.silent() } else { message };
            self.under_way.push_back(self.terminus.send(&message, source)?);
        }
        self.under_way.drain(..).try_for_each(|handle| Ok(handle.wait_timeout(PATIENCE)?))
    }
}

fn wait(queue: &NotificationQueue) -> Outcome {
    queue.recv_timeout(PATIENCE)?;
    Ok(())
}

/// Waits for the receiver's report that every byte is correct.
fn hear_verdict(queue: &NotificationQueue, slot: &Slot) -> Outcome {
    wait(queue)?;
    let mut word = RIGHT;
    slot.read(0, &mut word)?;
    if word != RIGHT {
        return Err("the receiver found a message that is not what was sent".into());
    }
    Ok(())
}
