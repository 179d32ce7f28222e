//! Credits (section 2.2), counted at both ends as the contract has it, whatever the other end says.

use hamlyn_abi::clan::statistics::ClanStatistic as Counter;

use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::model::Clan;
use super::packet::{CREDIT, Letter, PROBE, READ, TO_GROUP, WRITE, words};

/// What a host has sent to another, of a count.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    epoch: u16,
    words: u64,
    /// How far the count may go.
    allowed: u64,
}

/// What has come from a host, of a count.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Come {
    epoch: u16,
    words: u64,
    /// How far it has been told that the count may go.
    granted: u64,
    /// What it asked last, and was not told: its count, and how many words before that are missing.
    asked: Option<(u64, u64)>,
}

/// Words of credit that a packet takes.
fn cost(letter: &Letter) -> u64 {
    match letter.kind {
        READ => 1,
        WRITE => words(letter.offset, letter.data.len() as u64).count() as u64,
        _ => 0,
    }
}

impl Come {
    fn begin(self, epoch: u16, window: u64) -> Self {
        if self.granted > 0 && self.epoch == epoch {
            self
        } else {
            Self { epoch, granted: window, ..Self::default() }
        }
    }
}

impl World<Clan> {
    fn window(&self) -> u64 {
        self.model.options.credits.into()
    }

    /// A packet has left: of words no more than the receiver has said, whoever that is. A question
    /// says how many there were.
    pub(super) fn spend(&mut self, host: u16, to: u16, letter: &Letter) -> Result<(), Violation> {
        let window = self.window();
        match letter.kind {
            WRITE | READ | PROBE => {}
            CREDIT => return self.check_grant(host, to, letter),
            _ => return Ok(()),
        }
        let spent = self.model.spent.entry((host, to)).or_default();
        if spent.allowed == 0 || spent.epoch != letter.epoch {
            *spent = Spent { epoch: letter.epoch, words: 0, allowed: window };
        }
        spent.words += cost(letter);
        ensure(spent.words <= spent.allowed && (letter.kind != PROBE || letter.offset == spent.words), || {
            format!("host {host}: it has sent {spent:?} to {to}, with {}", letter.brief())
        })
    }

    /// What a card grants is a window behind what has come, and no more; who asked is told what was
    /// lost.
    fn check_grant(&mut self, host: u16, to: u16, letter: &Letter) -> Result<(), Violation> {
        let window = self.window();
        let come = self.model.come.entry((host, to)).or_default();
        let is_right = (letter.epoch, letter.offset) == (come.epoch, come.words + window);
        let told = match (come.asked.take(), letter.answer()) {
            (None, None) => true,
            (Some((count, missing)), Some((at, lost))) => (count, missing) == (at, lost),
            _ => false,
        };
        come.granted = letter.offset;
        let come = *come;
        ensure(is_right && told, || {
            format!("host {host}: it grants {letter:x?} to {to}, of which {come:?} has come")
        })
    }

    /// A grant has come. More than a window behind what was sent is believed of nobody.
    pub(super) fn hear_grant(&mut self, host: u16, source: u16, letter: &Letter) {
        let window = self.window();
        let Some(spent) = self.model.spent.get_mut(&(host, source)) else { return };
        if spent.epoch == letter.epoch && letter.offset <= spent.words + window {
            spent.allowed = spent.allowed.max(letter.offset);
        }
    }

    /// Words have come, or a question. Says whether they are more than may be: then they are as if
    /// they had not come.
    pub(super) fn earn(&mut self, host: u16, source: u16, letter: &Letter) -> bool {
        // What comes without a link was on its way before that went: the next begins with counts of
        // its own.
        let is_up = self.hosts[usize::from(host)].uplink.is_up();
        if !is_up {
            return true;
        }
        let window = self.window();
        let come = self.model.come.entry((host, source)).or_default();
        *come = come.begin(letter.epoch, window);
        if letter.kind == PROBE {
            come.asked = Some((letter.offset, letter.offset.saturating_sub(come.words)));
            come.words = come.words.max(letter.offset.min(u64::MAX / 2));
            come.granted = come.words + window;
            return true;
        }
        let words = come.words + cost(letter);
        let fits = words <= come.granted;
        come.words = if fits { words } else { come.words };
        fits
    }

    /// Another link begins, or another card: all counts do.
    pub(super) fn forget_counts(&mut self, host: u16) {
        self.model.spent.retain(|(own, _), _| *own != host);
        self.model.come.retain(|(own, _), _| *own != host);
        self.model.writers.retain(|(own, ..)| *own != host);
    }

    /// At rest both ends know how far the other may go, and no credit has been lost.
    pub(super) fn check_credits_at_rest(&self) -> Result<(), Violation> {
        let window = self.window();
        for ((host, source), come) in &self.model.come {
            let left = come.granted - come.words;
            ensure(left > window / 2 || left == window, || {
                format!("host {host}: {source} has credits for {left} words, and hears of no more")
            })?;
            let Some(spent) = self.model.spent.get(&(*source, *host)) else { continue };
            let is_sure = !self.is_in_trouble(usize::from(*host), (*source).into());
            let agree = (spent.words, spent.allowed) == (come.words, come.granted);
            ensure(agree || spent.epoch != come.epoch || !is_sure, || {
                format!("host {host}: {come:?} has come from {source}, and it knows of {spent:?}")
            })?;
        }
        Ok(())
    }

    /// A hostile host answers each question, and says that all has arrived, but grants nothing.
    pub(super) fn starve(&self, host: usize, source: u16, letter: Letter) -> Letter {
        let spent = self.model.spent.get(&(host as u16, source)).map_or(0, |spent| spent.words);
        let grants_nothing = self.model.grants_nothing.get(usize::from(source)).is_some_and(|mean| *mean);
        if letter.kind == CREDIT && grants_nothing { Letter { offset: spent, ..letter } } else { letter }
    }

    /// A hostile host lies about credits: for its victim's count or another, too many, too few,
    /// words that were lost or not.
    pub(super) fn lie(&mut self, host: u16, victim: u16, letter: &mut Letter) {
        let window = self.window();
        let spent = self.model.spent.get(&(victim, host)).copied().unwrap_or_default();
        let come = self.model.come.get(&(victim, host)).copied().unwrap_or_default();
        let any = self.rng.next() >> self.rng.below(64);
        let (epoch, counts) = match letter.kind {
            CREDIT => {
                (spent.epoch, [spent.words, spent.words + window, spent.words + window + 1, spent.allowed])
            }
            _ => (come.epoch, [come.words, come.words + 1, come.words + window, come.granted]),
        };
        letter.epoch = match self.rng.below(10) {
            0 => letter.epoch,
            1 => epoch.wrapping_sub(1),
            _ => epoch,
        };
        if matches!(letter.kind, CREDIT | PROBE) {
            letter.offset = self.rng.pick(&counts).filter(|_| self.rng.percent(70)).unwrap_or(any);
        }
        if letter.kind == CREDIT && self.rng.percent(60) {
            let at = if self.rng.percent(70) { spent.words } else { any };
            let lost = self.rng.pick(&[0, 0, 1, window, any, u64::MAX]).unwrap_or(0);
            letter.data = [at.to_le_bytes(), lost.to_le_bytes()].concat();
        }
    }
}

impl Clan {
    /// Whether an endpoint of a host has written to another.
    pub(super) fn can_refuse(&self, host: u16, other: u16, tag: u32) -> bool {
        let mut writers = self.writers.iter();
        writers.any(|(own, to, writer)| (*own, *to, *writer) == (host, other, tag))
    }
}

impl Letter {
    /// Of a grant that answers a question: the count in that, and how many words were lost.
    fn answer(&self) -> Option<(u64, u64)> {
        let data: &[u8; 16] = self.data.as_slice().try_into().ok()?;
        let long =
            |at: usize| data[at..at + 8].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        Some((long(0), long(8)))
    }

    /// Why a write or read means nothing, if it does not.
    pub(super) fn nonsense(&self) -> Option<Counter> {
        let means = match self.kind {
            WRITE => !self.data.is_empty() && self.offset.checked_add(self.data.len() as u64).is_some(),
            _ => self.data.len() == 4 && (1..=65536).contains(&self.asked()) && self.flags & TO_GROUP == 0,
        };
        (!means).then_some(Counter::Malformed)
    }
}
