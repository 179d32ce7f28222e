//! The clocks: the host's, and each card's.
//!
//! A card judges others by its clock: a destination that takes nothing, a host that does not
//! answer. While its own process stands (stopped, suspended, without a processor) what they said
//! waits to be taken. So a card's clock leaves such time out.

use std::cell::Cell;
use std::time::Duration;

use hamlyn_card::ports::Clock;
use rustix::time::{ClockId, clock_gettime};

/// A tick that is later than this was late because the process stood.
const LATE: Duration = Duration::from_millis(50);
/// How long before that tick the card's time then goes on: what waits is taken first.
const GRACE: Duration = Duration::from_millis(20);

/// The host's clock, which does not start anew with the card's process.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        let now = clock_gettime(ClockId::Monotonic);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }
}

/// A card's clock: the host's without the time in which the process stood, as far as a tick was
/// late by it.
#[derive(Debug, Default)]
pub(crate) struct CardClock {
    stood: Cell<Duration>,
    last: Cell<Duration>,
    /// The next tick.
    planned: Cell<Option<Duration>>,
    /// A tick that was late once is not put off again: on a host that is always late time goes on
    /// as well.
    excused: Cell<Option<Duration>>,
}

impl CardClock {
    /// Notes when the next tick is to be. Returns that in the host's time.
    pub(crate) fn plan(&self, alarm: Option<Duration>) -> Option<Duration> {
        let Some(alarm) = alarm else {
            self.planned.set(None);
            return None;
        };
        Some(self.plan_at(alarm, SystemClock.now()))
    }

    fn plan_at(&self, alarm: Duration, host: Duration) -> Duration {
        let is_ahead = alarm > self.at(host);
        self.planned.set(Some(alarm).filter(|_| is_ahead && self.excused.get() != Some(alarm)));
        alarm.saturating_add(self.stood.get())
    }

    /// The card's time at a time of the host's.
    fn at(&self, host: Duration) -> Duration {
        let now = host.saturating_sub(self.stood.get());
        let late = self.planned.get().filter(|planned| now.saturating_sub(*planned) > LATE);
        let now = late.map_or(now, |planned| {
            let until = self.last.get().max(planned.saturating_sub(GRACE));
            self.stood.set(host.saturating_sub(until));
            self.excused.set(self.planned.take());
            until
        });
        self.last.set(now);
        now
    }
}

impl Clock for CardClock {
    fn now(&self) -> Duration {
        self.at(SystemClock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    /// A clock that was last looked at at 1 s, when a tick was planned.
    fn planned(tick: u64) -> CardClock {
        let clock = CardClock::default();
        clock.at(ms(1000));
        clock.planned.set(Some(ms(tick)));
        clock
    }

    #[test]
    fn standstill_is_left_out() {
        let clock = planned(1100);
        assert_eq!([11_000, 11_005].map(|host| clock.at(ms(host))), [ms(1080), ms(1085)]);
        // Its time goes on.
        assert_eq!(clock.at(ms(12_000)), ms(2080));
    }

    #[test]
    fn clock_never_goes_back() {
        let clock = planned(1001);
        assert_eq!(clock.at(ms(5000)), ms(1000));
    }

    #[test]
    fn tick_in_time_changes_nothing() {
        let clock = planned(1100);
        assert_eq!([1100, 1150].map(|host| clock.at(ms(host))), [ms(1100), ms(1150)]);
    }

    #[test]
    fn each_tick_is_put_off_once() {
        let clock = planned(1100);
        clock.at(ms(11_000));
        let planned = |tick: u64| {
            clock.plan_at(ms(tick), ms(11_001));
            clock.planned.get()
        };
        assert_eq!([1100, 1101].map(planned), [None, Some(ms(1101))]);
    }

    #[test]
    fn next_tick_is_in_the_hosts_time() {
        let clock = planned(1100);
        clock.at(ms(11_000));
        assert_eq!(clock.plan_at(ms(1100), ms(11_000)), ms(11_020));
    }
}
