//! Lines of the log that a peer can cause.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines that may be said at once, one after the other.
const BURST: u32 = 10;
/// After those, one line in each such period.
const EACH: Duration = Duration::from_secs(1);

/// A kind of line of the log that peers can cause as often as they like: some are said at once,
/// then one each second, with the number of those that were not.
///
/// ```
/// static REFUSED: hamlyn_door::Limited = hamlyn_door::Limited::new();
/// if let Some(unsaid) = REFUSED.turn() {
///     tracing::info!("a client is refused{unsaid}");
/// }
/// ```
#[derive(Debug)]
pub struct Limited(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Lines that may be said.
    left: u32,
    /// When the last line was earned.
    since: Option<Instant>,
    unsaid: u64,
}

/// How many lines were not said before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsaid(u64);

impl fmt::Display for Unsaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            lines => write!(f, " (and {lines} such lines that are not shown)"),
        }
    }
}

impl Limited {
    /// A kind of line.
    pub const fn new() -> Limited {
        Limited(Mutex::new(State { left: BURST, since: None, unsaid: 0 }))
    }

    /// Whether the line is to be said now. It ends with what this returns.
    pub fn turn(&self) -> Option<Unsaid> {
        self.turn_at(Instant::now())
    }

    fn turn_at(&self, now: Instant) -> Option<Unsaid> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *state.since.get_or_insert(now);
        let lines = now.saturating_duration_since(since).as_millis() / EACH.as_millis();
        if lines > 0 {
            state.left = state.left.saturating_add(lines.min(BURST.into()) as u32).min(BURST);
            state.since = Some(now);
        }
        match state.left.checked_sub(1) {
            None => {
                state.unsaid += 1;
                None
            }
            Some(left) => {
                state.left = left;
                Some(Unsaid(std::mem::take(&mut state.unsaid)))
            }
        }
    }
}

impl Default for Limited {
    fn default() -> Limited {
        Limited::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_line_each_second() {
        let (limited, start) = (Limited::new(), Instant::now());
        // A hundred lines each millisecond, for ten seconds.
        let said: Vec<Unsaid> = (0..1_000_000)
            .filter_map(|line| limited.turn_at(start + Duration::from_micros(10 * line)))
            .collect();
        assert_eq!(said.len(), 10 + 9);
        assert!(said[..10].iter().all(|unsaid| unsaid.0 == 0));
        assert!(said[11..].iter().all(|unsaid| unsaid.0 == 99_999), "{said:?}");
        assert_eq!(said[11].to_string(), " (and 99999 such lines that are not shown)");
    }

    #[test]
    fn who_is_quiet_may_speak_again() {
        let (limited, start) = (Limited::new(), Instant::now());
        assert_eq!((0..20).filter_map(|_| limited.turn_at(start)).count(), 10);
        let later = start + Duration::from_secs(3600);
        assert_eq!((0..20).filter_map(|_| limited.turn_at(later)).count(), 10);
    }
}
