//! The event loop of `hamlyn fabric`.
//!
//! Only the machines' messages and signals come from outside. By default one thread handles all of
//! them. With `--cores`, separate threads handle the machines' messages ([`pollers`]), and the main
//! thread handles the rest: signals, readers of the counters, the cards' timers, and messages for
//! functions with express memory. Such functions may be many, but they get few messages.
//!
//! [`pollers`]: super::pollers

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use event_manager::{EventManager, EventOps, EventSet, Events, MutEventSubscriber, SubscriberOps};

use super::Options;
use super::pollers::{self, Shared};
use super::round::Ensemble;
use crate::faults::FaultServer;
use crate::limits;
use crate::signals::stop_on_signals;
use crate::stat::StatServer;
use crate::station::{Socket, Station};
use crate::trace::TraceServer;

const STAT: u32 = 0;
const STOP: u32 = 1;
const BELL: u32 = 2;
const TRACE: u32 = 3;
const FAULTS: u32 = 4;
/// The first of the stations' sockets. Each station has a range of [`Socket::MOST`] numbers.
const STATION: u32 = 5;

/// Runs cards and switch until a signal ends them.
pub fn run(options: &Options) -> anyhow::Result<()> {
    limits::keep_guests_out_of_core_dumps();
    limits::allow_many_descriptors();
    let ensemble = Ensemble::start(options)?;
    hamlyn_door::warn_of_unused_sockets();
    tracing::info!("{} cards in one process, on {}", options.cards.len(), ensemble.names.join(", "));
    let sockets = sockets(&ensemble, !options.cores.is_empty());
    let shared = Arc::new(Shared::new(ensemble).context("cannot make a bell")?);
    let end = run_loop(&shared, sockets, &options.cores);
    shared.close();
    end
}

fn run_loop(shared: &Arc<Shared>, sockets: Vec<(RawFd, u32)>, cores: &[u16]) -> anyhow::Result<()> {
    let stop = stop_on_signals()?;
    if !cores.is_empty() {
        pollers::listen(shared, cores)?;
    }
    let (stat, trace) = (StatServer::bind("fabric", "fabric")?, TraceServer::bind("fabric")?);
    let faults = FaultServer::bind("fabric")?;
    let mut manager = EventManager::new().context("cannot make an event manager")?;
    let process = EnsembleProcess { shared: shared.clone(), sockets, stat, trace, faults, stop, end: None };
    let id = manager.add_subscriber(process);
    loop {
        let process = manager.subscriber_mut(id).context("the fabric has left its event manager")?;
        if let Some(end) = process.end.take() {
            return end;
        }
        let wait = shared.work_and_tick()?;
        manager.run_with_timeout(wait).context("cannot wait for events")?;
    }
}

/// Returns the stations' sockets with their numbers. With `quiet`, returns only the quiet ones,
/// because the others have threads.
fn sockets(ensemble: &Ensemble, quiet: bool) -> Vec<(RawFd, u32)> {
    let number = |(station, first): (_, u32)| {
        let sockets = Station::sockets(station).filter(move |(socket, _)| !quiet || socket.is_quiet());
        sockets.map(move |(socket, fd)| (fd, first + socket.number()))
    };
    ensemble.stations.iter().zip((STATION..).step_by(Socket::MOST as usize)).flat_map(number).collect()
}

/// The state of the main thread.
struct EnsembleProcess {
    shared: Arc<Shared>,
    /// The machines' sockets, except for those that have threads.
    sockets: Vec<(RawFd, u32)>,
    stat: StatServer,
    trace: TraceServer,
    faults: FaultServer,
    stop: UnixStream,
    /// The result of the process, once it ends.
    end: Option<anyhow::Result<()>>,
}

impl EnsembleProcess {
    fn handle(&mut self, number: u32) -> anyhow::Result<()> {
        match number {
            STAT => {
                let counters = self.shared.with(|ensemble| ensemble.counters())?;
                self.stat.answer(|| &counters);
            }
            TRACE => {
                let trace = &mut self.trace;
                self.shared.with(|ensemble| trace.serve(ensemble.named()))?;
            }
            FAULTS => {
                let faults = &mut self.faults;
                self.shared.with(|ensemble| {
                    if faults.serve(ensemble.named()) {
                        ensemble.rouse_all();
                    }
                })?;
            }
            STOP => self.end = Some(Ok(())),
            BELL => _ = self.shared.waker.hear(),
            number => {
                let number = number - STATION;
                let (station, socket) = (number / Socket::MOST, number % Socket::MOST);
                self.shared.with(|ensemble| ensemble.serve(station as usize, Socket::of(socket)))?;
            }
        }
        Ok(())
    }
}

impl MutEventSubscriber for EnsembleProcess {
    fn init(&mut self, ops: &mut EventOps<'_>) {
        let bell = self.shared.waker.as_fd().as_raw_fd();
        let (stat, trace, faults) = (self.stat.as_raw_fd(), self.trace.as_raw_fd(), self.faults.as_raw_fd());
        let stop = self.stop.as_raw_fd();
        let fixed = [(stat, STAT), (trace, TRACE), (faults, FAULTS), (stop, STOP), (bell, BELL)];
        for (fd, data) in fixed.into_iter().chain(self.sockets.iter().copied()) {
            if let Err(error) = ops.add(Events::with_data_raw(fd, data, EventSet::IN)) {
                self.end = Some(Err(anyhow!("cannot watch a descriptor: {error}")));
            }
        }
    }

    fn process(&mut self, events: Events, _: &mut EventOps<'_>) {
        if let Err(error) = self.handle(events.data()) {
            self.end = Some(Err(error));
        }
    }
}
