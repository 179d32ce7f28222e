//! A recording and the card that replays it.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::Context;
use hamlyn_host::catalogue::{self, Choice};
use hamlyn_replay::events::Namer;
use hamlyn_replay::file::{Call, RecordingReader};
use hamlyn_replay::player::{Difference, Player};
use hamlyn_trace::event::Event;
use hamlyn_trace::hello::CardName;

/// A replay, from its first call on.
pub(super) struct Replay {
    path: PathBuf,
    reader: RecordingReader<BufReader<File>>,
    player: Player,
    namer: Namer,
    number: u64,
    start: u64,
    now: u64,
    unforeseen: usize,
}

/// A call that was made.
pub(super) struct Made {
    /// The recorded call.
    pub(super) call: Call,
    /// What the card does now, if that differs.
    now: Option<Call>,
    pub(super) differences: Vec<Difference>,
    pub(super) events: Vec<Event>,
}

impl Made {
    /// Returns the call with what the card does now.
    pub(super) fn as_now(&self) -> Call {
        let Some(now) = &self.now else { return self.call.clone() };
        let seen = self.call.steps.iter().filter(|step| !step.kind.is_output());
        Call { steps: seen.chain(&now.steps).cloned().collect(), ..now.clone() }
    }
}

/// Opens a recording.
pub(super) fn reader(path: &Path) -> anyhow::Result<RecordingReader<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    RecordingReader::new(BufReader::new(file)).with_context(|| path.display().to_string())
}

/// Names the events of a card.
pub(super) fn namer(card: &CardName) -> anyhow::Result<Namer> {
    let packets = catalogue::packets(catalogue::find(&card.model)?);
    Ok(Namer::new(card, packets.map_or(&[], |(_, fields)| fields)))
}

impl Replay {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let reader = reader(path)?;
        let card = reader.card();
        let mut choice = Choice::of(catalogue::find(&card.model)?);
        for (name, value) in reader.settings() {
            let known = choice.model().settings.iter().find(|setting| setting.name == name);
            let known = known.with_context(|| format!("model {} has no setting {name}", card.model))?;
            choice.set(known.name, *value)?;
        }
        let player = Player::new(choice.make().map_err(anyhow::Error::from_boxed)?);
        let namer = namer(card)?;
        let (path, number, start, now, unforeseen) = (path.to_owned(), 0, 0, 0, 0);
        Ok(Self { path, reader, player, namer, number, start, now, unforeseen })
    }

    /// Makes the next call. Returns `None` at the end.
    pub(super) fn step(&mut self) -> anyhow::Result<Option<Made>> {
        if self.player.has_panicked() {
            return Ok(None);
        }
        let Some(call) = super::next(&mut self.reader, &self.path)? else { return Ok(None) };
        self.number = call.number;
        self.now = call.step.record.time;
        if self.start == 0 {
            self.start = self.now;
        }
        let played = self.player.play(&call);
        self.unforeseen += played.unforeseen.len();
        let events = self.namer.events(&call, self.player.card().counts());
        let now = (!played.differences.is_empty()).then_some(played.call);
        Ok(Some(Made { call, now, differences: played.differences, events }))
    }

    /// Returns the number of the last call.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the recorded time since the first call, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.now.saturating_sub(self.start) as f64 / 1e9
    }

    /// Returns the time of the first call.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn unforeseen(&self) -> usize {
        self.unforeseen
    }

    pub(super) fn is_cut(&self) -> bool {
        self.reader.is_cut()
    }

    pub(super) fn card(&self) -> &CardName {
        self.reader.card()
    }

    pub(super) fn title(&self) -> String {
        format!("{} ({})", self.card().name, self.card().model)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn player(&self) -> &Player {
        &self.player
    }
}
