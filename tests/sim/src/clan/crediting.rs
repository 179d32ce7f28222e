//! Credits (section 2.2), counted at both ends as the contract requires, whatever the other end
//! claims.

use hamlyn_abi::clan::statistics::ClanStatistic as Counter;

use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::counts::Spent;
use super::model::Clan;
use super::packet::{CREDIT, Letter, PROBE, READ, TO_GROUP, WRITE, words};

/// Returns the words of credit that a packet takes.
fn cost(letter: &Letter) -> u64 {
    match letter.kind {
        READ => 1,
        WRITE => words(letter.offset, letter.data.len() as u64).count() as u64,
        _ => 0,
    }
}

impl World<Clan> {
    fn window(&self) -> u64 {
        self.model.options.credits.into()
    }

    /// Accounts for a packet that has left. It must not exceed the words that its receiver, hostile
    /// or not, has allowed. A question must carry the number of words sent.
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

    /// Checks a grant: its limit is exactly a window beyond the words that have come. The answer to
    /// a question reports the lost words.
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

    /// Takes in a grant that has come. A limit of more than a window beyond the sent words is
    /// ignored.
    pub(super) fn hear_grant(&mut self, host: u16, source: u16, letter: &Letter) {
        let window = self.window();
        let Some(spent) = self.model.spent.get_mut(&(host, source)) else { return };
        if spent.epoch == letter.epoch && letter.offset <= spent.words + window {
            spent.allowed = spent.allowed.max(letter.offset);
        }
    }

    /// Accounts for words or a question that have come. Returns `false` if there are more words
    /// than granted. Such words count as if they had not come.
    pub(super) fn earn(&mut self, host: u16, source: u16, letter: &Letter) -> bool {
        // A packet that comes without a link was in flight before the link went down. The next link
        // starts with its own counts.
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

    /// Resets all counts, for a new link or a reset card.
    pub(super) fn forget_counts(&mut self, host: u16) {
        self.model.spent.retain(|(own, _), _| *own != host);
        self.model.come.retain(|(own, _), _| *own != host);
        self.model.writers.retain(|(own, ..)| *own != host);
    }

    /// Checks at rest that both ends know each other's limits, and that no credit was lost.
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

    /// Falsifies a grant of a hostile host that answers each question and confirms all words, but
    /// grants nothing.
    pub(super) fn starve(&self, host: usize, source: u16, letter: Letter) -> Letter {
        let spent = self.model.spent.get(&(host as u16, source)).map_or(0, |spent| spent.words);
        let grants_nothing = self.model.grants_nothing.get(usize::from(source)).is_some_and(|mean| *mean);
        if letter.kind == CREDIT && grants_nothing { Letter { offset: spent, ..letter } } else { letter }
    }

    /// Makes a hostile host's packet lie about credits. The epoch may be its victim's or another
    /// one, with too many or too few credits, and with or without lost words.
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
    /// Returns whether an endpoint of a host has written to another host.
    pub(super) fn can_refuse(&self, host: u16, other: u16, tag: u32) -> bool {
        let mut writers = self.writers.iter();
        writers.any(|(own, to, writer)| (*own, *to, *writer) == (host, other, tag))
    }
}

impl Letter {
    /// Returns the contents of a grant that answers a question: the count in the question, and the
    /// number of lost words.
    fn answer(&self) -> Option<(u64, u64)> {
        let data: &[u8; 16] = self.data.as_slice().try_into().ok()?;
        let long =
            |at: usize| data[at..at + 8].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        Some((long(0), long(8)))
    }

    /// Returns why a write or read is invalid, if it is.
    pub(super) fn nonsense(&self) -> Option<Counter> {
        let means = match self.kind {
            WRITE => !self.data.is_empty() && self.offset.checked_add(self.data.len() as u64).is_some(),
            _ => self.data.len() == 4 && (1..=65536).contains(&self.asked()) && self.flags & TO_GROUP == 0,
        };
        (!means).then_some(Counter::Malformed)
    }
}
