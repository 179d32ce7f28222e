//! Accounting of a terminus' work queue: what is posted, finished and refused (section 2.3).
//!
//! The card counts modulo 2^32; positions here are 64 bits wide and start at 1, so that a handle
//! stays valid for ever.

use std::collections::BTreeMap;

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::{HAMLYN_REASON_SENT, HAMLYN_WORK_QUEUE_ENTRIES, HAMLYN_WORK_QUEUE_USABLE};

use crate::error::{Error, Result};

/// Positions of a work queue.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    posted: u64,
    completed: u64,
    /// A bit for each entry: whether somebody still holds the handle of the request that is in it.
    watched: u64,
    /// What became of finished requests whose handles are held, by position; those that were sent
    /// and fetched 0 are left out.
    results: BTreeMap<u64, Finished>,
}

/// The reason, and the word that a fetch-and-op found.
type Finished = (u32, u64);

/// What needs no place in memory: sent, and no word to tell of.
const NOTHING_TO_TELL: Finished = (HAMLYN_REASON_SENT, 0);

const _: () = assert!(HAMLYN_WORK_QUEUE_ENTRIES == u64::BITS, "a bit for each entry");

impl WorkQueue {
    /// The number of the entry that is next, if fewer than 63 are in use.
    pub(crate) fn next_entry(&self) -> Option<u32> {
        (self.posted - self.completed < u64::from(HAMLYN_WORK_QUEUE_USABLE)).then_some(self.posted as u32)
    }

    /// How many entries are not in use.
    pub(crate) fn room(&self) -> usize {
        (u64::from(HAMLYN_WORK_QUEUE_USABLE) - (self.posted - self.completed)) as usize
    }

    /// Counts the next entry as posted. Returns the request's position and the new tail.
    ///
    /// What becomes of it is remembered until [`WorkQueue::forget`].
    pub(crate) fn post(&mut self) -> (u64, u32) {
        self.posted += 1;
        self.watched |= bit(self.posted);
        (self.posted, self.posted as u32)
    }

    /// Takes in how many requests the card says that it has finished with, modulo 2^32, and what
    /// became of each. Nonsense (more finished than posted, or going back) is ignored. Whether
    /// there was anything new.
    ///
    /// No result can be missed: the card overwrites it only once the entry is used again, which is
    /// after this. The word of a request that was no fetch-and-op means nothing, and nobody asks
    /// for it.
    pub(crate) fn observe(&mut self, completed: u32, result: impl Fn(u32) -> Finished) -> bool {
        let advance = u64::from(completed.wrapping_sub(self.completed as u32));
        if advance == 0 || advance > self.posted - self.completed {
            return false;
        }
        for request in self.completed + 1..=self.completed + advance {
            if self.watched & bit(request) != 0 {
                let result = result(number(request));
                if result != NOTHING_TO_TELL {
                    self.results.insert(request, result);
                }
            }
        }
        self.completed += advance;
        true
    }

    /// Whether the card has finished with the request: `None` if not yet, else how it went.
    pub(crate) fn outcome(&self, request: u64) -> Option<Result<()>> {
        self.fetched(request).map(|result| result.map(drop))
    }

    /// The word that a fetch-and-op found: `None` if the card has not finished with it yet.
    pub(crate) fn fetched(&self, request: u64) -> Option<Result<u64>> {
        if request > self.completed {
            return None;
        }
        let (reason, word) = self.results.get(&request).copied().unwrap_or(NOTHING_TO_TELL);
        Some(match reason {
            HAMLYN_REASON_SENT => Ok(word),
            reason => Err(Error::Refused { request, reason: Statistic::from_number(reason) }),
        })
    }

    /// Nobody will ask for the request's outcome any more.
    pub(crate) fn forget(&mut self, request: u64) {
        if request > self.completed {
            self.watched &= !bit(request);
        } else {
            self.results.remove(&request);
        }
    }

    /// The position of the request that who waits for room sleeps for: with it half of what is
    /// under way is finished, so that nobody is woken for each request. `None` if nothing is under
    /// way.
    pub(crate) fn half_way(&self) -> Option<u64> {
        let under_way = self.posted - self.completed;
        (under_way != 0).then(|| self.completed + under_way.div_ceil(2))
    }

    /// Whether the card has finished with all requests.
    pub(crate) fn is_idle(&self) -> bool {
        self.completed == self.posted
    }

    /// The position of the last request that was posted.
    pub(crate) fn posted(&self) -> u64 {
        self.posted
    }

    /// The position of the last request that the card has finished with.
    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }
}

/// The card's number of the request at a position: the first is 0.
fn number(request: u64) -> u32 {
    (request - 1) as u32
}

fn bit(request: u64) -> u64 {
    1 << (number(request) % HAMLYN_WORK_QUEUE_ENTRIES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TAG: u32 = Statistic::RefusedTag as u32;

    fn at(position: u64) -> WorkQueue {
        WorkQueue { posted: position, completed: position, ..WorkQueue::default() }
    }

    /// Where a test starts: at 0, or so that the card's 32-bit counter wraps.
    fn start() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0_u64), (1_u64 << 32) - 200..(1 << 32) + 10]
    }

    proptest! {
        #[test]
        fn never_more_than_63_across_the_wrap(
            start in start(),
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
                    queue.observe(completed as u32, |_| NOTHING_TO_TELL);
                }
                prop_assert!(posted - completed <= 63);
                prop_assert_eq!(queue.next_entry().is_none(), posted - completed == 63);
                prop_assert_eq!(queue.completed(), completed);
                for request in completed.saturating_sub(3).max(1)..posted + 3 {
                    prop_assert_eq!(queue.outcome(request).is_some(), request <= completed);
                }
            }
        }

        /// Against a card that refuses some: whatever is looked at, and whenever, is exact while
        /// its handle is held.
        #[test]
        fn every_outcome_is_exact(
            start in start(),
            steps in prop::collection::vec((prop::collection::vec((any::<bool>(), any::<bool>()), 0..70), 0..70_u64), 1..50),
        ) {
            let mut queue = at(start);
            let mut results = [NOTHING_TO_TELL; 64];
            let (mut done, mut requests) = (start, Vec::new());
            for (posts, work) in steps {
                for (refused, held) in posts {
                    if queue.next_entry().is_none() { break }
                    let (request, _) = queue.post();
                    requests.push((request, refused, held));
                    if !held {
                        queue.forget(request);
                    }
                }
                for (request, refused, _) in requests.iter().filter(|(request, ..)| *request > done).take(work as usize) {
                    let reason = if *refused { TAG } else { HAMLYN_REASON_SENT };
                    results[(request - 1) as usize % 64] = (reason, request % 3);
                }
                done = (done + work).min(start + requests.len() as u64);
                queue.observe(done as u32, |number| results[number as usize % 64]);
                for (request, refused, held) in &requests {
                    match queue.fetched(*request) {
                        None => prop_assert!(*request > done),
                        Some(Ok(word)) => {
                            prop_assert!(*request <= done && !(*refused && *held));
                            prop_assert_eq!(word, if *held { request % 3 } else { 0 });
                        }
                        Some(Err(_)) => prop_assert!(*request <= done && *refused && *held),
                    }
                }
            }
            for (request, ..) in &requests {
                queue.forget(*request);
            }
            prop_assert!(queue.results.is_empty());
        }

        #[test]
        fn nonsense_from_the_card_is_ignored(completed in any::<u32>(), reason in any::<u32>()) {
            let mut queue = at(0xffff_fff0);
            for _ in 0..20 {
                queue.post();
            }
            queue.observe(completed, |_| (reason, 7));
            prop_assert!(queue.completed() >= 0xffff_fff0 && queue.completed() <= queue.posted);
            prop_assert!(queue.results.len() <= 20);
        }
    }

    #[test]
    fn a_refusal_is_told_to_its_own_request_and_forgotten_with_its_handle() {
        let mut queue = at(0);
        for _ in 0..3 {
            queue.post();
        }
        queue.observe(3, |number| if number == 1 { (TAG, 0) } else { NOTHING_TO_TELL });
        assert!(queue.outcome(1).unwrap().is_ok());
        let refused = queue.outcome(2).unwrap().unwrap_err();
        assert!(matches!(refused, Error::Refused { request: 2, reason: Some(Statistic::RefusedTag) }));
        assert!(queue.outcome(3).unwrap().is_ok());
        queue.forget(2);
        assert!(queue.results.is_empty());
    }

    #[test]
    fn a_reason_that_no_counter_has_is_a_refusal_all_the_same() {
        let mut queue = at(0);
        queue.post();
        queue.observe(1, |_| (u32::MAX, 0));
        assert!(matches!(queue.outcome(1), Some(Err(Error::Refused { reason: None, .. }))));
    }
}
