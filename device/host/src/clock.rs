//! The host's clock and the cards' clocks.
//!
//! A card uses its clock for time-outs of its peers: a destination that does not accept packets, a
//! host that does not answer. While the card's own process is stopped, suspended or without a CPU,
//! messages of its peers stay unread. A card's clock therefore excludes such time.

use std::cell::Cell;
use std::time::Duration;

use hamlyn_card::ports::Clock;
use rustix::time::{ClockId, clock_gettime};

/// A tick that is later than this is late because the process was stopped.
const LATE: Duration = Duration::from_millis(50);
/// The card's time then continues this long before the tick, so that pending messages are handled
/// first.
const GRACE: Duration = Duration::from_millis(20);

/// The host's clock, which does not restart with the card's process.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        let now = clock_gettime(ClockId::Monotonic);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }
}

/// A card's clock: the host's clock without the time when the process was stopped, as far as that
/// delayed a tick.
#[derive(Debug, Default)]
pub(crate) struct CardClock {
    stood: Cell<Duration>,
    last: Cell<Duration>,
    /// Time of the next tick.
    planned: Cell<Option<Duration>>,
    /// How far the card's time is ahead, by faults.
    ahead: Cell<Duration>,
    /// A late tick that was already postponed. It is not postponed again, so that time also
    /// advances on a host that is always late.
    excused: Cell<Option<Duration>>,
}

impl CardClock {
    /// Records the time of the next tick. Returns it in the host's time.
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
        alarm.saturating_add(self.stood.get()).saturating_sub(self.ahead.get())
    }

    /// Lets the card's time go ahead.
    pub(crate) fn jump(&self, by: Duration) {
        self.ahead.set(self.ahead.get() + by);
    }

    /// Converts the host's time to the card's time.
    fn at(&self, host: Duration) -> Duration {
        let host = host + self.ahead.get();
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

    /// A clock that was last read at 1 s, with a planned tick.
    fn planned(tick: u64) -> CardClock {
        let clock = CardClock::default();
        clock.at(ms(1000));
        clock.planned.set(Some(ms(tick)));
        clock
    }

    #[test]
    fn stopped_time_is_excluded() {
        let clock = planned(1100);
        assert_eq!([11_000, 11_005].map(|host| clock.at(ms(host))), [ms(1080), ms(1085)]);
        // The clock continues.
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
    fn jump_moves_time_and_ticks() {
        let clock = CardClock::default();
        clock.jump(ms(500));
        assert_eq!((clock.at(ms(1000)), clock.plan_at(ms(1600), ms(1000))), (ms(1500), ms(1100)));
    }

    #[test]
    fn each_tick_is_postponed_once() {
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
