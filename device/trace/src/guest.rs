//! Events of a machine's kernel, from the text of its `trace_pipe`, on the host's clock.

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

/// What is known of the distance between a machine's clock and the host's, in nanoseconds: the
/// host's time minus the machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    least: i128,
    most: i128,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { least: i128::MIN, most: i128::MAX }
    }
}

impl Clock {
    /// Notes that an event of the machine came after something of the host.
    pub fn after(&mut self, host: u64, guest: u64) {
        self.least = self.least.max(i128::from(host) - i128::from(guest));
    }

    /// Notes that an event of the machine came before something of the host.
    pub fn before(&mut self, host: u64, guest: u64) {
        self.most = self.most.min(i128::from(host) - i128::from(guest));
    }

    /// Notes that an event of the machine has its cause among these times of the host. Of several
    /// possible causes none is taken.
    pub fn caused_by(&mut self, guest: u64, causes: impl Iterator<Item = u64>) {
        let Some((least, most)) = self.span(guest) else { return };
        let mut possible = causes.filter(|cause| (least..=most).contains(cause));
        if let (Some(cause), None) = (possible.next(), possible.next()) {
            self.after(cause, guest);
        }
    }

    /// Returns the times of the host between which a time of the machine is.
    fn span(&self, guest: u64) -> Option<(u64, u64)> {
        let host = |distance: i128| u64::try_from(distance.checked_add(guest.into())?).ok();
        Some((host(self.least)?, host(self.most)?))
    }

    /// Returns the earliest possible time of the host: an event comes soon after its cause.
    #[must_use]
    pub fn host(&self, guest: u64) -> Option<u64> {
        self.span(guest).map(|(least, _)| least)
    }

    /// Returns by how much a time may be too early, in nanoseconds; `None` before any is known.
    #[must_use]
    pub fn error(&self) -> Option<u64> {
        u64::try_from(self.most.checked_sub(self.least)?.max(0)).ok()
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
    fn marks_and_causes_narrow_the_clock() {
        let mut clock = Clock::default();
        assert_eq!((clock.host(5), clock.error()), (None, None));
        clock.after(1_000, 100);
        clock.before(2_000, 110);
        assert_eq!((clock.host(100), clock.error()), (Some(1_000), Some(990)));
        clock.caused_by(200, [1_050, 1_400, 9_000].into_iter());
        assert_eq!(clock.host(200), Some(1_400), "the only one that is possible");
        clock.caused_by(300, [1_600, 1_700].into_iter());
        assert_eq!(clock.host(300), Some(1_500), "either may be the cause");
        clock.after(500, 100);
        assert_eq!(clock.error(), Some(690), "a looser bound changes nothing");
    }
}
