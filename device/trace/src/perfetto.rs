//! Traces for ui.perfetto.dev and `trace_processor`, in the JSON format that both open.
//!
//! A card is a process with a track for its machine's accesses, one for its own work, and one for
//! its link. A packet's way is a flow from the store that rang for it to the interrupt at its
//! receiver.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::event::Event;
use crate::message::Message;
use crate::record::Kind;

/// Tracks of a card.
const TRACKS: [&str; 3] = ["processor", "card", "wire"];
const PROCESSOR: usize = 1;
const CARD: usize = 2;
const WIRE: usize = 3;
/// Length of an event that takes no time, in microseconds: a flow needs something to end at.
const POINT: f64 = 0.5;

/// Writes a trace.
#[derive(Debug)]
pub struct Perfetto<W: Write> {
    out: W,
    first: bool,
    /// The event that each card handles: its end is not known yet.
    open: Vec<Option<Event>>,
}

impl<W: Write> Perfetto<W> {
    /// Begins a trace of these cards.
    ///
    /// # Errors
    /// As the writer's.
    pub fn new(mut out: W, cards: &[String]) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        let mut perfetto = Perfetto { out, first: true, open: vec![None; cards.len()] };
        for (card, name) in cards.iter().enumerate() {
            let name = json!({ "name": name });
            perfetto.put(&json!({ "ph": "M", "name": "process_name", "pid": card + 1, "args": name }))?;
            for (track, name) in TRACKS.iter().enumerate() {
                let (pid, tid, name) = (card + 1, track + 1, json!({ "name": name }));
                perfetto.put(
                    &json!({ "ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": name }),
                )?;
            }
        }
        Ok(perfetto)
    }

    /// Writes an event.
    ///
    /// # Errors
    /// As the writer's.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        match event.kind {
            Kind::Done => match self.open[event.card].take() {
                Some(begun) => self.slice(&begun, micros(event.time) - micros(begun.time)),
                None => Ok(()),
            },
            Kind::RegisterWrite | Kind::Store | Kind::Arrive => {
                match self.open[event.card].replace(event.clone()) {
                    Some(unfinished) => self.slice(&unfinished, POINT),
                    None => Ok(()),
                }
            }
            _ => self.slice(event, POINT),
        }
    }

    /// Writes a packet's way.
    ///
    /// # Errors
    /// As the writer's.
    pub fn message(&mut self, message: &Message) -> io::Result<()> {
        let last = message.steps.len().saturating_sub(1);
        for (index, step) in message.steps.iter().enumerate() {
            let phase = match index {
                0 => "s",
                index if index == last => "f",
                _ => "t",
            };
            let tid = match step.what {
                "doorbell" | "store" => PROCESSOR,
                "send" | "arrive" => WIRE,
                _ => CARD,
            };
            let (pid, ts) = (step.card + 1, micros(step.time));
            self.put(&json!({
                "ph": phase, "bp": "e", "id": message.number, "cat": "packet", "name": "packet",
                "pid": pid, "tid": tid, "ts": ts,
            }))?;
        }
        Ok(())
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// As the writer's.
    pub fn finish(mut self) -> io::Result<()> {
        for begun in std::mem::take(&mut self.open).into_iter().flatten() {
            self.slice(&begun, POINT)?;
        }
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }

    fn slice(&mut self, event: &Event, length: f64) -> io::Result<()> {
        let tid = match event.kind {
            Kind::RegisterRead | Kind::LateRead | Kind::RegisterWrite => PROCESSOR,
            Kind::Store | Kind::Reset | Kind::Guest => PROCESSOR,
            Kind::Send | Kind::Arrive | Kind::Link => WIRE,
            _ => CARD,
        };
        let mut arguments = Map::new();
        for field in &event.fields {
            let name = if field.name.is_empty() { "value" } else { &field.name };
            let value = field.meaning.as_deref().map_or(Value::from(field.value), Value::from);
            arguments.insert(name.into(), value);
        }
        self.put(&json!({
            "ph": "X", "name": format!("{} {}", event.what, event.subject), "pid": event.card + 1, "tid": tid,
            "ts": micros(event.time), "dur": length.max(POINT / 10.0), "args": arguments,
        }))
    }

    fn put(&mut self, object: &Value) -> io::Result<()> {
        if !std::mem::take(&mut self.first) {
            self.out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut self.out, object)?;
        Ok(())
    }
}

fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}
