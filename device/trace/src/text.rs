//! Events as lines: for people, and as JSON.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::event::Event;
use crate::message::Message;
use crate::record::Kind;

/// Bytes that a line shows.
const SHOWN: usize = 32;

/// Returns an event's line for people, or `None` if it shows nothing. `start` is the time of 0.
#[must_use]
pub fn line(event: &Event, card: &str, start: u64) -> Option<String> {
    if event.kind == Kind::Done {
        return None;
    }
    let (indent, Event { what, subject, .. }) = (if event.inner { "  " } else { "" }, event);
    let mut line = format!("{:>13} {card:<7} {indent}{what:<10} {subject}", seconds(event.time, start));
    let equals = matches!(event.fields.first(), Some(field) if field.name.is_empty());
    for field in &event.fields {
        // Writing to a string cannot fail.
        let _ = write!(line, "{} {field}", if equals { " =" } else { "" });
    }
    let plain = !matches!(event.what, "command" | "body" | "result" | "reset");
    if plain && !event.bytes.is_empty() {
        let _ = write!(line, "  {}", hex(&event.bytes[..event.bytes.len().min(SHOWN)]));
        if event.bytes.len() > SHOWN {
            line.push_str("..");
        }
    }
    Some(line)
}

/// Returns an event as a JSON object. Times are nanoseconds of the host's monotonic clock.
#[must_use]
pub fn object(event: &Event, card: &str) -> Option<Value> {
    if event.kind == Kind::Done {
        return None;
    }
    let mut object = json!({ "time": event.time, "card": card, "event": event.what });
    let (mut fields, mut meanings) = (Map::new(), Map::new());
    for field in &event.fields {
        let name = if field.name.is_empty() { "value" } else { &field.name };
        fields.insert(name.into(), field.value.into());
        if let Some(meaning) = &field.meaning {
            meanings.insert(name.into(), meaning.as_str().into());
        }
    }
    if !event.subject.is_empty() {
        object["of"] = event.subject.as_str().into();
    }
    if event.inner {
        object["inner"] = true.into();
    }
    for (name, map) in [("fields", fields), ("meanings", meanings)] {
        if !map.is_empty() {
            object[name] = map.into();
        }
    }
    if !event.bytes.is_empty() && !matches!(event.kind, Kind::Reset | Kind::Fault) {
        object["bytes"] = hex(&event.bytes).into();
    }
    Some(object)
}

/// Returns the table of a packet's way: each step with its time since the first and since the last.
#[must_use]
pub fn table(message: &Message, cards: &[String]) -> String {
    let Message { number, cards: [from, to], bytes, steps } = message;
    let mut text = format!("packet {number}, {} to {}, {bytes} bytes\n", cards[*from], cards[*to]);
    let first = steps.first().map_or(0, |step| step.time);
    let mut last = first;
    for step in steps {
        let micros = |from: u64| step.time.saturating_sub(from) as f64 / 1000.0;
        let _ = writeln!(
            text,
            "  {:<10} {:<10} {:>9.1} us {:>+9.1}",
            cards[step.card],
            step.what,
            micros(first),
            micros(last)
        );
        last = step.time;
    }
    text
}

fn seconds(time: u64, start: u64) -> String {
    format!("{:.6}", time.saturating_sub(start) as f64 / 1e9)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
