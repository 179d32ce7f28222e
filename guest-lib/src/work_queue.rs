//! Accounting of a terminus' work queue: what is posted, finished and refused (section 2.3).
//!
//! The card counts modulo 2^32; positions here are 64 bits wide and start at 1, so that a handle stays valid for ever.

use std::collections::VecDeque;

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::{HAMLYN_WORK_QUEUE_USABLE, HamlynTerminusStatus};

use crate::error::{Error, Result};

/// How many refusals a terminus remembers.
const REMEMBERED: usize = 1024;

/// A refusal that the card reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refusal {
    /// The first request it may concern. It is `last` if it is certain.
    first: u64,
    /// The last, whose reason is known if it is certain.
    last: u64,
    /// How many of them, if uncertain.
    count: u32,
    reason: u32,
}

/// Positions of a work queue.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    posted: u64,
    completed: u64,
    refused: u32,
    last_refused: u64,
    refusals: VecDeque<Refusal>,
}

impl WorkQueue {
    /// The number of the entry that is next, if fewer than 63 are in use.
    pub(crate) fn next_entry(&self) -> Option<u32> {
        (self.posted - self.completed < u64::from(HAMLYN_WORK_QUEUE_USABLE)).then_some(self.posted as u32)
    }

    /// Counts the next entry as posted. Returns the request's position and the new tail.
    pub(crate) fn post(&mut self) -> (u64, u32) {
        self.posted += 1;
        (self.posted, self.posted as u32)
    }

    /// Takes in what the card has written. Nonsense (more finished than posted, or going back) is ignored.
    pub(crate) fn observe(&mut self, status: &HamlynTerminusStatus) {
        let advance = u64::from(status.completed.wrapping_sub(self.completed as u32));
        if advance > self.posted - self.completed {
            return;
        }
        let completed = self.completed + advance;
        let count = status.refused.wrapping_sub(self.refused);
        if count != 0 && !self.observe_refusals(completed, count, status) {
            return;
        }
        self.completed = completed;
    }

    /// Notes `count` refusals since the last look. False if the words do not fit together: `completed` is written
    /// last and read first, so a refusal that it does not cover is still being written, and the next look is better.
    fn observe_refusals(&mut self, completed: u64, count: u32, status: &HamlynTerminusStatus) -> bool {
        let behind = u64::from((completed as u32).wrapping_sub(status.last_refused));
        let Some(last) = completed.checked_sub(behind).filter(|last| *last > self.last_refused) else {
            return false;
        };
        let first = self.completed.max(self.last_refused) + 1;
        if count > 1 && first < last {
            self.remember(Refusal { first, last: last - 1, count: count - 1, reason: u32::MAX });
        }
        self.remember(Refusal { first: last, last, count: 1, reason: status.last_reason });
        self.refused = status.refused;
        self.last_refused = last;
        true
    }

    fn remember(&mut self, refusal: Refusal) {
        if self.refusals.len() == REMEMBERED {
            self.refusals.pop_front();
        }
        self.refusals.push_back(refusal);
    }

    /// Whether the card has finished with the request: `None` if not yet, else how it went.
    pub(crate) fn outcome(&self, request: u64) -> Option<Result<()>> {
        if request > self.completed {
            return None;
        }
        let found =
            self.refusals.iter().rev().find(|refusal| (refusal.first..=refusal.last).contains(&request));
        Some(match found {
            None => Ok(()),
            Some(Refusal { first, last, reason, .. }) if first == last && *reason != u32::MAX => {
                Err(Error::Refused { request, reason: Statistic::from_number(*reason) })
            }
            Some(Refusal { first, last, count, .. }) if u64::from(*count) > last - first => {
                Err(Error::Refused { request, reason: None })
            }
            Some(Refusal { first, last, count, .. }) => {
                Err(Error::Uncertain { request, refused: *count, first: *first, last: *last })
            }
        })
    }

    /// The position of the last request that the card has finished with.
    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(position: u64) -> WorkQueue {
        WorkQueue { posted: position, completed: position, last_refused: position, ..WorkQueue::default() }
    }

    fn status(completed: u64, refused: u32, last_refused: u64, last_reason: u32) -> HamlynTerminusStatus {
        HamlynTerminusStatus {
            completed: completed as u32,
            refused,
            last_refused: last_refused as u32,
            last_reason,
        }
    }

    proptest! {
        #[test]
        fn never_more_than_63_across_the_wrap(
            start in prop_oneof![Just(0_u64), (1_u64 << 32) - 200..(1 << 32) + 10],
            steps in prop::collection::vec((any::<bool>(), 0..70_u64), 1..200),
        ) {
            let mut queue = at(start);
            let (mut posted, mut completed) = (start, start);
            for (post, amount) in steps {
                if post {
                    for _ in 0..amount {
                        let Some(entry) = queue.next_entry() else { break };
                        prop_assert_eq!(entry, posted as u32);
                        posted += 1;
                        prop_assert_eq!(queue.post(), (posted, posted as u32));
                    }
                } else {
                    completed = (completed + amount).min(posted);
                    queue.observe(&status(completed, 0, 0, 0));
                }
                prop_assert!(posted - completed <= 63);
                prop_assert_eq!(queue.next_entry().is_none(), posted - completed == 63);
                prop_assert_eq!(queue.completed(), completed);
                for request in completed.saturating_sub(3).max(1)..posted + 3 {
                    prop_assert_eq!(queue.outcome(request).is_some(), request <= completed);
                }
            }
        }

        #[test]
        fn nonsense_from_the_card_is_ignored(
            completed in any::<u32>(), refused in any::<u32>(), last_refused in any::<u32>(), reason in any::<u32>(),
        ) {
            let mut queue = at(0xffff_fff0);
            for _ in 0..20 {
                queue.post();
            }
            queue.observe(&HamlynTerminusStatus { completed, refused, last_refused, last_reason: reason });
            prop_assert!(queue.completed() >= 0xffff_fff0 && queue.completed() <= queue.posted);
        }
    }

    #[test]
    fn a_refusal_is_told_to_its_own_request_across_the_wrap() {
        let start = (1 << 32) - 2;
        let mut queue = at(start);
        for _ in 0..4 {
            queue.post();
        }
        queue.observe(&status(start + 4, 1, start + 3, Statistic::RefusedTag as u32));
        assert!(queue.outcome(start + 2).unwrap().is_ok());
        let refused = queue.outcome(start + 3).unwrap().unwrap_err();
        assert!(matches!(refused, Error::Refused { reason: Some(Statistic::RefusedTag), .. }), "{refused}");
        assert!(queue.outcome(start + 4).unwrap().is_ok());
    }

    #[test]
    fn several_refusals_between_two_looks_are_not_passed_off_as_success() {
        let mut queue = at(0);
        for _ in 0..4 {
            queue.post();
        }
        queue.observe(&status(4, 2, 4, 15));
        for request in 1..=3 {
            let refused = queue.outcome(request).unwrap().unwrap_err();
            assert!(matches!(refused, Error::Uncertain { refused: 1, first: 1, last: 3, .. }), "{refused}");
        }
        assert!(matches!(queue.outcome(4).unwrap(), Err(Error::Refused { .. })));
    }

    #[test]
    fn a_whole_batch_refused_is_certain() {
        let mut queue = at(0);
        for _ in 0..3 {
            queue.post();
        }
        queue.observe(&status(3, 3, 3, 15));
        for request in 1..=3 {
            assert!(matches!(queue.outcome(request).unwrap(), Err(Error::Refused { .. })), "{request}");
        }
    }

    #[test]
    fn a_refusal_still_being_written_waits_for_its_completion() {
        let mut queue = at(0);
        queue.post();
        queue.post();
        queue.observe(&status(1, 1, 2, 15));
        assert!(queue.outcome(1).is_none());
        queue.observe(&status(2, 1, 2, 15));
        assert!(queue.outcome(1).unwrap().is_ok());
        assert!(matches!(queue.outcome(2).unwrap(), Err(Error::Refused { .. })));
    }
}
