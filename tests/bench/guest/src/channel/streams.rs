//! Messages one way, in laps: copied in and copied out, or built and read in place.

use serde_json::json;

use crate::channel::either::{Act, connect, listen};
use crate::channel::end::{End, Way};
use crate::engine::laps::{Laps, Sum};
use crate::engine::result::{Meter, Outcome, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    laps: Laps,
    #[command(flatten)]
    way: Way,
    /// Copies no bytes: each message has its number at both ends, and arbitrary bytes in between
    #[arg(long)]
    in_place: bool,
}

/// The receiver's reports on a lap: all messages have arrived, and all of them are correct.
const THERE: [u8; 8] = *b"arrived.";
const RIGHT: [u8; 8] = *b"as sent.";

struct Sink<'a>(&'a Options);
struct Send<'a>(&'a Options);

pub(crate) fn sink(options: &Options) -> Outcome {
    listen(&options.way, Sink(options))
}

pub(crate) fn send(options: &Options) -> Outcome {
    connect(&options.way, Send(options))
}

impl Options {
    /// Returns the program's own buffer, which is empty for messages in place.
    fn buffer(&self) -> Vec<u8> {
        if self.in_place { Vec::new() } else { vec![0; self.laps.bytes()] }
    }
}

impl Act for Sink<'_> {
    fn with(self, mut end: impl End) -> Outcome {
        let Options { laps, in_place, .. } = *self.0;
        let mut buffer = self.0.buffer();
        let mut sum = Sum::default();
        for lap in laps.laps() {
            let meter = Meter::start();
            for message in lap.messages.clone() {
                if in_place {
                    end.receive_in_place(laps.size, message)?;
                } else {
                    let place = laps.place(message);
                    end.receive(&mut buffer[place..place + laps.size])?;
                }
            }
            sum.add(&lap, meter);
            end.send(&THERE)?;
            if !in_place {
                laps.check(&lap, |at, bytes| {
                    bytes.copy_from_slice(&buffer[at..at + bytes.len()]);
                    Ok(())
                })?;
            }
            end.send(&RIGHT)?;
        }
        say(&json!({ "messages": laps.count, "cpu_ns": sum.cpu_ns }))
    }
}

impl Act for Send<'_> {
    fn with(self, mut end: impl End) -> Outcome {
        let Options { laps, in_place, .. } = *self.0;
        let mut buffer = self.0.buffer();
        let mut sum = Sum::default();
        for lap in laps.laps() {
            if !in_place {
                laps.fill(&lap, |at, bytes| {
                    buffer[at..at + bytes.len()].copy_from_slice(bytes);
                    Ok(())
                })?;
            }
            let meter = Meter::start();
            for message in lap.messages.clone() {
                if in_place {
                    end.send_in_place(laps.size, message)?;
                } else {
                    let place = laps.place(message);
                    end.send(&buffer[place..place + laps.size])?;
                }
            }
            hear(&mut end, THERE)?;
            sum.add(&lap, meter);
            hear(&mut end, RIGHT)?;
        }
        let (bytes, all) = (laps.count * laps.size as u64, laps.all());
        say(
            &json!({ "bytes": bytes, "messages": laps.count, "all": all, "ns": sum.ns, "cpu_ns": sum.cpu_ns }),
        )
    }
}

fn hear(end: &mut impl End, expected: [u8; 8]) -> Outcome {
    let mut word = [0; 8];
    end.receive(&mut word)?;
    if word == expected { Ok(()) } else { Err("the receiver said something else than what was due".into()) }
}
