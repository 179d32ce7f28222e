//! One-way bandwidth through cards: the sender keeps its work queue full, and the receiver's process is told of the last
//! message (section 1: the others only move data), which arrives when all have.

use std::thread::sleep;
use std::time::Duration;

use hamlyn::{Card, Message, Polling, Source};
use serde_json::json;

use crate::result::{Meter, exchange_tickets, say};
use crate::{Outcome, PATIENCE};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Bytes of each message
    #[arg(long, default_value_t = 65536)]
    size: usize,
    /// Messages
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// Messages before them, which are not measured
    #[arg(long, default_value_t = 50)]
    warmup: u64,
    /// Messages under way at most. Each has a place of its own in the sender's buffer and in the receiver's
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=32))]
    window: u32,
}

impl Options {
    /// Bytes of all places.
    fn places(&self) -> usize {
        self.size * self.window as usize
    }

    /// Messages, those that are not measured among them.
    fn all(&self) -> u64 {
        self.warmup + self.count
    }
}

/// The pattern that the data has, to be found at the receiver's.
const PATTERN: u8 = 0xc3;

/// A word to the sender: all has arrived.
pub(crate) fn sink(options: &Options) -> Outcome {
    let card = Card::open_default()?;
    let area = card.create_area(options.places())?;
    let queue = card.create_queue(65536)?;
    let slot = card.slot(&area).metadata_entries(1).queue(&queue).create()?;
    let terminus = card.create_terminus()?;
    let peer = exchange_tickets(&slot.ticket(0)?)?;
    let mut cpu_ns = 0;
    for messages in [options.warmup, options.count] {
        let meter = Meter::start();
        if messages > 0 {
            queue.recv_block(Some(PATIENCE))?;
        }
        cpu_ns = meter.stop().1;
        terminus.send(&Message::to(&peer), &[0; 8])?.wait(Some(PATIENCE))?;
    }
    let used = options.all().min(options.window.into()) as usize * options.size;
    let mut data = vec![0; used];
    slot.read(0, &mut data)?;
    if let Some(offset) = data.iter().position(|byte| *byte != PATTERN) {
        return Err(format!("byte {offset} of the last messages is {} (not {PATTERN})", data[offset]).into());
    }
    say(&json!({ "messages": options.count, "cpu_ns": cpu_ns }))
}

pub(crate) fn send(options: &Options) -> Outcome {
    let card = Card::open_default()?;
    let area = card.create_area(8)?;
    let queue = card.create_queue(2)?;
    let slot = card.slot(&area).metadata_entries(1).queue(&queue).create()?;
    let terminus = card.create_terminus()?;
    let mut buffer = terminus.create_send_buffer(options.places())?;
    buffer.write(0, &vec![PATTERN; options.places()])?;
    let peer = exchange_tickets(&slot.ticket(0)?)?;
    let mut measured = (0, 0);
    let mut places = (0..options.window as usize).map(|place| place * options.size).cycle();
    for messages in [options.warmup, options.count] {
        let meter = Meter::start();
        let mut under_way = std::collections::VecDeque::new();
        for number in 1..=messages {
            if under_way.len() == options.window as usize {
                let oldest: Option<hamlyn::Handle> = under_way.pop_front();
                oldest.map_or(Ok(()), |handle| handle.wait(Some(PATIENCE)))?;
            }
            let place = places.next().unwrap_or_default();
            let source = Source::Piece(buffer.piece(place, options.size)?);
            let message = Message::to(&peer).offset(place as u32);
            let message = if number < messages { message.silent() } else { message };
            under_way.push_back(terminus.send(&message, source)?);
        }
        under_way.iter().try_for_each(|handle| handle.wait(Some(PATIENCE)))?;
        queue.recv_block_with(Polling::default(), Some(PATIENCE))?;
        measured = meter.stop();
        sleep(Duration::from_millis(1));
    }
    let (ns, cpu_ns) = measured;
    let (bytes, all) = (options.count * options.size as u64, options.all());
    say(&json!({ "bytes": bytes, "messages": options.count, "all": all, "ns": ns, "cpu_ns": cpu_ns }))
}
