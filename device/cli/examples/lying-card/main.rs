//! A card that lies to its host, for tests of the driver. Occasionally it changes the value of a
//! register read, a word that it writes to host memory, or the vector of an interrupt. It never
//! changes what it sends to the switch.
//!
//! ```text
//! lying-card card --socket PATH --model NAME --switch PATH --one-in N
//!     [--only-misses 1] [--seed N] [--SETTING VALUE]
//! ```
//!
//! One of `--one-in` words in memory is changed. Each reset multiplies this number by 1, 4, 16 or
//! 64, chosen at random. The driver soon stops a card that lies often, and programs get far with
//! one that lies rarely. Register reads are changed a tenth as often.
//!
//! With `--only-misses 1`, only the pages that a message waits for (DART) are changed, in one of N
//! answers. The card then also counts what the driver does with them. The first argument and the
//! other flags are those of `hamlyn card`, so that a lab can start this program instead.

mod misses;

use std::cell::{Cell, RefCell};
use std::env;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use hamlyn_card::card::{Card, Identity, Place, Progress, Reading, Store};
use hamlyn_card::model::MakeError;
use hamlyn_card::ports::{Dma, DmaFault, Interrupt, Link, Operation, Packet, Ports, VolatileSlice};
use hamlyn_host::CardOptions;
use hamlyn_host::catalogue::{self, Choice, Model};
use hamlyn_host::single::{self, Options};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::misses::Misses;

/// The default seed.
const SEED: u64 = 20_261_127;

/// The random choice of lies, and their number.
struct Lies {
    random: RefCell<Xoshiro256PlusPlus>,
    /// The value of `--one-in`.
    least: u64,
    /// The current value, chosen at the last reset.
    one_in: Cell<u64>,
    told: Cell<u64>,
    /// Set with `--only-misses`.
    misses: Option<Misses>,
}

impl Lies {
    fn random(&self) -> u64 {
        self.random.borrow_mut().next_u64()
    }

    /// Chooses how often the card lies until the next reset.
    fn choose(&self) {
        self.one_in.set(self.least << (2 * (self.random() % 4)));
    }

    /// Draws whether to change the next word, with probability 1 in `one_in`.
    fn is_due(&self, one_in: u64) -> bool {
        let due = self.misses.is_none() && self.random() % one_in == 0;
        self.told.set(self.told.get() + u64::from(due));
        due
    }

    /// Returns the changed value of a word of `bytes` bytes: 0, all ones, one more or less, one bit
    /// flipped, or a random value.
    fn instead_of(&self, value: u64, bytes: usize) -> u64 {
        let random = self.random();
        let lie = match random % 6 {
            0 => 0,
            1 => u64::MAX,
            2 => value.wrapping_add(1),
            3 => value.wrapping_sub(1),
            4 => value ^ (1 << ((random >> 8) % (8 * bytes as u64))),
            _ => self.random(),
        };
        lie & (u64::MAX >> (64 - 8 * bytes))
    }

    fn told_of(&self, value: u64, bytes: usize, one_in: u64) -> u64 {
        if self.is_due(one_in) { self.instead_of(value, bytes) } else { value }
    }
}

/// Host memory. Some of the card's writes to it are changed.
struct LyingDma<'a> {
    dma: &'a dyn Dma,
    lies: &'a Lies,
}

impl Dma for LyingDma<'_> {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.dma.read(address, into)?;
        if let Some(misses) = &self.lies.misses {
            let mut bytes = vec![0; into.len()];
            into.copy_to(&mut bytes[..]);
            misses.read(address, &bytes);
        }
        Ok(())
    }

    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        self.dma.lend(address, length)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        let lies = self.lies;
        if let Some(misses) = lies.misses.as_ref().filter(|misses| misses.are_at(address))
            && lies.random() % lies.least == 0
        {
            let mut bytes = vec![0; from.len()];
            from.copy_to(&mut bytes[..]);
            misses.change(&mut bytes, lies.random(), |value, bytes| lies.instead_of(value, bytes));
            lies.told.set(lies.told.get() + 1);
            return self.dma.write(address, VolatileSlice::from(&mut bytes[..]));
        }
        if from.is_empty() || !self.lies.is_due(self.lies.one_in.get()) {
            return self.dma.write(address, from);
        }
        let mut bytes = vec![0; from.len()];
        from.copy_to(&mut bytes[..]);
        let words = bytes.len().div_ceil(4);
        // The first word is chosen more often, because the rest of a structure depends on it.
        let random = self.lies.random();
        let start = if random % 3 == 0 { 0 } else { 4 * ((random >> 8) as usize % words) };
        let word = start..bytes.len().min(start + 4);
        let mut value = [0; 8];
        value[..word.len()].copy_from_slice(&bytes[word.clone()]);
        let lie = self.lies.instead_of(u64::from_le_bytes(value), word.len()).to_le_bytes();
        bytes[word.clone()].copy_from_slice(&lie[..word.len()]);
        self.dma.write(address, VolatileSlice::from(&mut bytes[..]))
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        self.dma.publish(address, self.lies.told_of(value.into(), 4, self.lies.one_in.get()) as u32)
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        self.dma.fetch(address, operation)
    }
}

/// Interrupt lines. Some interrupts are raised with another vector.
struct LyingInterrupt<'a> {
    interrupt: &'a dyn Interrupt,
    lies: &'a Lies,
    vectors: u16,
}

impl Interrupt for LyingInterrupt<'_> {
    fn raise(&self, vector: u16) {
        let vector = if self.lies.is_due(self.lies.one_in.get()) {
            self.lies.random() as u16 % self.vectors
        } else {
            vector
        };
        self.interrupt.raise(vector);
    }
}

/// A card of some model that lies to its host.
struct Liar {
    card: Box<dyn Card + Send>,
    lies: Lies,
}

impl Liar {
    /// Calls a method of the card with lying ports.
    fn with<R>(
        &mut self,
        ports: &Ports<'_>,
        verb: impl FnOnce(&mut (dyn Card + Send), &Ports<'_>) -> R,
    ) -> R {
        let Liar { card, lies } = self;
        let vectors = card.identity().vectors.max(1);
        let dma = LyingDma { dma: ports.dma, lies };
        let interrupt = LyingInterrupt { interrupt: ports.interrupt, lies, vectors };
        verb(card.as_mut(), &Ports { dma: &dma, interrupt: &interrupt, ..*ports })
    }
}

impl Card for Liar {
    fn identity(&self) -> Identity {
        self.card.identity()
    }

    fn register_read(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8) -> Reading {
        match self.with(ports, |card, ports| card.register_read(ports, bar, offset, width)) {
            Reading::Now(value) => {
                Reading::Now(self.lies.told_of(value, width.into(), 10 * self.lies.one_in.get()))
            }
            later @ Reading::Later(_) => later,
        }
    }

    fn late_reading(&mut self) -> Option<(u64, u64)> {
        self.card.late_reading()
    }

    fn register_write(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8, value: u64) {
        if let (Some(misses), 0) = (&self.lies.misses, bar) {
            misses.stored(offset, value);
        }
        self.with(ports, |card, ports| card.register_write(ports, bar, offset, width, value));
    }

    fn store_seen(&mut self, ports: &Ports<'_>, store: &Store) {
        self.with(ports, |card, ports| card.store_seen(ports, store));
    }

    fn takes_stores(&self) -> bool {
        self.card.takes_stores()
    }

    fn watch_change(&mut self) -> Option<(u64, bool)> {
        self.card.watch_change()
    }

    fn snooping_changed(&mut self, ports: &Ports<'_>, snoops: bool) {
        self.with(ports, |card, ports| card.snooping_changed(ports, snoops));
    }

    fn transmit(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress {
        self.with(ports, |card, ports| card.transmit(ports, link))
    }

    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        self.with(ports, |card, ports| card.packet_arrived(ports, packet));
    }

    fn takes_packets(&self) -> bool {
        self.card.takes_packets()
    }

    fn sleep(&mut self, ports: &Ports<'_>) -> bool {
        self.with(ports, |card, ports| card.sleep(ports))
    }

    fn alarm(&self) -> Option<Duration> {
        self.card.alarm()
    }

    fn tick(&mut self, ports: &Ports<'_>) {
        self.with(ports, |card, ports| card.tick(ports));
    }

    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>) {
        self.with(ports, |card, ports| card.link_changed(ports, place));
    }

    fn reset(&mut self, ports: &Ports<'_>) {
        self.lies.choose();
        self.with(ports, |card, ports| card.reset(ports));
    }

    fn is_enabled(&self) -> bool {
        self.card.is_enabled()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.card.counters();
        counters.push(("lies_told", self.lies.told.get()));
        if let Some(misses) = &self.lies.misses {
            counters.push(("pages_told_outside", misses.told_outside.get()));
        }
        counters
    }
}

/// Returns the flags and their values, which are words of their own or behind an `=`.
fn flags() -> anyhow::Result<Vec<(String, String)>> {
    let words = env::args().skip(2).flat_map(|word| match word.split_once('=') {
        Some((name, value)) if name.starts_with("--") => vec![name.to_owned(), value.to_owned()],
        _ => vec![word],
    });
    let words: Vec<String> = words.collect();
    let flag = |pair: &[String]| match pair {
        [name, value] if name.starts_with("--") => Ok((name[2..].to_owned(), value.clone())),
        other => bail!("{other:?} is not a flag and its value"),
    };
    words.chunks(2).map(flag).collect()
}

fn flag(name: &str) -> anyhow::Result<String> {
    let found = flags()?.into_iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value).with_context(|| format!("there is no --{name}"))
}

fn number(name: &str) -> anyhow::Result<u64> {
    let value = flag(name)?;
    value.parse().with_context(|| format!("--{name} is {value}, and not a number"))
}

/// Wraps an honest card of the model in a liar.
fn make(choice: &Choice) -> Result<Box<dyn Card + Send>, MakeError> {
    let honest = catalogue::find(choice.model().name)?;
    let mut chosen = Choice::of(honest);
    for setting in honest.settings {
        chosen.set(setting.name, choice.get(setting.name)?)?;
    }
    let seed = number("seed").unwrap_or(SEED);
    let least = number("one-in")?.max(1);
    let misses = number("only-misses").is_ok_and(|flag| flag != 0).then(Misses::default);
    let random = RefCell::new(Xoshiro256PlusPlus::seed_from_u64(seed));
    let lies = Lies { random, least, one_in: Cell::new(least), told: Cell::new(0), misses };
    Ok(Box::new(Liar { card: chosen.make()?, lies }))
}

fn main() -> anyhow::Result<()> {
    let honest = catalogue::find(&flag("model")?)?;
    let model: &'static Model = Box::leak(Box::new(Model { make, ..*honest }));
    let mut choice = Choice::of(model);
    for setting in model.settings {
        if let Ok(value) = flag(setting.name) {
            choice.set(setting.name, value.parse().context(setting.name)?)?;
        }
    }
    single::run(&Options {
        socket: PathBuf::from(flag("socket")?),
        switch: PathBuf::from(flag("switch")?),
        trusted: vec![rustix::process::geteuid().as_raw(), 0],
        host: None,
        card: CardOptions { choice, guest_memory: CardOptions::GUEST_MEMORY, faults: None },
        spin: Duration::ZERO,
    })
}
