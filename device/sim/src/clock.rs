//! The simulation's time: as many milliseconds as its world says.

use std::cell::Cell;
use std::time::Duration;

use hamlyn_models::ports::Clock;

#[derive(Debug, Default)]
pub(crate) struct SimClock(pub(crate) Cell<Duration>);

impl Clock for SimClock {
    fn now(&self) -> Duration {
        self.0.get()
    }
}
