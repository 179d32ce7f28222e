//! Credits (section 2.2), counted at both ends as the contract requires, whatever the other end
//! claims.

use std::collections::BTreeMap;

use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};

use super::packet::{CREDIT, Letter, PROBE, READ, WRITE, words};
use super::standing::Standing;

/// Words that a host has sent to another.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    epoch: u16,
    words: u64,
    /// Limit of the count.
    allowed: u64,
}

/// Words that have come from a host.
#[derive(Debug, Clone, Copy, Default)]
struct Come {
    epoch: u16,
    words: u64,
    /// Limit of the count that was granted to the host.
    granted: u64,
    /// Its last question that was not answered: the count in it, and the number of words before it
    /// that are missing.
    asked: Option<(u64, u64)>,
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

/// The words that all hosts have sent to others (`spent`), and that have come (`come`). The key is
/// the counting host, then its peer.
#[derive(Debug)]
pub(super) struct Credits {
    /// Words that may be in flight from one host to another.
    window: u64,
    spent: BTreeMap<(u16, u16), Spent>,
    come: BTreeMap<(u16, u16), Come>,
    /// For each host, whether it is a hostile one whose receivers answer, but grant no credits.
    grants_nothing: Vec<bool>,
}

/// Returns the words of credit that a packet takes.
fn cost(letter: &Letter) -> u64 {
    match letter.kind {
        READ => 1,
        WRITE => words(letter.offset, letter.data.len() as u64).count() as u64,
        _ => 0,
    }
}

impl Credits {
    pub(super) fn new(window: u32, grants_nothing: Vec<bool>) -> Self {
        let (spent, come) = (BTreeMap::new(), BTreeMap::new());
        Self { window: window.into(), spent, come, grants_nothing }
    }

    /// Accounts for a packet that has left. It must not exceed the words that its receiver, hostile
    /// or not, has allowed. A question must carry the number of words sent.
    pub(super) fn spend(&mut self, host: u16, to: u16, letter: &Letter) -> Result<(), Violation> {
        let window = self.window;
        match letter.kind {
            WRITE | READ | PROBE => {}
            CREDIT => return self.check_grant(host, to, letter),
            _ => return Ok(()),
        }
        let spent = self.spent.entry((host, to)).or_default();
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
        let window = self.window;
        let come = self.come.entry((host, to)).or_default();
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
    pub(super) fn note_grant(&mut self, host: u16, source: u16, letter: &Letter) {
        let window = self.window;
        let Some(spent) = self.spent.get_mut(&(host, source)) else { return };
        if spent.epoch == letter.epoch && letter.offset <= spent.words + window {
            spent.allowed = spent.allowed.max(letter.offset);
        }
    }

    /// Accounts for words or a question that have come. Returns `false` if there are more words
    /// than granted. Such words count as if they had not come.
    ///
    /// A packet that comes without a link was in flight before the link went down. The next link
    /// starts with its own counts.
    pub(super) fn earn(&mut self, host: u16, source: u16, letter: &Letter, is_up: bool) -> bool {
        if !is_up {
            return true;
        }
        let window = self.window;
        let come = self.come.entry((host, source)).or_default();
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
    pub(super) fn forget(&mut self, host: u16) {
        self.spent.retain(|(own, _), _| *own != host);
        self.come.retain(|(own, _), _| *own != host);
    }

    /// Checks at rest that both ends know each other's limits, and that no credit was lost.
    pub(super) fn check_at_rest(&self, standing: &Standing) -> Result<(), Violation> {
        let window = self.window;
        for ((host, source), come) in &self.come {
            let left = come.granted - come.words;
            ensure(left > window / 2 || left == window, || {
                format!("host {host}: {source} has credits for {left} words, and got no more")
            })?;
            let Some(spent) = self.spent.get(&(*source, *host)) else { continue };
            let is_sure = !standing.is_in_trouble(*host, (*source).into());
            let agree = (spent.words, spent.allowed) == (come.words, come.granted);
            ensure(agree || spent.epoch != come.epoch || !is_sure, || {
                format!("host {host}: {come:?} has come from {source}, and it knows of {spent:?}")
            })?;
        }
        Ok(())
    }

    /// Falsifies a grant of a hostile host that answers each question and confirms all words, but
    /// grants nothing.
    pub(super) fn starve(&self, host: u16, source: u16, letter: Letter) -> Letter {
        let spent = self.spent.get(&(host, source)).map_or(0, |spent| spent.words);
        let grants_nothing = self.grants_nothing.get(usize::from(source)).is_some_and(|mean| *mean);
        if letter.kind == CREDIT && grants_nothing { Letter { offset: spent, ..letter } } else { letter }
    }

    /// Makes a hostile host's packet lie about credits. The epoch may be its victim's or another
    /// one, with too many or too few credits, and with or without lost words.
    pub(super) fn lie(&self, rng: &mut Rng, host: u16, victim: u16, letter: &mut Letter) {
        let window = self.window;
        let spent = self.spent.get(&(victim, host)).copied().unwrap_or_default();
        let come = self.come.get(&(victim, host)).copied().unwrap_or_default();
        let any = rng.next() >> rng.below(64);
        let (epoch, counts) = match letter.kind {
            CREDIT => {
                (spent.epoch, [spent.words, spent.words + window, spent.words + window + 1, spent.allowed])
            }
            _ => (come.epoch, [come.words, come.words + 1, come.words + window, come.granted]),
        };
        letter.epoch = match rng.below(10) {
            0 => letter.epoch,
            1 => epoch.wrapping_sub(1),
            _ => epoch,
        };
        if matches!(letter.kind, CREDIT | PROBE) {
            letter.offset = rng.pick(&counts).filter(|_| rng.percent(70)).unwrap_or(any);
        }
        if letter.kind == CREDIT && rng.percent(60) {
            let at = if rng.percent(70) { spent.words } else { any };
            let lost = rng.pick(&[0, 0, 1, window, any, u64::MAX]).unwrap_or(0);
            letter.data = [at.to_le_bytes(), lost.to_le_bytes()].concat();
        }
    }
}
