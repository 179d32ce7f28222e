//! Time-outs of an event loop in milliseconds: 0 does not wait, -1 waits without limit.

use std::time::Duration;

/// Returns a time-out that ends at the alarm or earlier.
pub(crate) fn sooner(wait: i32, alarm: Option<Duration>) -> i32 {
    let Some(alarm) = alarm else { return wait };
    // Rounded up, so that no card is ticked too early. A tick that is due is done at once.
    let rounded = if alarm.is_zero() { 0 } else { alarm.as_millis() + 1 };
    let alarm = i32::try_from(rounded).unwrap_or(i32::MAX);
    if wait < 0 { alarm } else { wait.min(alarm) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarm_can_only_shorten_a_wait() {
        let alarm = Some(Duration::from_micros(1500));
        assert_eq!(sooner(-1, None), -1);
        assert_eq!(sooner(-1, alarm), 2);
        assert_eq!(sooner(200, alarm), 2);
        assert_eq!(sooner(0, alarm), 0);
        assert_eq!(sooner(-1, Some(Duration::ZERO)), 0);
        assert_eq!(sooner(-1, Some(Duration::MAX)), i32::MAX);
    }
}
