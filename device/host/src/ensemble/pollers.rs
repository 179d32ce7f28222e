//! Threads that handle the machines' messages: one for each socket of a machine, on the core that
//! the machine is pinned to.
//!
//! A thread that is woken by a program on its own core runs there at once, in place of that
//! program. If one thread served several machines, all but one of them would have to interrupt
//! another core. That takes longer than everything else done for a message (docs/performance.md).
//!
//! The ensemble itself is not divided: a thread that is woken locks it until there is no more work.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use hamlyn_bus::Waiter;
use hamlyn_fabric::Bell;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::round::Ensemble;
use crate::station::Socket;

/// The ensemble, shared by several threads.
pub(super) struct Shared {
    /// Held by the thread that gets the ensemble next. A thread that has just released the ensemble
    /// and wants it again queues behind the other waiters.
    next: Mutex<()>,
    state: Mutex<State>,
    /// Wakes the main thread.
    bell: Bell,
    /// The main thread's end of that bell.
    pub(super) waker: Bell,
}

struct State {
    ensemble: Ensemble,
    /// The tick that the main thread waits for.
    awaited: Option<Duration>,
    /// Why a message thread has ended.
    failure: Option<anyhow::Error>,
}

impl Shared {
    pub(super) fn new(ensemble: Ensemble) -> io::Result<Self> {
        let state = Mutex::new(State { ensemble, awaited: None, failure: None });
        let (bell, waker) = Bell::pair()?;
        Ok(Self { next: Mutex::new(()), state, bell, waker })
    }

    fn enter(&self) -> anyhow::Result<MutexGuard<'_, State>> {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state.lock().map_err(|_| anyhow!("a thread of the fabric has panicked"));
        drop(next);
        state
    }

    /// Calls `act` with exclusive access to the ensemble. Fails if another thread has panicked with
    /// it.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Ensemble) -> T) -> anyhow::Result<T> {
        Ok(act(&mut self.enter()?.ensemble))
    }

    /// Works, for a thread that calls again in time for the next tick. Returns how long it may
    /// wait, in milliseconds. Fails if a message thread has failed.
    pub(super) fn work_and_tick(&self) -> anyhow::Result<i32> {
        let mut state = self.enter()?;
        state.failure.take().map_or(Ok(()), Err)?;
        state.ensemble.tick();
        let done = state.ensemble.work();
        state.awaited = state.ensemble.next_tick();
        Ok(if done { state.ensemble.wait() } else { 0 })
    }

    /// Handles a machine's messages and the work that follows from them. Returns `false` if there
    /// is more work, and `None` if the machine no longer exists.
    fn serve(&self, station: usize, socket: Socket) -> anyhow::Result<Option<bool>> {
        let mut state = self.enter()?;
        if !state.ensemble.serve(station, socket) {
            return Ok(None);
        }
        let done = state.ensemble.work();
        let next = state.ensemble.next_tick();
        if next.is_some_and(|next| state.awaited.is_none_or(|awaited| next < awaited)) {
            state.awaited = next;
            self.bell.ring();
        }
        Ok(Some(done))
    }

    /// Closes all sockets. The message threads end at their next message.
    pub(super) fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).ensemble.stations.clear();
    }
}

/// A thread that handles the messages of one socket.
struct Poller {
    shared: Arc<Shared>,
    station: usize,
    socket: Socket,
    waiter: Waiter,
    core: usize,
}

/// Starts a thread for each socket. The cores are assigned to the stations in order, and reused in
/// turn if there are more stations.
pub(super) fn listen(shared: &Arc<Shared>, cores: &[u16]) -> anyhow::Result<()> {
    let allowed = sched_getaffinity(None).context("cannot find out which cores there are")?;
    for core in cores {
        ensure!(allowed.is_set((*core).into()), "core {core} is not there, or not for this process");
    }
    let pollers = shared.with(|ensemble| {
        let stations = ensemble.stations.iter().enumerate();
        let waiters = stations.flat_map(|(station, at)| at.waiters().map(move |found| (station, found)));
        waiters
            .map(|(station, (socket, waiter))| {
                let core = cores[station % cores.len()].into();
                Ok(Poller { shared: shared.clone(), station, socket, waiter: waiter?, core })
            })
            .collect::<io::Result<Vec<Poller>>>()
    })?;
    for poller in pollers.context("cannot wait for a machine")? {
        let name = format!("card{}", poller.station);
        thread::Builder::new().name(name).spawn(move || poller.run()).context("cannot start a thread")?;
    }
    Ok(())
}

impl Poller {
    fn run(self) {
        let Err(error) = self.listen() else { return };
        if let Ok(mut state) = self.shared.enter() {
            state.failure = Some(error.context(format!("the thread of card {} has failed", self.station)));
        }
    }

    fn listen(&self) -> anyhow::Result<()> {
        let mut core = CpuSet::new();
        core.set(self.core);
        sched_setaffinity(None, &core).with_context(|| format!("cannot be on core {}", self.core))?;
        let mut done = true;
        loop {
            if done {
                self.waiter.wait()?;
            }
            match self.shared.serve(self.station, self.socket)? {
                Some(all) => done = all,
                None => return Ok(()),
            }
        }
    }
}

impl Drop for Poller {
    /// A process must end if one of its message threads ends, also by a panic. So this wakes the
    /// main thread, which checks for the cause.
    fn drop(&mut self) {
        self.shared.bell.ring();
    }
}
