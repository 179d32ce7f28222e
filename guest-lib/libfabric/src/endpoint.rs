//! An endpoint: its engine, its connections, and where its events go.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use hamlyn::Error;
use hamlyn::channel::{Channel, Listener};

use crate::abi::*;
use crate::address::Address;
use crate::av::Av;
use crate::cntr::Counter;
use crate::cq::Queue;
use crate::domain::Domain;
use crate::engine::Engine;
use crate::engine::event::{Event, Side};
use crate::link::{Bell, ChannelLink, Files, number, options};
use crate::watched::{Progress, lock};

/// Time after which a peer that does not answer is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that closing an endpoint takes at most, while packets wait for room.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two attempts to accept a peer after one that has failed.
const PAUSE: Duration = Duration::from_millis(20);

/// A completion queue, and whether successes are reported only if an operation asks for that.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) queue: Arc<Queue>,
    pub(crate) is_selective: bool,
}

/// A link from another thread.
#[derive(Debug)]
enum Arrival {
    Connected(usize, Result<Box<ChannelLink>, i32>),
    Accepted(Box<ChannelLink>),
}

/// The engine, and numbers of the address vector that it needs often.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) engine: Engine<ChannelLink>,
    version: u64,
    peers: Vec<Option<usize>>,
    sources: Vec<Option<u64>>,
}

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// This endpoint, for its threads.
    own: Weak<Self>,
    domain: Arc<Domain>,
    pub(crate) address: Address,
    inner: Mutex<Inner>,
    pub(crate) av: OnceLock<Arc<Av>>,
    pub(crate) transmit: OnceLock<Sink>,
    pub(crate) receive: OnceLock<Sink>,
    /// Counters, with the kinds of operations that they count.
    counters: Mutex<Vec<(Arc<Counter>, u64)>>,
    has_counters: AtomicBool,
    pub(crate) tx_flags: AtomicU64,
    pub(crate) rx_flags: AtomicU64,
    arrivals: Mutex<Vec<Arrival>>,
    has_arrivals: AtomicBool,
    listener: Mutex<Option<Listener>>,
    /// Ends the thread that accepts.
    bell: Arc<Bell>,
}

impl Endpoint {
    /// Creates an endpoint of this name, or of one that cannot be guessed.
    pub(crate) fn new(domain: &Arc<Domain>, address: Option<Address>) -> Result<Arc<Self>, i32> {
        let address = match address {
            Some(address) => address,
            None => Address::new(domain.host, &format!("fi.{}", secret()?)).ok_or(libc::EINVAL)?,
        };
        let name = address.name().ok_or(libc::EINVAL)?;
        let listener = Listener::bind(&domain.card, name, options()).map_err(|error| {
            if matches!(&error, Error::System { .. }) { libc::EADDRINUSE } else { number(&error) }
        })?;
        let engine = Engine::new(address, domain.regions.clone());
        let bell = Arc::new(Bell::new()?);
        Ok(Arc::new_cyclic(|own| Self {
            own: own.clone(),
            domain: domain.clone(),
            address,
            inner: Mutex::new(Inner { engine, version: 0, peers: Vec::new(), sources: Vec::new() }),
            av: OnceLock::new(),
            transmit: OnceLock::new(),
            receive: OnceLock::new(),
            counters: Mutex::default(),
            has_counters: AtomicBool::new(false),
            tx_flags: AtomicU64::new(0),
            rx_flags: AtomicU64::new(0),
            arrivals: Mutex::default(),
            has_arrivals: AtomicBool::new(false),
            listener: Mutex::new(Some(listener)),
            bell,
        }))
    }

    /// Begins to accept peers.
    pub(crate) fn enable(&self) -> Result<(), i32> {
        self.av.get().ok_or(FI_ENOAV)?;
        let Some(listener) = lock(&self.listener).take() else { return Ok(()) };
        let (endpoint, bell) = (self.own.clone(), self.bell.clone());
        let accept = move || {
            while bell.wait_for(&listener) {
                let accepted = listener.try_accept();
                let Some(endpoint) = endpoint.upgrade() else { return };
                match accepted {
                    Ok(channel) => endpoint.arrive(Arrival::Accepted(Box::new(ChannelLink::new(channel)))),
                    Err(error) if error.is_would_block() => {}
                    // Without memory for another ring, say. The peer was told.
                    Err(_) => thread::sleep(PAUSE),
                }
            }
        };
        let thread = thread::Builder::new().name("hamlyn-accept".into()).spawn(accept);
        thread.map(|_| ()).map_err(|_| libc::EAGAIN)
    }

    /// Ends the endpoint: sends what waits for room, for a while.
    pub(crate) fn close(&self) {
        let begun = Instant::now();
        while !self.inner().engine.is_idle() && begun.elapsed() < CLOSE_TIMEOUT {
            self.progress();
            thread::yield_now();
        }
        self.bell.ring();
        for sink in [&self.transmit, &self.receive].into_iter().filter_map(OnceLock::get) {
            sink.queue.watched().remove(self);
        }
        for (counter, _) in &*lock(&self.counters) {
            counter.watched().remove(self);
        }
    }

    /// Counts operations of these kinds.
    pub(crate) fn count_by(&self, counter: &Arc<Counter>, kinds: u64) {
        lock(&self.counters).push((counter.clone(), kinds));
        self.has_counters.store(true, Ordering::Release);
    }

    fn arrive(&self, arrival: Arrival) {
        lock(&self.arrivals).push(arrival);
        self.has_arrivals.store(true, Ordering::Release);
        for sink in [&self.transmit, &self.receive].into_iter().filter_map(OnceLock::get) {
            sink.queue.watched().rouse();
        }
        for (counter, _) in &*lock(&self.counters) {
            counter.watched().rouse();
        }
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Reports events and begins connections, after calls of the engine.
    pub(crate) fn settle(&self, inner: &mut Inner) {
        for peer in std::mem::take(&mut inner.engine.wanted) {
            self.connect(peer, inner.engine.address(peer));
        }
        if inner.engine.events.is_empty() {
            return;
        }
        let mut events = std::mem::take(&mut inner.engine.events);
        for event in events.drain(..) {
            self.report(inner, event);
        }
        inner.engine.events = events;
    }

    fn report(&self, inner: &mut Inner, event: Event) {
        if self.has_counters.load(Ordering::Acquire) {
            for (counter, kinds) in &*lock(&self.counters) {
                if event.flags & kinds != 0 {
                    counter.count(event.error != 0);
                }
            }
        }
        let sink = match event.side {
            Side::Transmit => self.transmit.get(),
            Side::Receive => self.receive.get(),
        };
        if let Some(sink) = sink.filter(|_| event.report) {
            let source = event.peer.map_or(FI_ADDR_UNSPEC, |peer| inner.source(self.av.get(), peer));
            sink.queue.push(event, source);
        }
    }

    fn connect(&self, peer: usize, address: Address) {
        let (endpoint, domain) = (self.own.clone(), self.domain.clone());
        let connect = move || {
            let name = address.name().unwrap_or_default();
            let opened =
                Channel::connect_timeout(&domain.card, address.host(), name, options(), CONNECT_TIMEOUT);
            let outcome =
                opened.map(|channel| Box::new(ChannelLink::new(channel))).map_err(|error| number(&error));
            if let Some(endpoint) = endpoint.upgrade() {
                endpoint.arrive(Arrival::Connected(peer, outcome));
            }
        };
        if thread::Builder::new().name("hamlyn-connect".into()).spawn(connect).is_err() {
            // This thread looks next.
            lock(&self.arrivals).push(Arrival::Connected(peer, Err(libc::EAGAIN)));
            self.has_arrivals.store(true, Ordering::Release);
        }
    }
}

impl Progress for Endpoint {
    fn progress(&self) {
        let mut inner = self.inner();
        if self.has_arrivals.load(Ordering::Acquire) {
            self.has_arrivals.store(false, Ordering::Release);
            for arrival in std::mem::take(&mut *lock(&self.arrivals)) {
                match arrival {
                    Arrival::Accepted(link) => inner.engine.accepted(*link),
                    Arrival::Connected(peer, outcome) => {
                        inner.engine.connected(peer, outcome.map(|link| *link));
                    }
                }
            }
        }
        inner.engine.progress();
        self.settle(&mut inner);
    }

    fn arm(&self, files: &mut Files) -> Result<bool, i32> {
        let mut inner = self.inner();
        if self.has_arrivals.load(Ordering::Acquire) {
            return Ok(true);
        }
        let (needs_room, mut is_ready) = (!inner.engine.is_idle(), false);
        inner.engine.each_link(|link| {
            // A link whose peer is lost is ready, and found to be so.
            is_ready |= link.arm(files, needs_room).unwrap_or(true);
        });
        Ok(is_ready)
    }
}

impl Inner {
    /// The peer with a number of the address vector.
    pub(crate) fn peer(&mut self, av: Option<&Arc<Av>>, number: u64) -> Result<usize, i32> {
        let av = av.ok_or(FI_ENOAV)?;
        self.refresh(av);
        let at = usize::try_from(number).map_err(|_| libc::EINVAL)?;
        if let Some(Some(peer)) = self.peers.get(at) {
            return Ok(*peer);
        }
        let peer = self.engine.peer(av.address(number).ok_or(libc::EINVAL)?);
        if self.peers.len() <= at {
            self.peers.resize(at + 1, None);
        }
        self.peers[at] = Some(peer);
        Ok(peer)
    }

    /// A peer's number in the address vector.
    fn source(&mut self, av: Option<&Arc<Av>>, peer: usize) -> u64 {
        let Some(av) = av else { return FI_ADDR_UNSPEC };
        self.refresh(av);
        if let Some(Some(number)) = self.sources.get(peer) {
            return *number;
        }
        let number = av.number(self.engine.address(peer));
        if self.sources.len() <= peer {
            self.sources.resize(peer + 1, None);
        }
        self.sources[peer] = Some(number);
        number
    }

    fn refresh(&mut self, av: &Av) {
        let version = av.version();
        if version != self.version {
            self.version = version;
            self.peers.clear();
            self.sources.clear();
        }
    }
}

/// Random digits: who knows an endpoint's name may send to it.
fn secret() -> Result<String, i32> {
    let mut bytes = [0_u8; 10];
    // SAFETY: there is room for as many bytes as are asked for.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got != bytes.len() as isize {
        return Err(libc::EIO);
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
