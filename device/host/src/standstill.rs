//! How long a card keeps its machine waiting.
//!
//! While a card takes no stores its machine's processors stand still. A destination that takes a packet now and then lets one
//! store through each time, so a card that takes stores for a moment is not over it: only [`EASE`] of taking ends a standstill.

use std::time::Duration;

use hamlyn_card::ports::Clock;

use super::ports::SystemClock;

/// How long a card may keep its machine waiting before it is told so, and each further time.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked at meanwhile. A process that was itself stopped for a while looks only once when it goes on, and so does
/// not blame the card.
const LOOKS: u32 = 8;
/// How long a card takes stores until a standstill is over.
const EASE: Duration = Duration::from_millis(100);

/// Whether a card takes stores, and since when not.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    stands: bool,
    /// Since when the card takes stores, if it did not before.
    eased: Option<Duration>,
    /// When it is looked at next. Kept, as the number of looks is, while it takes stores for less than [`EASE`].
    next: Duration,
    looks: u32,
}

impl Standstill {
    /// Notes whether the card takes stores. Looks at the clock only when that has changed.
    pub(super) fn note(&mut self, takes: bool) {
        if self.stands == takes {
            self.change(takes, SystemClock.now());
        }
    }

    /// When to look whether it [is overdue](Standstill::is_overdue).
    pub(super) fn alarm(&self) -> Option<Duration> {
        self.stands.then_some(self.next)
    }

    /// Whether the card is to be told now.
    pub(super) fn is_overdue(&mut self) -> bool {
        self.stands && self.look(SystemClock.now())
    }

    fn change(&mut self, takes: bool, now: Duration) {
        self.stands = !takes;
        if takes {
            self.eased = Some(now);
        } else if self.eased.take().is_none_or(|eased| now.saturating_sub(eased) >= EASE) {
            (self.next, self.looks) = (now + PATIENCE / LOOKS, 0);
        }
    }

    fn look(&mut self, now: Duration) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + PATIENCE / LOOKS;
        self.looks = (self.looks + 1) % LOOKS;
        self.looks == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    /// When it is told, of so many looks, each when it is due.
    fn told(standstill: &mut Standstill, looks: u32) -> Vec<Duration> {
        let look = |standstill: &mut Standstill| {
            let due = standstill.alarm().unwrap();
            standstill.look(due).then_some(due)
        };
        (0..looks).filter_map(|_| look(standstill)).collect()
    }

    #[test]
    fn standing_card_is_told_each_second() {
        let mut standstill = Standstill::default();
        standstill.change(false, ms(5));
        assert!(!standstill.look(ms(129)));
        assert_eq!(told(&mut standstill, 17), [ms(1005), ms(2005)]);
    }

    #[test]
    fn time_of_a_stopped_process_counts_once() {
        let mut standstill = Standstill::default();
        standstill.change(false, ms(0));
        assert!(!standstill.look(ms(100_000)));
        assert_eq!(told(&mut standstill, 7), [ms(100_875)]);
    }

    #[test]
    fn store_let_through_now_and_then_changes_nothing() {
        let mut standstill = Standstill::default();
        standstill.change(false, ms(0));
        for now in (125..1000).step_by(125) {
            assert!(!standstill.look(ms(now)));
            standstill.change(true, ms(now));
            assert_eq!(standstill.alarm(), None);
            standstill.change(false, ms(now + 99));
        }
        assert!(standstill.look(ms(1000)));
    }

    #[test]
    fn card_that_takes_stores_again_has_patience_again() {
        let mut standstill = Standstill::default();
        standstill.change(false, ms(0));
        assert_eq!(told(&mut standstill, 7), []);
        standstill.change(true, ms(900));
        standstill.change(false, ms(1000));
        assert_eq!(told(&mut standstill, 8), [ms(2000)]);
    }
}
