//! How long an event loop may wait, in milliseconds: 0 not at all, -1 for as long as it takes.

use std::time::Duration;

/// A wait that ends when an alarm goes off, at the latest.
pub(crate) fn sooner(wait: i32, alarm: Option<Duration>) -> i32 {
    let Some(alarm) = alarm else { return wait };
    // Rounded up, so that no card is asked before its time; one that is due is asked at once.
    let rounded = if alarm.is_zero() { 0 } else { alarm.as_millis() + 1 };
    let alarm = i32::try_from(rounded).unwrap_or(i32::MAX);
    if wait < 0 { alarm } else { wait.min(alarm) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_shortens_a_wait_and_never_lengthens_it() {
        let alarm = Some(Duration::from_micros(1500));
        assert_eq!(sooner(-1, None), -1);
        assert_eq!(sooner(-1, alarm), 2);
        assert_eq!(sooner(200, alarm), 2);
        assert_eq!(sooner(0, alarm), 0);
        assert_eq!(sooner(-1, Some(Duration::ZERO)), 0);
        assert_eq!(sooner(-1, Some(Duration::MAX)), i32::MAX);
    }
}
