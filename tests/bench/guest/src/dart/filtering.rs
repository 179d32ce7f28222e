//! The cost of a message to the receiving host (section 1). The kinds are data alone, an
//! accumulated event, an urgent event, and a message that the host's software executes. Without a
//! filtering card, all messages would be of the last kind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use hamlyn::dart::{Connection, Operation, Queue, Record, Urgency, What};
use serde_json::json;

use crate::dart::deposits::BLOCK;
use crate::dart::ends::{End, connect, other_host};
use crate::engine::lap_words::{ASKED, DATA, Words};
use crate::engine::result::{Meter, Outcome, say};
use crate::engine::wait::PATIENCE;

/// Maximum records of a queue.
const RECORDS: u32 = 1 << 16;
/// Places of the data, which are used as sources in turn.
const PLACES: u64 = 64;

/// Words between the two ends. `SENT`: both are ready, or all was sent. `TAKEN`: all was taken.
/// `WRONG`: some data is not what was sent.
const SENT: u32 = 1;
const TAKEN: u32 = 2;
const WRONG: u32 = 3;

/// What a message means to its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// No message: the host's own base load
    None,
    /// Data, without a notification
    Data,
    /// Data and an event, which is taken with all others at the end
    Delayed,
    /// Data and an event that interrupts, for which a process sleeps
    Immediate,
    /// A software exception, for which a process sleeps, and which that process executes
    Exception,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Messages
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=u64::from(RECORDS)))]
    count: u64,
    /// Microseconds between two messages: longer than the receiver takes for one
    #[arg(long, default_value_t = 500)]
    gap: u64,
    /// What a message means to its receiver
    #[arg(long, value_enum, default_value = "data")]
    kind: Kind,
}

/// A connection for the messages, in addition to the one for words.
struct Ends {
    end: End,
    connection: Arc<Connection>,
    /// One for events, one for exceptions.
    queues: [Queue; 2],
}

impl Ends {
    fn open(options: &Options) -> Outcome<Self> {
        let end = End::open_alone(PLACES as usize * BLOCK)?;
        let urgency = if options.kind == Kind::Delayed { Urgency::Delayed } else { Urgency::Immediate };
        let queues = [end.card.queue(RECORDS, urgency)?, end.card.queue(RECORDS, Urgency::Immediate)?];
        let bank = end.card.bank(1, 0)?;
        let builder = end.card.connection(&end.endpoint, &bank).events(&queues[0]).exceptions(&queues[1]);
        let connection = Arc::new(builder.open(other_host(&end.card)?)?);
        connect([&*end.connection, &*connection])?;
        Ok(Self { end, connection, queues })
    }
}

fn place(number: u64) -> u64 {
    DATA as u64 + number % PLACES * BLOCK as u64
}

/// Returns the data of a message.
fn data(number: u64) -> [u8; BLOCK] {
    [number as u8 ^ 0x5a; BLOCK]
}

/// Sends one message per gap.
pub(crate) fn send(options: &Options) -> Outcome {
    let ends = Ends::open(options)?;
    ends.end.wait(ASKED, 0)?;
    let meter = Meter::start();
    let start = Instant::now();
    for number in 0..options.count {
        let due = Duration::from_micros(number * options.gap);
        // Spin to stay awake: only the receiving host is measured.
        while start.elapsed() < due {
            std::hint::spin_loop();
        }
        let at = place(number);
        let message = match options.kind {
            Kind::None => continue,
            Kind::Data => Operation::write(at),
            Kind::Delayed | Kind::Immediate => Operation::write(at).tell(),
            Kind::Exception => Operation::exception(0, at),
        };
        // The previous message from this place has left long ago.
        ends.end.endpoint.write(at as usize, &data(number))?;
        ends.connection.send_timeout(&message, at..at + BLOCK as u64, PATIENCE)?;
    }
    ends.end.say(ASKED, SENT)?;
    match ends.end.wait(ASKED, SENT) {
        Ok(TAKEN) => {}
        other => {
            let status = ends.connection.status();
            return Err(format!("the receiver has not taken what was sent ({other:?}): {status:?}").into());
        }
    }
    let (ns, cpu_ns) = meter.stop();
    say(&json!({ "messages": options.count, "all": options.count, "ns": ns, "cpu_ns": cpu_ns }))
}

/// Takes the messages in the way that their kind requires.
pub(crate) fn take(options: &Options) -> Outcome {
    let mut ends = Ends::open(options)?;
    ends.end.say(ASKED, SENT)?;
    let taken = take_all(&mut ends, options);
    ends.end.say(ASKED, if taken.is_ok() { TAKEN } else { WRONG })?;
    taken?;
    say(&json!({ "messages": options.count }))
}

fn take_all(ends: &mut Ends, options: &Options) -> Outcome {
    match options.kind {
        Kind::None | Kind::Data | Kind::Delayed => {}
        Kind::Immediate => each(&mut ends.queues[0], options.count, What::Compared, |_| Ok(()))?,
        Kind::Exception => {
            let endpoint = &ends.end.endpoint;
            each(&mut ends.queues[1], options.count, What::Exception, |record| {
                Ok(endpoint.write(record.operand() as usize, &record.data)?)
            })?;
        }
    }
    ends.end.wait(ASKED, 0)?;
    if options.kind == Kind::Delayed {
        each(&mut ends.queues[0], options.count, What::Compared, |_| Ok(()))?;
    }
    check(&ends.end, options)
}

/// Takes `count` records, each as it arrives.
fn each(queue: &mut Queue, count: u64, what: What, mut act: impl FnMut(&Record) -> Outcome) -> Outcome {
    for number in 0..count {
        let record = queue.recv_timeout(PATIENCE)?;
        if record.what != what || record.operand() != place(number) {
            return Err(format!("record {number} is {record:?}").into());
        }
        act(&record)?;
    }
    Ok(())
}

/// Checks that the data of the last messages has arrived.
fn check(end: &End, options: &Options) -> Outcome {
    if options.kind == Kind::None {
        return Ok(());
    }
    for number in options.count.saturating_sub(PLACES)..options.count {
        let mut found = [0; BLOCK];
        end.endpoint.read(place(number) as usize, &mut found)?;
        if found != data(number) {
            return Err(format!("message {number} did not bring its data").into());
        }
    }
    Ok(())
}
