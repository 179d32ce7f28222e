//! A rate limit for log lines that a peer can cause.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of lines that may be logged in a burst.
const BURST: u32 = 10;
/// After the burst, one line is logged per period of this length.
const EACH: Duration = Duration::from_secs(1);

/// The rate limit for one kind of log line that peers can cause without bound. After a burst, it
/// allows one line each second, with the number of lines that were suppressed.
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
    /// Lines that may be logged now.
    left: u32,
    /// When the last line was added to `left`.
    since: Option<Instant>,
    unsaid: u64,
}

/// Number of lines that were suppressed before this one.
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
    /// Creates the limit for one kind of line.
    pub const fn new() -> Limited {
        Limited(Mutex::new(State { left: BURST, since: None, unsaid: 0 }))
    }

    /// Returns a value if the line may be logged now. Append the value to the line.
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
    fn flood_is_limited_to_one_line_per_second() {
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
    fn burst_is_available_again_after_quiet_time() {
        let (limited, start) = (Limited::new(), Instant::now());
        assert_eq!((0..20).filter_map(|_| limited.turn_at(start)).count(), 10);
        let later = start + Duration::from_secs(3600);
        assert_eq!((0..20).filter_map(|_| limited.turn_at(later)).count(), 10);
    }
}
