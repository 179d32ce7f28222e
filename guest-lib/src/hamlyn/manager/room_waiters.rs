//! Waiting for the card, mostly for room in the work queue. No notification reports room, but the
//! card wakes callers that sleep until it has completed requests.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Manager;
use crate::error::{Error, Result};

/// Polling interval if there is no wake-up for callers that wait for the card: with an older
/// driver.
const NAP: Duration = Duration::from_millis(1);

/// Senders whose `try_` calls found no room.
#[derive(Debug, Default)]
pub(super) struct RoomWaiters {
    tokens: Mutex<Tokens>,
    /// There is room, and this was not reported to the loop yet.
    news: AtomicBool,
    /// The loop has armed everything and may sleep.
    loop_sleeps: AtomicBool,
    /// The terminus' file is readable for this manager, or may become readable. Locked while that
    /// changes.
    armed: Mutex<bool>,
}

#[derive(Debug, Default)]
struct Tokens {
    waiting: BTreeSet<u64>,
    /// Senders for which there is room.
    ready: BTreeSet<u64>,
}

impl RoomWaiters {
    /// Takes the tokens of senders for which there is room.
    pub(super) fn take_ready(&self) -> BTreeSet<u64> {
        std::mem::take(&mut self.tokens().ready)
    }

    /// Returns true if there is room that was not reported to the loop yet, and marks it as
    /// reported.
    pub(super) fn take_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) && self.news.swap(false, Ordering::Acquire)
    }

    /// Sets whether a sender that finds no room must wake the loop.
    pub(super) fn loop_sleeps(&self, sleeps: bool) {
        self.loop_sleeps.store(sleeps, Ordering::SeqCst);
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn armed(&self) -> MutexGuard<'_, bool> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Manager {
    /// If the error is "no room", registers the token until the card has completed requests.
    /// [`Manager::ready`] then returns the token.
    pub(crate) fn fell_behind(&self, token: Option<u64>, error: &Error) {
        if error.is_would_block() {
            // First, so that a woken thread finds it.
            self.inner.room_waiters.tokens().waiting.extend(token);
            self.inner.terminus.inner.note_behind();
            // A loop that sleeps while another thread or task sends has not armed for this.
            let loop_sleeps = &self.inner.room_waiters.loop_sleeps;
            if loop_sleeps.load(Ordering::SeqCst) && loop_sleeps.swap(false, Ordering::SeqCst) {
                self.inner.sleepers.ring();
            }
        }
    }

    /// Checks for new room, and marks the senders that found none as ready.
    pub(super) fn look_for_room(&self) {
        if self.inner.terminus.inner.take_room() {
            let mut tokens = self.inner.room_waiters.tokens();
            let waiting = std::mem::take(&mut tokens.waiting);
            tokens.ready.extend(waiting);
            drop(tokens);
            self.inner.room_waiters.news.store(true, Ordering::Release);
            // Other threads that sleep for the same may have missed that the file was readable.
            self.inner.sleepers.look_again();
        }
    }

    /// If a caller found no room, makes the file readable once there is room. Returns true if there
    /// already is.
    pub(super) fn arm_room(&self) -> Result<bool> {
        let there = match self.arm_or_disarm() {
            Err(Error::Unsupported(_)) => {
                std::thread::sleep(NAP);
                true
            }
            there => there?,
        };
        if there {
            self.look_for_room();
            self.inner.room_waiters.take_news();
        }
        Ok(there)
    }

    /// Called by the watch after its sleep. The event that woke it must not wake others, unless
    /// they wait for the same.
    pub(super) fn quiet_room(&self) {
        // On failure the card is gone; the next call reports that.
        if let Ok(true) = self.arm_or_disarm() {
            self.look_for_room();
        }
    }

    /// Makes the file readable for a sleeper once the card has completed more requests. Returns
    /// whether there is no need to sleep, and the maximum sleep time.
    pub(super) fn arm_for_card(&self) -> Result<(bool, Duration)> {
        let terminus = &self.inner.terminus.inner;
        let mut armed = self.inner.room_waiters.armed();
        *armed = true;
        match terminus.half_way().map_or(Ok(true), |wanted| terminus.arm(wanted)) {
            Ok(there) => Ok((there, super::IN_DRIVER)),
            Err(Error::Unsupported(_)) => Ok((false, NAP)),
            Err(error) => Err(error),
        }
    }

    /// Returns true if there already is room for a caller that found none.
    fn arm_or_disarm(&self) -> Result<bool> {
        let terminus = &self.inner.terminus.inner;
        let mut armed = self.inner.room_waiters.armed();
        match terminus.behind() {
            Some(wanted) => {
                *armed = true;
                terminus.arm(wanted)
            }
            None if std::mem::take(&mut *armed) => terminus.disarm().map(|()| false),
            None => Ok(false),
        }
    }
}
