//! Events of a machine's kernel, from the text of its `trace_pipe`, on the host's clock.

use std::collections::VecDeque;

use crate::event::{Event, Field};
use crate::record::Kind;

/// Text before the number of a mark that the host has asked for.
pub const MARK: &str = "hamlyn-mark ";

/// An event of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When, in nanoseconds of the machine's monotonic clock.
    pub time: u64,
    /// Its task, with the process's number.
    pub task: String,
    /// Its name: `hamlyn_interrupt`.
    pub name: String,
    /// What it says of itself: `card=0 vector=1`.
    pub text: String,
}

impl Line {
    /// Reads a line: `TASK-PID [CPU] FLAGS SECONDS.MICROS: NAME: TEXT`. Returns `None` if it is
    /// another.
    #[must_use]
    pub fn parse(line: &str) -> Option<Line> {
        // A task's name may have spaces and brackets.
        let (task, rest) = line.rsplit_once(" [").filter(|(task, _)| !task.is_empty())?;
        let (head, rest) = rest.split_once(": ")?;
        let (name, text) = rest.split_once(':')?;
        let (seconds, micros) = head.split_whitespace().next_back()?.split_once('.')?;
        let (seconds, micros): (u64, u64) = (seconds.parse().ok()?, micros.parse().ok()?);
        let time = seconds.checked_mul(1_000_000)?.checked_add(micros)?.checked_mul(1000)?;
        let [task, name, text] = [task, name, text].map(|part| part.trim().to_owned());
        Some(Line { time, task, name, text })
    }

    /// Returns the number of the mark that this is.
    #[must_use]
    pub fn mark(&self) -> Option<usize> {
        self.text.strip_prefix(MARK).filter(|_| self.name == "tracing_mark_write")?.parse().ok()
    }

    /// Returns the vector of an interrupt of the card.
    #[must_use]
    pub fn vector(&self) -> Option<u64> {
        if self.name != "hamlyn_interrupt" {
            return None;
        }
        self.text.split(' ').find_map(|word| word.strip_prefix("vector="))?.parse().ok()
    }

    /// Returns the event, at a time of the host, of machine number `card` of a trace.
    #[must_use]
    pub fn event(&self, card: usize, time: u64) -> Event {
        let word = |word: &str| {
            let (name, value) = word.split_once('=').unwrap_or(("", word));
            Field { name: name.into(), value: value.parse().unwrap_or(0), meaning: Some(value.into()) }
        };
        let fields = self.text.split_whitespace().map(word);
        Event {
            time,
            card,
            kind: Kind::Guest,
            inner: false,
            what: "guest",
            subject: self.name.clone(),
            number: 0,
            fields: fields
                .chain([Field { name: "task".into(), value: 0, meaning: Some(self.task.clone()) }])
                .collect(),
            bytes: Vec::new(),
        }
    }
}

/// Length of a window of time, of the machine's clock in nanoseconds. In it the clocks' distance is
/// taken for constant.
const WINDOW: u64 = 5_000_000_000;

/// What is known of the distance between a machine's clock and the host's: the host's time minus
/// the machine's, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    least: i128,
    most: i128,
}

const UNKNOWN: Bounds = Bounds { least: i128::MIN, most: i128::MAX };

/// Relates a machine's clock to the host's.
///
/// Marks bound the distance: the host asks for a mark before it is made, and reads each event after
/// it has happened. Interrupts bound it more closely: before the machine's n-th one, the card has
/// raised at least n, because a machine takes several for one but never one for several.
#[derive(Debug)]
pub struct Clock {
    /// What the last whole window and this one have shown. Clocks drift, so older bounds are
    /// forgotten.
    before: Bounds,
    now: Bounds,
    window: u64,
    /// Interrupts that the card has raised and the machine may not have taken: time and vector.
    raised: VecDeque<(u64, u64)>,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { before: UNKNOWN, now: UNKNOWN, window: 0, raised: VecDeque::new() }
    }
}

impl Clock {
    /// Number of interrupts that are remembered. Older ones bound the distance too loosely to
    /// matter.
    const RAISED: usize = 4096;

    /// Notes that an event of the machine came after something of the host.
    pub fn after(&mut self, host: u64, guest: u64) {
        self.enter(guest);
        self.now.least = self.now.least.max(i128::from(host) - i128::from(guest));
    }

    /// Notes that an event of the machine came before something of the host.
    pub fn before(&mut self, host: u64, guest: u64) {
        self.enter(guest);
        self.now.most = self.now.most.min(i128::from(host) - i128::from(guest));
    }

    fn enter(&mut self, guest: u64) {
        let window = guest / WINDOW;
        if window > self.window {
            (self.before, self.now, self.window) = (self.now, UNKNOWN, window);
        }
    }

    /// Notes an interrupt that the card has raised.
    pub fn raised(&mut self, host: u64, vector: u64) {
        if self.raised.len() == Self::RAISED {
            self.raised.pop_front();
        }
        self.raised.push_back((host, vector));
    }

    /// Forgets the interrupts that were raised before a time: the machine's are counted from then
    /// on.
    pub fn count_from(&mut self, host: u64) {
        self.raised.retain(|(raised, _)| *raised >= host);
    }

    /// Notes an interrupt that the machine has taken.
    pub fn taken(&mut self, guest: u64, vector: u64) {
        let Some(first) = self.raised.iter().position(|(_, raised)| *raised == vector) else { return };
        if let Some((host, _)) = self.raised.remove(first) {
            self.after(host, guest);
        }
    }

    fn bounds(&self) -> Bounds {
        let (before, now) = (self.before, self.now);
        Bounds { least: before.least.max(now.least), most: before.most.min(now.most) }
    }

    /// Returns the earliest possible time of the host: an event comes soon after its cause.
    #[must_use]
    pub fn host(&self, guest: u64) -> Option<u64> {
        u64::try_from(self.bounds().least.checked_add(guest.into())?).ok()
    }

    /// Returns by how much a time may be too early, in nanoseconds; `None` before any is known.
    #[must_use]
    pub fn error(&self) -> Option<u64> {
        let Bounds { least, most } = self.bounds();
        u64::try_from(most.checked_sub(least)?.max(0)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_pipe_are_read() {
        let line = "       self-test-127     [000] d.h..     3.122955: hamlyn_interrupt: card=0 vector=1";
        let line = Line::parse(line).unwrap();
        assert_eq!((line.time, line.task.as_str(), line.vector()), (3_122_955_000, "self-test-127", Some(1)));
        let event = line.event(2, 7);
        assert_eq!(
            (event.subject.as_str(), event.field("vector"), event.card),
            ("hamlyn_interrupt", Some(1), 2)
        );
        let mark =
            Line::parse("   a [b] c-9  [000] .....  10.000001: tracing_mark_write: hamlyn-mark 12").unwrap();
        assert_eq!((mark.task.as_str(), mark.mark(), mark.time), ("a [b] c-9", Some(12), 10_000_001_000));
        for other in [
            "",
            "CPU:0 [LOST 3 EVENTS]",
            "x-1 [000] .... 5: y: z",
            "x-1 [000] .... 1.99999999999999999999: y: z",
        ] {
            assert_eq!(Line::parse(other), None, "{other}");
        }
    }

    #[test]
    fn marks_bound_the_distance() {
        let mut clock = Clock::default();
        assert_eq!((clock.host(5), clock.error()), (None, None));
        clock.after(1_000, 100);
        clock.before(2_000, 110);
        assert_eq!((clock.host(100), clock.error()), (Some(1_000), Some(990)));
        clock.after(500, 100);
        assert_eq!(clock.error(), Some(990), "a looser bound changes nothing");
    }

    #[test]
    fn interrupts_bound_the_distance_in_order() {
        let mut clock = Clock::default();
        clock.after(1_000, 100);
        clock.before(2_000, 100);
        for (host, vector) in [(900, 1), (1_700, 1), (1_750, 2), (1_800, 1)] {
            clock.raised(host, vector);
        }
        clock.count_from(1_000);
        clock.taken(300, 1);
        assert_eq!(clock.host(300), Some(1_700));
        // The machine takes two at once: what follows bounds too loosely, but never wrongly.
        clock.taken(700, 1);
        assert_eq!(clock.host(700), Some(2_100));
        clock.taken(700, 3);
        assert_eq!(clock.host(700), Some(2_100), "no such interrupt was raised");
    }

    #[test]
    fn bounds_of_old_windows_are_forgotten() {
        let mut clock = Clock::default();
        clock.after(1_000, 0);
        clock.before(1_100, 0);
        // The machine's clock has fallen behind by 500, and then by 600.
        clock.after(WINDOW + 1_490, WINDOW);
        assert_eq!(clock.host(WINDOW), Some(WINDOW + 1_490));
        clock.after(2 * WINDOW + 400, 2 * WINDOW);
        clock.before(2 * WINDOW + 1_700, 2 * WINDOW);
        assert_eq!((clock.host(0), clock.error()), (Some(1_490), Some(210)));
        clock.after(3 * WINDOW + 1_600, 3 * WINDOW);
        assert_eq!((clock.host(0), clock.error()), (Some(1_600), Some(100)));
    }
}
