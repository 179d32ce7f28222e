//! The traces of all running cards, or of some.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use hamlyn_host::catalogue;
use hamlyn_host::trace::{self, Source};
use hamlyn_trace::event::Event;
use hamlyn_trace::hello::CardName;
use hamlyn_trace::record::{Kind, Wish, split};
use hamlyn_trace::timeline::Timeline;
use rustix::process::setpriority_process;

use super::clock::{monotonic, nanoseconds};
use super::guest::Guest;
use super::spool::{Entry, Spool};
use crate::commands::tell;

/// How often the rings are looked at. In this time a busy card fills less than a tenth of a ring.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// An event is shown once it is this old: one that came before it on another card has been read
/// then.
const SETTLED: Duration = Duration::from_millis(50);
/// How long what is left in the rings is read at the end of a trace.
const REST: Duration = Duration::from_secs(30);
/// Priority of this program: it waits for cards and machines, not they for it.
const NICE: i32 = 19;
/// Bytes of kept records after which the user is told that they are read.
const LONG: u64 = 64 << 20;
/// Number of records that are taken from a ring before the next one's turn.
const BATCH: usize = 4096;

/// The cards that are traced.
pub(super) struct Session {
    sources: Vec<Source>,
    /// For each source, the number of each of its cards in the trace.
    numbers: Vec<Vec<Option<usize>>>,
    /// The cards, by their numbers in the trace.
    pub(super) cards: Vec<CardName>,
    timeline: Timeline,
    /// Where records are kept until the end of the trace, unless events are shown as they happen.
    spool: Option<Spool>,
    /// Machines whose kernels are traced, each with the number of its card in the trace.
    guests: Vec<(Guest, Option<usize>)>,
    stop: Arc<AtomicBool>,
    end: Option<Instant>,
    /// Number of records that the cards had no room for.
    pub(super) lost: u64,
}

impl Session {
    /// Begins to trace the cards with these names, or all if there are none, until `stop` is set or
    /// for `seconds`. Waits for them if `waits`.
    pub(super) fn start(
        names: &[String],
        wish: Wish,
        seconds: Option<f64>,
        waits: bool,
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        setpriority_process(None, NICE).context("cannot lower this program's priority")?;
        let (sources, failures) = connect(names, wish, waits, &stop)?;
        let mut session = Session {
            sources: Vec::new(),
            numbers: Vec::new(),
            cards: Vec::new(),
            timeline: Timeline::default(),
            spool: None,
            guests: Vec::new(),
            stop,
            end: seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds)),
            lost: 0,
        };
        for source in sources {
            session.add(source, names);
        }
        failures.iter().for_each(|failure| tell(&format!("not traced: {failure}")));
        Ok(session)
    }

    /// Traces the kernels of machines, too. Their interrupts are those of the cards at the same
    /// place in their lab: `card0` is that of its first machine.
    pub(super) fn add_guests(&mut self, names: &[String]) -> anyhow::Result<()> {
        for name in names {
            let kernel = CardName {
                name: name.clone(),
                model: "kernel".into(),
                host: None,
                counters: Vec::new(),
                regions: Vec::new(),
                settings: BTreeMap::new(),
            };
            let number = self.timeline.add(&kernel, &[]);
            let place = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
            let card = self.cards.iter().position(|card| card.name == format!("card{place}"));
            self.cards.push(kernel);
            self.guests.push((Guest::start(name, number)?, card));
        }
        Ok(())
    }

    /// Keeps what the cards write beside a file until the trace ends, if its events go to that
    /// file.
    pub(super) fn keep_for(&mut self, file: Option<&Path>) -> anyhow::Result<()> {
        // Events for a pipe or a device are read while they happen. A machine's event of the same
        // time as the card's that caused it has to come after it, so these are not kept apart.
        let is_kept = |file: &Path| file.metadata().is_ok_and(|file| file.is_file());
        let file = file.filter(|file| self.guests.is_empty() && is_kept(file));
        self.spool = file.map(Spool::beside).transpose()?;
        Ok(())
    }

    fn add(&mut self, source: Source, names: &[String]) {
        let mut numbers = Vec::new();
        for (card, reader) in source.hello.cards.iter().zip(&source.readers) {
            let is_wanted = names.is_empty() || names.contains(&card.name);
            numbers.push(is_wanted.then(|| {
                self.cards.push(card.clone());
                let packets = catalogue::find(&card.model).ok().and_then(catalogue::packets);
                self.timeline.add(card, packets.map_or(&[], |(_, fields)| fields))
            }));
            if !is_wanted {
                reader.set_wish(Wish::NONE.to_word());
            }
        }
        if numbers.iter().any(Option::is_some) {
            self.sources.push(source);
            self.numbers.push(numbers);
        }
    }

    /// Passes events on, in order, until the trace ends.
    pub(super) fn run(&mut self, mut sink: impl FnMut(&Event) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut rest = None;
        loop {
            let is_over = self.stop.load(Ordering::Relaxed)
                || self.end.is_some_and(|end| end <= Instant::now())
                || self.sources.iter().all(Source::has_ended);
            if is_over && rest.is_none() {
                // The cards write no more.
                let readers = self.sources.iter().flat_map(|source| &source.readers);
                readers.for_each(|reader| reader.set_wish(Wish::NONE.to_word()));
                rest = Some(Instant::now() + REST);
            }
            let (more, read) = self.read()?;
            let is_last = rest.is_some_and(|rest| !more || rest < Instant::now());
            let settled = read.saturating_sub(nanoseconds(SETTLED));
            match &mut self.spool {
                Some(spool) => spool.keep_time(settled)?,
                None => self.pass_on(settled, &mut sink)?,
            }
            if is_last {
                if more {
                    tell(&format!("the last events are missing: reading them takes more than {REST:?}"));
                }
                self.pass_on_kept(&mut sink)?;
                return self.pass_on(u64::MAX, &mut sink);
            }
            if !more {
                sleep(LOOK);
            }
        }
    }

    /// Passes on the events before a time.
    fn pass_on(
        &mut self,
        end: u64,
        sink: &mut impl FnMut(&Event) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        while let Some(event) = self.timeline.next_before(end) {
            if event.kind == Kind::Lost {
                self.lost += event.number;
            }
            sink(&event)?;
        }
        Ok(())
    }

    /// Passes on the events of the records that were kept.
    fn pass_on_kept(&mut self, sink: &mut impl FnMut(&Event) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let Some(spool) = self.spool.take() else { return Ok(()) };
        if spool.bytes() > LONG {
            let size = spool.bytes() >> 20;
            tell(&format!("writing the events of {size} MiB of records; Ctrl-C ends that early"));
        }
        self.stop.store(false, Ordering::Relaxed);
        for entry in spool.entries()? {
            match entry.context("the kept records cannot be read")? {
                Entry::Records(card, records) => self.timeline.push(card, &records),
                Entry::Time(_) if self.stop.load(Ordering::Relaxed) => break,
                Entry::Time(settled) => self.pass_on(settled, sink)?,
            }
        }
        Ok(())
    }

    /// Takes what is in the rings. Returns whether there may be more, and the time up to which all
    /// that the cards wrote has been taken.
    fn read(&mut self) -> anyhow::Result<(bool, u64)> {
        let (mut more, mut read) = (false, monotonic());
        for (source, numbers) in self.sources.iter_mut().zip(&self.numbers) {
            for (reader, number) in source.readers.iter_mut().zip(numbers) {
                let Some(number) = *number else { continue };
                for count in 1..=BATCH {
                    let Some(records) = reader.take().context("a ring cannot be read")? else { break };
                    let guests = self.guests.iter_mut().filter(|(_, card)| *card == Some(number));
                    for (guest, _) in guests {
                        interrupts(&records).for_each(|(time, vector)| guest.interrupt(time, vector));
                    }
                    if count == BATCH {
                        more = true;
                        read = split(&records).fold(read, |read, (record, _)| read.min(record.time));
                    }
                    match &mut self.spool {
                        Some(spool) => spool.keep(number, &records)?,
                        None => self.timeline.push(number, &records),
                    }
                }
            }
        }
        self.guests.iter_mut().for_each(|(guest, _)| guest.poll(&mut self.timeline));
        Ok((more, read))
    }
}

/// Returns the interrupts among a card's records: time and vector.
fn interrupts(batch: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let raised = split(batch).filter(|(record, _)| record.kind == Kind::Interrupt as u8);
    raised.map(|(record, _)| (record.time, record.a))
}

/// Connects to the processes of the cards with these names, or of all. Waits for them if `waits`.
/// Returns why others are not traced, too.
pub(super) fn connect(
    names: &[String],
    wish: Wish,
    waits: bool,
    stop: &AtomicBool,
) -> anyhow::Result<(Vec<Source>, Vec<String>)> {
    loop {
        match open(names, wish) {
            Err(_) if waits && !stop.load(Ordering::Relaxed) => sleep(LOOK),
            found => return found,
        }
    }
}

fn open(names: &[String], wish: Wish) -> anyhow::Result<(Vec<Source>, Vec<String>)> {
    let (mut sources, mut failures) = (Vec::new(), Vec::new());
    for socket in trace::sources()? {
        match Source::open(&socket, wish) {
            Ok(source) => sources.push(source),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    let known: Vec<String> = sources.iter().flat_map(|source| &source.hello.cards).map(name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!("card {unknown} is not running; running cards: {}", list(&known));
    }
    if known.is_empty() {
        ensure!(failures.is_empty(), "{}", failures.join("; "));
        bail!("no card is running: start a lab, with hamlyn up for example");
    }
    Ok((sources, failures))
}

fn name(card: &CardName) -> String {
    card.name.clone()
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}
