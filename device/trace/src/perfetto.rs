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
/// Longest length of an event that takes no time, in nanoseconds: a flow needs something to end at.
/// It ends before the next event of its track, as `trace_processor` drops slices that overlap.
const POINT: u64 = 500;

/// Writes a trace.
#[derive(Debug)]
pub struct Perfetto<W: Write> {
    out: W,
    first: bool,
    cards: Vec<Card>,
}

/// What is not written yet of a card.
#[derive(Debug, Clone, Default)]
struct Card {
    /// The event that it handles: its end is not known yet.
    open: Option<Event>,
    /// The last event of each track that takes no time: the next one is not known yet.
    points: [Option<Event>; TRACKS.len()],
}

impl<W: Write> Perfetto<W> {
    /// Begins a trace of these cards.
    ///
    /// # Errors
    /// As the writer's.
    pub fn new(mut out: W, cards: &[String]) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        let mut perfetto = Perfetto { out, first: true, cards: vec![Card::default(); cards.len()] };
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
            Kind::Done => {
                let Some(begun) = self.cards[event.card].open.take() else { return Ok(()) };
                self.end_point(event.card, track(&begun), event.time)?;
                self.slice(&begun, event.time.saturating_sub(begun.time))
            }
            Kind::RegisterWrite | Kind::Store | Kind::Arrive => {
                self.end_point(event.card, track(event), event.time)?;
                match self.cards[event.card].open.replace(event.clone()) {
                    Some(unfinished) => self.slice(&unfinished, event.time.saturating_sub(unfinished.time)),
                    None => Ok(()),
                }
            }
            _ => {
                self.end_point(event.card, track(event), event.time)?;
                self.cards[event.card].points[track(event) - 1] = Some(event.clone());
                Ok(())
            }
        }
    }

    /// Writes the last event of a track that takes no time, at the time of the next one.
    fn end_point(&mut self, card: usize, track: usize, next: u64) -> io::Result<()> {
        let last = self.cards[card].points[track - 1].take();
        last.map_or(Ok(()), |last| self.point(&last, next))
    }

    fn point(&mut self, event: &Event, next: u64) -> io::Result<()> {
        self.slice(event, next.saturating_sub(event.time).min(POINT))
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
        for card in std::mem::take(&mut self.cards) {
            let mut end = 0;
            for point in card.points.iter().flatten() {
                end = end.max(point.time + POINT);
                self.point(point, u64::MAX)?;
            }
            if let Some(begun) = &card.open {
                self.slice(begun, end.saturating_sub(begun.time).max(POINT))?;
            }
        }
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }

    /// Writes a slice, with its length in nanoseconds.
    fn slice(&mut self, event: &Event, length: u64) -> io::Result<()> {
        let mut arguments = Map::new();
        for field in &event.fields {
            let name = if field.name.is_empty() { "value" } else { &field.name };
            let value = field.meaning.as_deref().map_or(Value::from(field.value), Value::from);
            arguments.insert(name.into(), value);
        }
        self.put(&json!({
            "ph": "X", "name": format!("{} {}", event.what, event.subject), "pid": event.card + 1, "tid": track(event),
            "ts": micros(event.time), "dur": micros(length), "args": arguments,
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

/// Returns an event's track.
fn track(event: &Event) -> usize {
    match event.kind {
        Kind::RegisterRead | Kind::LateRead | Kind::RegisterWrite => PROCESSOR,
        Kind::Store | Kind::Reset | Kind::Guest => PROCESSOR,
        Kind::Send | Kind::Arrive | Kind::Link => WIRE,
        _ => CARD,
    }
}

fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}
