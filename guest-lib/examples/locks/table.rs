//! The locks of one manager, with their holders and waiters. Independent of cards and clocks.

use std::collections::{BTreeMap, VecDeque};

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Together with other sharers.
    Shared,
    /// By one owner alone.
    Exclusive,
}

/// Why a request is refused. A refused request changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The owner already holds the lock or waits for it.
    #[error("it has this lock, or waits for it, already")]
    Already,
    /// The owner does not hold the lock that it releases.
    #[error("it does not have this lock")]
    NotHeld,
}

/// A newly granted lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant<O> {
    pub(crate) owner: O,
    /// Rises with every grant of the table, so that a guarded resource can tell a stale owner from
    /// the current one.
    pub(crate) number: u64,
}

/// Locks by name. `O` identifies an owner.
#[derive(Debug)]
pub(crate) struct Table<O> {
    locks: BTreeMap<String, Lock<O>>,
    grants: u64,
}

#[derive(Debug)]
struct Lock<O> {
    /// Either any number of sharers or one exclusive holder.
    holders: Vec<(O, Mode)>,
    waiting: VecDeque<(O, Mode)>,
}

impl<O: Copy + PartialEq> Table<O> {
    pub(crate) fn new() -> Self {
        Self { locks: BTreeMap::new(), grants: 0 }
    }

    /// Requests a lock. It is granted at once or in turn. Waiters are served in request order, so
    /// that new readers cannot starve a writer.
    pub(crate) fn request(&mut self, name: &str, owner: O, mode: Mode) -> Result<Vec<Grant<O>>, Refusal> {
        let lock = self.locks.entry(name.to_owned()).or_insert_with(Lock::new);
        if lock.holders.iter().chain(&lock.waiting).any(|(other, _)| *other == owner) {
            return Err(Refusal::Already);
        }
        lock.waiting.push_back((owner, mode));
        Ok(lock.grant(&mut self.grants))
    }

    /// Releases a lock. Returns the new grants.
    pub(crate) fn release(&mut self, name: &str, owner: O) -> Result<Vec<Grant<O>>, Refusal> {
        let lock = self.locks.get_mut(name).ok_or(Refusal::NotHeld)?;
        let holder = lock.holders.iter().position(|(other, _)| *other == owner).ok_or(Refusal::NotHeld)?;
        lock.holders.remove(holder);
        let grants = lock.grant(&mut self.grants);
        self.locks.retain(|_, lock| !lock.is_free());
        Ok(grants)
    }

    /// Removes an owner: releases all its locks and cancels its requests. Returns the new grants.
    pub(crate) fn forget(&mut self, owner: O) -> Vec<(String, Grant<O>)> {
        let mut grants = Vec::new();
        for (name, lock) in &mut self.locks {
            let granted = lock.forget(owner, &mut self.grants);
            grants.extend(granted.into_iter().map(|grant| (name.clone(), grant)));
        }
        self.locks.retain(|_, lock| !lock.is_free());
        grants
    }

    /// Cancels an owner's interest in a lock, whether it holds the lock or waits. Returns the new
    /// grants.
    pub(crate) fn withdraw(&mut self, name: &str, owner: O) -> Vec<Grant<O>> {
        let lock = self.locks.get_mut(name);
        let granted = lock.map(|lock| lock.forget(owner, &mut self.grants)).unwrap_or_default();
        self.locks.retain(|_, lock| !lock.is_free());
        granted
    }

    /// Returns the number of locks that are held or waited for.
    pub(crate) fn len(&self) -> usize {
        self.locks.len()
    }
}

impl<O: Copy + PartialEq> Lock<O> {
    fn new() -> Self {
        Self { holders: Vec::new(), waiting: VecDeque::new() }
    }

    fn forget(&mut self, owner: O, grants: &mut u64) -> Vec<Grant<O>> {
        self.holders.retain(|(other, _)| *other != owner);
        self.waiting.retain(|(other, _)| *other != owner);
        self.grant(grants)
    }

    /// Grants the lock to the first waiter, and to those after it that can share it.
    fn grant(&mut self, grants: &mut u64) -> Vec<Grant<O>> {
        let mut granted = Vec::new();
        while let Some((owner, mode)) = self.waiting.front().copied() {
            let together = mode == Mode::Shared && self.holders.iter().all(|(_, held)| *held == Mode::Shared);
            if !self.holders.is_empty() && !together {
                break;
            }
            self.waiting.pop_front();
            self.holders.push((owner, mode));
            *grants += 1;
            granted.push(Grant { owner, number: *grants });
        }
        granted
    }

    fn is_free(&self) -> bool {
        self.holders.is_empty() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{Exclusive, Shared};

    fn owners(grants: Vec<Grant<u32>>) -> Vec<u32> {
        grants.into_iter().map(|grant| grant.owner).collect()
    }

    #[test]
    fn shared_and_exclusive_locks_are_granted_in_order() {
        let mut table = Table::new();
        assert_eq!(owners(table.request("a", 1, Shared).unwrap()), [1]);
        assert_eq!(owners(table.request("a", 2, Shared).unwrap()), [2]);
        assert!(table.request("a", 3, Exclusive).unwrap().is_empty());
        assert!(table.request("a", 4, Shared).unwrap().is_empty(), "not before the waiting writer");
        assert!(table.request("a", 5, Shared).unwrap().is_empty());
        assert_eq!(owners(table.request("b", 3, Exclusive).unwrap()), [3], "another lock");
        assert!(table.release("a", 1).unwrap().is_empty());
        assert_eq!(owners(table.release("a", 2).unwrap()), [3]);
        assert_eq!(owners(table.release("a", 3).unwrap()), [4, 5]);
    }

    #[test]
    fn locks_of_a_gone_owner_pass_on() {
        let mut table = Table::new();
        for name in ["a", "b"] {
            assert_eq!(owners(table.request(name, 1, Exclusive).unwrap()), [1]);
        }
        table.request("a", 2, Exclusive).unwrap();
        table.request("a", 3, Shared).unwrap();
        table.request("b", 4, Shared).unwrap();
        assert!(table.forget(2).is_empty(), "it only waited");
        let next: Vec<_> = table.forget(1).into_iter().map(|(lock, grant)| (lock, grant.owner)).collect();
        assert_eq!(next, [("a".to_owned(), 3), ("b".to_owned(), 4)]);
        assert!(table.forget(3).is_empty());
        table.release("b", 4).unwrap();
        assert_eq!(table.len(), 0, "nothing is left behind");
    }

    #[test]
    fn withdrawn_request_blocks_no_other_request() {
        let mut table = Table::new();
        table.request("a", 1, Shared).unwrap();
        table.request("a", 2, Exclusive).unwrap();
        table.request("a", 3, Shared).unwrap();
        assert_eq!(owners(table.withdraw("a", 2)), [3], "it goes with the first");
        table.request("a", 4, Exclusive).unwrap();
        assert!(table.withdraw("a", 1).is_empty());
        assert_eq!(owners(table.withdraw("a", 3)), [4], "it was granted before it could withdraw");
        assert!(table.withdraw("a", 4).is_empty() && table.withdraw("b", 4).is_empty());
        assert_eq!(table.len(), 0, "nothing is left behind");
    }

    #[test]
    fn invalid_requests_are_refused_without_effect() {
        let mut table = Table::new();
        assert_eq!(table.release("a", 1), Err(Refusal::NotHeld));
        table.request("a", 1, Shared).unwrap();
        assert_eq!(table.request("a", 1, Exclusive), Err(Refusal::Already));
        assert_eq!(table.release("a", 2), Err(Refusal::NotHeld));
        table.request("a", 2, Exclusive).unwrap();
        assert_eq!(table.request("a", 2, Shared), Err(Refusal::Already));
        assert_eq!(table.release("a", 2), Err(Refusal::NotHeld), "it only waits");
        assert_eq!(owners(table.release("a", 1).unwrap()), [2]);
    }

    #[test]
    fn numbers_rise() {
        let mut table = Table::new();
        let mut last = 0;
        for round in 0..5 {
            let grants = table.request("a", round, Exclusive).unwrap();
            assert!(grants[0].number > last);
            last = grants[0].number;
            table.release("a", round).unwrap();
        }
    }
}
