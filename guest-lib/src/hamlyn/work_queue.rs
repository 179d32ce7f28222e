//! Accounting of a terminus' work queue: posted, completed and refused requests (section 2.3).
//!
//! The card counts modulo 2^32. Positions here are 64 bits wide and start at 1, so that a handle
//! stays valid forever.

use std::collections::BTreeMap;

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::{HAMLYN_REASON_SENT, HAMLYN_WORK_QUEUE_ENTRIES, HAMLYN_WORK_QUEUE_USABLE};

use crate::error::Result;
use crate::hamlyn::errors::RefusedError;

/// Positions in a work queue.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    posted: u64,
    completed: u64,
    /// One bit per entry: set while the handle of the entry's request is still held.
    watched: u64,
    /// Results of completed requests whose handles are held, by position. Requests that were sent
    /// and fetched 0 are left out.
    results: BTreeMap<u64, Finished>,
}

/// The reason, and the word that a fetch-and-op found.
type Finished = (u32, u64);

/// The result that is not stored: sent, and no word.
const NOTHING_TO_TELL: Finished = (HAMLYN_REASON_SENT, 0);

const _: () = assert!(HAMLYN_WORK_QUEUE_ENTRIES == u64::BITS, "a bit for each entry");

impl WorkQueue {
    /// Returns the number of the next entry, if fewer than 63 entries are in use.
    pub(crate) fn next_entry(&self) -> Option<u32> {
        (self.posted - self.completed < u64::from(HAMLYN_WORK_QUEUE_USABLE)).then_some(self.posted as u32)
    }

    /// Returns the number of free entries.
    pub(crate) fn room(&self) -> usize {
        (u64::from(HAMLYN_WORK_QUEUE_USABLE) - (self.posted - self.completed)) as usize
    }

    /// Counts the next entry as posted. Returns the request's position and the new tail.
    ///
    /// If `is_watched`, its result is kept until [`WorkQueue::forget`].
    pub(crate) fn post(&mut self, is_watched: bool) -> (u64, u32) {
        self.posted += 1;
        let bit = bit(self.posted);
        self.watched = if is_watched { self.watched | bit } else { self.watched & !bit };
        (self.posted, self.posted as u32)
    }

    /// Takes in the card's count of completed requests, modulo 2^32, and the result of each.
    /// Ignores an invalid count (more completed than posted, or going backwards). Returns true if
    /// the count has advanced.
    ///
    /// No result can be missed: the card overwrites a result only when the entry is reused, which
    /// is after this call. The word of a request that was not a fetch-and-op is meaningless, and is
    /// never read.
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

    /// Returns the outcome of the request, or `None` if the card has not completed it yet.
    pub(crate) fn outcome(&self, request: u64) -> Option<Result<()>> {
        self.fetched(request).map(|result| result.map(drop))
    }

    /// Returns the word that a fetch-and-op found, or `None` if the card has not completed it yet.
    pub(crate) fn fetched(&self, request: u64) -> Option<Result<u64>> {
        if request > self.completed {
            return None;
        }
        let (reason, word) = self.results.get(&request).copied().unwrap_or(NOTHING_TO_TELL);
        Some(match reason {
            HAMLYN_REASON_SENT => Ok(word),
            reason => Err(RefusedError { request, reason: Statistic::from_number(reason) }.into()),
        })
    }

    /// Drops the request's result; its outcome will not be queried again.
    pub(crate) fn forget(&mut self, request: u64) {
        if request > self.completed {
            self.watched &= !bit(request);
        } else {
            self.results.remove(&request);
        }
    }

    /// Returns the position of the request that a caller waiting for room sleeps for. Once it is
    /// complete, half of the requests in flight are complete, so the caller is not woken for each
    /// request. Returns `None` if nothing is in flight.
    pub(crate) fn half_way(&self) -> Option<u64> {
        let under_way = self.posted - self.completed;
        (under_way != 0).then(|| self.completed + under_way.div_ceil(2))
    }

    /// Returns true if the card has completed all requests.
    pub(crate) fn is_idle(&self) -> bool {
        self.completed == self.posted
    }

    /// Returns the position of the last posted request.
    pub(crate) fn posted(&self) -> u64 {
        self.posted
    }

    /// Returns the position of the last completed request.
    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }
}

/// Returns the card's number of the request at a position: the first is 0.
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

    /// Start position of a test: 0, or a position from which the card's 32-bit counter wraps.
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
                        prop_assert_eq!(queue.post(true), (posted, posted as u32));
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

        /// With a card that refuses some requests: every outcome is exact while its handle is held,
        /// whichever request is queried and whenever.
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
                    let (request, _) = queue.post(held);
                    requests.push((request, refused, held));
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
                queue.post(true);
            }
            queue.observe(completed, |_| (reason, 7));
            prop_assert!(queue.completed() >= 0xffff_fff0 && queue.completed() <= queue.posted);
            prop_assert!(queue.results.len() <= 20);
        }
    }

    #[test]
    fn refusal_belongs_to_its_request_until_handle_drops() {
        let mut queue = at(0);
        for _ in 0..3 {
            queue.post(true);
        }
        queue.observe(3, |number| if number == 1 { (TAG, 0) } else { NOTHING_TO_TELL });
        assert!(queue.outcome(1).unwrap().is_ok());
        let refused = queue.outcome(2).unwrap().unwrap_err();
        assert_eq!(refused.of(), Some(&RefusedError { request: 2, reason: Some(Statistic::RefusedTag) }));
        assert!(queue.outcome(3).unwrap().is_ok());
        queue.forget(2);
        assert!(queue.results.is_empty());
    }

    #[test]
    fn unknown_reason_is_still_a_refusal() {
        let mut queue = at(0);
        queue.post(true);
        queue.observe(1, |_| (u32::MAX, 0));
        let unknown = queue.outcome(1).unwrap().unwrap_err();
        assert_eq!(unknown.of(), Some(&RefusedError { request: 1, reason: None }));
    }
}
