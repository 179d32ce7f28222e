//! A card with the memory, windows, interrupt lines and time that it reaches.
//!
//! All parts of a host share it, like a real machine. Everything runs in one thread, so no lock is
//! ever contended.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hamlyn_card::card::{BarKind, Card, Identity, Place};
use hamlyn_card::ports::Ports;
use hamlyn_replay::file::Call;
use hamlyn_replay::player::Player;
use hamlyn_replay::record::{Calls, RecordedCard};

use crate::engine::clock::SimClock;
use crate::engine::memory::Memory;
use crate::engine::shared::{Shared, region};
use crate::engine::violation::Violation;
use crate::engine::window::{Bars, Pages, Vectors};

/// Makes a card.
type Make = Box<dyn Fn() -> Result<Box<dyn Card + Send>, Violation> + Send + Sync>;

/// Another card that gets the same calls, from a recording.
enum Twin {
    /// It may be wanted: all calls so far.
    Undecided(Vec<Call>),
    None,
    Plays(Player),
}

/// A card and its surroundings.
pub(crate) struct Station {
    pub(crate) id: u16,
    pub(crate) memory: Memory,
    pub(crate) windows: Bars,
    pub(crate) vectors: Vectors,
    pub(crate) clock: SimClock,
    card: Mutex<Box<dyn Card + Send>>,
    make: Make,
    twin: Mutex<Twin>,
    /// Whether the card's process waits for its bell or for a doorbell.
    asleep: AtomicBool,
    /// Whether the card has its link.
    linked: AtomicBool,
    /// Number of calls of the card.
    calls: AtomicU64,
}

impl Station {
    /// Creates a host of `frames` pages with a card that is powered on. `mapped` are BARs that are
    /// mapped elsewhere too.
    pub(crate) fn new<C: Card + Send + 'static>(
        id: u16,
        make: impl Fn() -> Result<C, Violation> + Send + Sync + 'static,
        frames: u64,
        mapped: Vec<Pages>,
    ) -> Result<Self, Violation> {
        let make: Make = Box::new(move || Ok(Box::new(make()?)));
        let card = make()?;
        Ok(Self {
            id,
            memory: Memory::new(frames)?,
            windows: all_of(&card.identity(), mapped)?,
            vectors: Vectors::default(),
            clock: SimClock::default(),
            card: Mutex::new(card),
            make,
            twin: Mutex::new(Twin::Undecided(Vec::new())),
            asleep: AtomicBool::new(false),
            linked: AtomicBool::new(false),
            calls: AtomicU64::new(0),
        })
    }

    fn card(&self) -> MutexGuard<'_, Box<dyn Card + Send>> {
        lock(&self.card)
    }

    /// Makes all calls again at another card, if `wanted`. It must do the same.
    pub(crate) fn decide_twin(&self, wanted: bool) -> Result<(), Violation> {
        let player = if wanted { Twin::Plays(Player::new((self.make)()?)) } else { Twin::None };
        let mut twin = lock(&self.twin);
        let Twin::Undecided(calls) = std::mem::replace(&mut *twin, player) else { return Ok(()) };
        self.replay(&mut twin, calls)
    }

    /// Calls the card, and its twin.
    fn call<T>(
        &self,
        ports: &Ports<'_>,
        verb: impl FnOnce(&mut dyn Card, &Ports<'_>) -> T,
    ) -> Result<T, Violation> {
        let mut twin = lock(&self.twin);
        if matches!(*twin, Twin::None) {
            return Ok(verb(&mut **self.card(), ports));
        }
        let calls = Calls::default();
        let result = verb(&mut RecordedCard::new(&mut **self.card(), &calls), ports);
        self.replay(&mut twin, calls.take())?;
        Ok(result)
    }

    fn replay(&self, twin: &mut Twin, calls: Vec<Call>) -> Result<(), Violation> {
        let player = match twin {
            Twin::Plays(player) => player,
            Twin::Undecided(all) => {
                all.extend(calls);
                return Ok(());
            }
            Twin::None => return Ok(()),
        };
        for call in calls {
            let played = player.play(&call);
            let text = |what: &str| Err(Violation::new(format!("host {}, {}: {what}", self.id, call.step)));
            if let Some(difference) = played.differences.first() {
                return text(&format!("its replay differs\n  {difference}"));
            }
            if let Some(looked) = played.unforeseen.first() {
                return text(&format!("its replay looks at something else: {looked:?}"));
            }
        }
        Ok(())
    }

    /// Calls the card, and fails if it made a forbidden access.
    pub(crate) fn with_card<T>(
        &self,
        verb: impl FnOnce(&mut dyn Card, &Ports<'_>) -> T,
    ) -> Result<T, Violation> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let ports =
            Ports { dma: &self.memory, windows: &self.windows, interrupt: &self.vectors, clock: &self.clock };
        let result = self.call(&ports, verb)?;
        match self.memory.take_complaint() {
            Some(complaint) => Err(Violation::new(format!("host {}: {complaint}", self.id))),
            None => Ok(result),
        }
    }

    /// Returns the number of calls of the card. While it stays the same, the card has done nothing.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns whether the card's process waits for its bell or for a doorbell.
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    pub(crate) fn set_asleep(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::Relaxed);
    }

    /// Does a trapped store: a message to the card's process, which wakes it.
    pub(crate) fn store(&self, bar: u8, offset: u64, width: u8, value: u64) -> Result<(), Violation> {
        self.set_asleep(false);
        self.with_card(|card, ports| card.register_write(ports, bar, offset, width, value))
    }

    /// Does a trapped load of a word of BAR 0.
    pub(crate) fn load(&self, register: u32) -> Result<u32, Violation> {
        self.with_card(|card, ports| {
            card.register_read(ports, 0, register.into(), 4).now().unwrap_or(0) as u32
        })
    }

    pub(crate) fn set_link_state(&self, up: bool) -> Result<(), Violation> {
        self.set_asleep(false);
        self.linked.store(up, Ordering::Relaxed);
        let place = up.then_some(Place { host: self.id, ports: 0 });
        self.with_card(|card, ports| card.link_changed(ports, place))
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.linked.load(Ordering::Relaxed)
    }

    /// Returns whether the card takes a packet now. While it does not, its packets wait where they
    /// are.
    pub(crate) fn takes_packets(&self) -> bool {
        self.card().takes_packets()
    }

    /// Returns the time of the card's next tick, in milliseconds.
    pub(crate) fn alarm(&self) -> Option<u128> {
        self.card().alarm().map(|alarm| alarm.as_millis())
    }

    /// Returns the card's counters in order.
    pub(crate) fn counters(&self) -> Vec<u64> {
        self.card().counters().into_iter().map(|(_, count)| count).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Station {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the station of host {}", self.id)
    }
}

/// Returns all mapped BARs of a card. Those not given are zeroed memory that no process maps.
fn all_of(identity: &Identity, mut given: Vec<Pages>) -> Result<Bars, Violation> {
    for bar in &identity.bars {
        let BarKind::Window { used } = bar.kind else { continue };
        if given.iter().all(|pages| pages.bar() != bar.index) {
            let pages = region(used)?;
            pages.write(0, &vec![0; used as usize]);
            given.push(Pages::new(bar.index, [pages as _]));
        }
    }
    Ok(Bars(given))
}
