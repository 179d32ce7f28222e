//! Who waits for the card: for room in the work queue, mostly. No notification tells of that, but
//! the card wakes who sleeps until it has finished with requests.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Manager;
use crate::error::{Error, Result};
use crate::hamlyn::request::Message;
use crate::hamlyn::terminus::Source;
use crate::hamlyn::ticket::Ticket;

/// How soon to look again where nobody wakes who waits for the card: with an older driver, or in a
/// simulation.
const NAP: Duration = Duration::from_millis(1);

/// Those whose `try_` calls found no room.
#[derive(Debug, Default)]
pub(super) struct Behind {
    tokens: Mutex<Tokens>,
    /// There is room, and the loop has not been told.
    news: AtomicBool,
    /// The loop has armed what there was to arm, and may sleep.
    loop_sleeps: AtomicBool,
    /// Whether the terminus' file is, or may become, readable for this manager. Held while that is
    /// changed.
    armed: Mutex<bool>,
    /// Who is still to be woken, each once.
    bells: Mutex<Vec<Ticket>>,
    /// Whether there are such: who does not owe any takes no lock for that.
    has_bells: AtomicBool,
}

#[derive(Debug, Default)]
struct Tokens {
    waiting: BTreeSet<u64>,
    /// There is room for these.
    ready: BTreeSet<u64>,
}

impl Behind {
    /// The tokens of those for whom there is room.
    pub(super) fn take_ready(&self) -> BTreeSet<u64> {
        std::mem::take(&mut self.tokens().ready)
    }

    /// Whether there is room that the loop has not been told of. Now it has.
    pub(super) fn take_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) && self.news.swap(false, Ordering::Acquire)
    }

    /// From now on who falls behind wakes the loop, or does so no more.
    pub(super) fn loop_sleeps(&self, sleeps: bool) {
        self.loop_sleeps.store(sleeps, Ordering::SeqCst);
    }

    fn bells(&self) -> MutexGuard<'_, Vec<Ticket>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn armed(&self) -> MutexGuard<'_, bool> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Manager {
    /// If the error says that there is no room, whoever has this token waits until the card has
    /// finished with requests: [`Manager::ready`] names it then.
    pub(crate) fn fell_behind(&self, token: Option<u64>, error: &Error) {
        if error.is_would_block() {
            self.inner.behind.tokens().waiting.extend(token);
            self.wait_for_room();
        }
    }

    /// Somebody waits for room: what for is known by now, to who is woken.
    fn wait_for_room(&self) {
        self.inner.terminus.inner.note_behind();
        // A loop that sleeps, while another thread or task sends, has not armed for this.
        let loop_sleeps = &self.inner.behind.loop_sleeps;
        if loop_sleeps.load(Ordering::SeqCst) && loop_sleeps.swap(false, Ordering::SeqCst) {
            self.inner.sleepers.ring();
        }
    }

    /// Wakes who sleeps at a slot, by a message without data. False: there is no room, and whoever
    /// calls the manager once there is some does it ([`Manager::owes`]): all do before they sleep.
    pub(crate) fn ring(&self, sleeper: &Ticket) -> bool {
        let rung = self.try_ring(sleeper);
        if !rung {
            let mut bells = self.inner.behind.bells();
            if !bells.contains(sleeper) {
                bells.push(*sleeper);
            }
            self.inner.behind.has_bells.store(true, Ordering::Release);
            drop(bells);
            self.wait_for_room();
            // Who sleeps in a waiting call by the manager's file has not armed for it either; in
            // the driver he looks soon enough. Whoever calls this may have the lock under which
            // sleepers look, so whether there are any is not asked.
            self.inner.sleepers.ring();
        }
        rung
    }

    /// Wakes those for whom there was no room before. Whether some are left.
    pub(crate) fn owes(&self) -> bool {
        let behind = &self.inner.behind;
        if !behind.has_bells.load(Ordering::Acquire) {
            return false;
        }
        let mut bells = behind.bells();
        bells.retain(|sleeper| !self.try_ring(sleeper));
        let owes = !bells.is_empty();
        behind.has_bells.store(owes, Ordering::Release);
        drop(bells);
        if owes {
            self.wait_for_room();
        }
        owes
    }

    /// A card that is gone rings nowhere: the connection tells of that.
    fn try_ring(&self, sleeper: &Ticket) -> bool {
        let message = Message::to(sleeper).interrupt();
        let sent = self.inner.terminus.try_send(&message, Source::Bytes(&[]));
        !sent.is_err_and(|error| error.is_would_block())
    }

    /// Takes note if there is room again for those that found none.
    pub(super) fn look_for_room(&self) {
        if self.inner.terminus.inner.take_room() {
            self.owes();
            let mut tokens = self.inner.behind.tokens();
            let waiting = std::mem::take(&mut tokens.waiting);
            tokens.ready.extend(waiting);
            drop(tokens);
            self.inner.behind.news.store(true, Ordering::Release);
            // Who sleeps for the same may have missed that the file was readable.
            self.inner.sleepers.look_again();
        }
    }

    /// If somebody found no room, makes the file readable once there is some. Whether there is
    /// already.
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
            self.inner.behind.take_news();
        }
        Ok(there)
    }

    /// The watch has risen: what it was woken by is to wake nobody else, unless others wait for the
    /// same.
    pub(super) fn quiet_room(&self) {
        // Who cannot has a card that is gone, and is told by whatever is called next.
        if let Ok(true) = self.arm_or_disarm() {
            self.look_for_room();
        }
    }

    /// Makes the file readable for who sleeps by it until the card has finished with more. Whether
    /// there is no need to sleep, and how long to sleep at most.
    pub(super) fn arm_for_card(&self) -> Result<(bool, Duration)> {
        let terminus = &self.inner.terminus.inner;
        let mut armed = self.inner.behind.armed();
        *armed = true;
        match terminus.half_way().map_or(Ok(true), |wanted| terminus.arm(wanted)) {
            Ok(there) => Ok((there, super::IN_DRIVER)),
            Err(Error::Unsupported(_)) => Ok((false, NAP)),
            Err(error) => Err(error),
        }
    }

    /// Whether there is room already for somebody who found none.
    fn arm_or_disarm(&self) -> Result<bool> {
        let terminus = &self.inner.terminus.inner;
        let mut armed = self.inner.behind.armed();
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
