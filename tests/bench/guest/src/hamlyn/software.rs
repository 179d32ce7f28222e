//! The processor time of a message in the sending and the receiving program: the host protocol
//! software of Table 4. The card does nothing, so the program never waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hamlyn::Card;
use hamlyn::attach::Attachment;
use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn_bench_guest::pattern::{check_mark, mark};
use serde_json::json;

use crate::engine::result::{Outcome, nanoseconds, say};
use crate::hamlyn::card::ENTRIES;
use crate::hamlyn::null_card::NullCard;
use crate::hamlyn::raw::{self, SIZE, TAG};

/// Messages between two turns of the card: fewer than a work queue holds.
const TURN: u32 = 32;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Messages to measure
    #[arg(long, default_value_t = 20_000)]
    count: u64,
    /// Does not use the library
    #[arg(long)]
    raw: bool,
}

/// Sends or receives one message, given its number.
type Act<'a> = Box<dyn FnMut(u64) -> Outcome + 'a>;

pub(crate) fn run(options: &Options) -> Outcome {
    let null = Arc::new(NullCard::default());
    let attachment: Arc<dyn Attachment> = null.clone();
    let time = if options.raw {
        let mut receiver = raw::Receiver::create(&attachment)?;
        let mut sender = raw::Sender::new(attachment.create_terminus(1)?, &receiver.ticket()?);
        let (send, receive) = (|number| sender.send(number), |number| receiver.receive(number));
        timed(&null, options.count, Box::new(send), Box::new(receive))?
    } else {
        let card = Card::attached(attachment);
        let mut receiver = TagReceiver::create(&card, SIZE, ENTRIES)?;
        let (sender, peer) = (TagSender::new(card.create_terminus()?), receiver.ticket()?);
        let (mut bytes, mut received) = ([0; SIZE], [0; SIZE]);
        let send = |number| {
            mark(&mut bytes, number);
            sender.send(&peer, &bytes, 0, TAG)?;
            Ok(())
        };
        let receive = |number| {
            receiver.recv_polling()?;
            receiver.read(0, &mut received)?;
            Ok(check_mark(&received, number)?)
        };
        timed(&null, options.count, Box::new(send), Box::new(receive))?
    };
    say(&json!({ "messages": options.count, "ns": nanoseconds(time).max(1), "cpu_ns": nanoseconds(time) }))
}

/// Returns the time of both ends for `count` messages. The very first messages warm up the
/// processor's caches.
fn timed(null: &NullCard, count: u64, mut send: Act<'_>, mut receive: Act<'_>) -> Outcome<Duration> {
    let (mut time, mut left, mut turn) = (Duration::ZERO, count, 0_u64);
    while left > 0 {
        let messages = u64::from(TURN).min(left);
        let start = Instant::now();
        (0..messages).try_for_each(|_| send(turn))?;
        let sent = start.elapsed();
        let mut bytes = [0; SIZE];
        mark(&mut bytes, turn);
        null.carry(messages as u32, TAG, &bytes);
        let start = Instant::now();
        (0..messages).try_for_each(|_| receive(turn))?;
        if turn > 0 {
            time += sent + start.elapsed();
            left -= messages;
        }
        turn += 1;
    }
    Ok(time)
}
