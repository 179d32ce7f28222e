//! Whether, and where, anybody listens under a name.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hamlyn_abi::kernel::well_known::HAMLYN_WELL_KNOWN_SLOTS;
use hamlyn_abi::uapi::{
    HAMLYN_CONNECTION_ENDED, HAMLYN_END_LISTENING, HAMLYN_END_NO_NAME, HAMLYN_END_NOBODY,
};

use super::wait::{deadline, wait_for_any};
use super::{EndReason, check_name, end_of};
use crate::core::attach::{CardAttachment, ConnectionParts};
use crate::core::card::Card;
use crate::error::{Error, Result};

/// How long [`Card::connect_any`] waits for hosts that say nothing while no other has the name, and
/// what is a good time-out for
/// [`Card::find`]: one that is there answers within a message there and back, so this allows for a busy one.
pub const FIND_TIMEOUT: Duration = Duration::from_secs(2);

/// What a host says when it is asked whether anybody listens under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Answer {
    /// Somebody did, at the moment at which the host was asked.
    Listening,
    /// Nobody did.
    Nobody,
    /// The host is there, but its operating system's part is older than such questions: only who
    /// connects will know.
    TooOld,
    /// Nothing: there is no such host, or it is dead, paused, cannot be reached, or has just
    /// started anew.
    Silent,
}

/// A question to a host, whether anybody there listens under a name. No listener notices it.
///
/// Its descriptor ([`AsFd`]) is readable once there is an answer.
#[derive(Debug)]
pub struct Question {
    host: u32,
    parts: Box<dyn ConnectionParts>,
}

impl Question {
    /// Whom it was put to.
    #[must_use]
    pub fn host(&self) -> u32 {
        self.host
    }

    /// The answer, if there is one yet.
    ///
    /// # Errors
    /// [`Error::Ended`] if this host's own link or card is at fault, [`Error::System`].
    pub fn answer(&self) -> Result<Option<Answer>> {
        let state = self.parts.state()?;
        if state.state != HAMLYN_CONNECTION_ENDED {
            return Ok(None);
        }
        match state.reason {
            HAMLYN_END_LISTENING => return Ok(Some(Answer::Listening)),
            HAMLYN_END_NOBODY => return Ok(Some(Answer::Nobody)),
            // It took the question for a request under a name that nobody can have: the empty one.
            HAMLYN_END_NO_NAME => return Ok(Some(Answer::TooOld)),
            _ => {}
        }
        match end_of(&state)? {
            Some(end) if is_own(end.reason) => Err(Error::Ended(end)),
            _ => Ok(Some(Answer::Silent)),
        }
    }
}

/// Whether it lies with this host.
fn is_own(reason: EndReason) -> bool {
    matches!(reason, EndReason::LinkLost | EndReason::Lapsed | EndReason::CardReset)
}

impl AsFd for Question {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.parts.file()
    }
}

/// Which hosts have a name; each list in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// Hosts on which somebody listened under it when they were asked.
    pub hosts: Vec<u32>,
    /// Hosts that cannot say, as their operating systems' parts are too old: only who connects will
    /// know.
    pub too_old: Vec<u32>,
    /// Hosts that have said nothing in time: most are not there.
    pub silent: Vec<u32>,
}

impl Found {
    fn enter(&mut self, host: u32, answer: Answer) {
        match answer {
            Answer::Listening => self.hosts.push(host),
            Answer::TooOld => self.too_old.push(host),
            Answer::Silent => self.silent.push(host),
            Answer::Nobody => {}
        }
    }

    fn sort(&mut self) {
        self.hosts.sort_unstable();
        self.too_old.sort_unstable();
        self.silent.sort_unstable();
    }
}

impl<A: CardAttachment + ?Sized> Card<A> {
    /// The hosts on which there can be names: those of the switch, as many as it has ports, this
    /// one included, and no more than 64.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn hosts(&self) -> Result<Range<u32>> {
        // 0: the card or driver is too old to know.
        let ports = Some(self.attachment().query()?.ports).filter(|ports| *ports != 0);
        Ok(0..ports.unwrap_or(HAMLYN_WELL_KNOWN_SLOTS).min(HAMLYN_WELL_KNOWN_SLOTS))
    }

    /// Asks a host whether anybody there listens under a name, and does not wait.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Invalid`], [`Error::System`], [`Error::Unsupported`], also
    /// by a driver that is too old for it.
    pub fn ask(&self, host: u32, name: &str) -> Result<Question> {
        check_name(name)?;
        Ok(Question { host, parts: self.attachment().ask(host, name)? })
    }

    /// Which hosts have a listener `name`. All of [`Card::hosts`] are asked at once: it is done
    /// once each has answered, or with the time-out, which is no error; see [`FIND_TIMEOUT`]. A
    /// host that is not there never answers. Without a time-out it is waited for until the
    /// operating system gives it up, after 8 s.
    ///
    /// # Errors
    /// Those of [`Card::ask`] and [`Question::answer`].
    pub fn find(&self, name: &str, timeout: Option<Duration>) -> Result<Found> {
        let mut asked = Vec::new();
        for host in self.hosts()? {
            asked.push(self.ask(host, name)?);
        }
        let (until, mut found) = (deadline(timeout), Found::default());
        loop {
            let mut open = Vec::new();
            for question in asked {
                match question.answer()? {
                    Some(answer) => found.enter(question.host(), answer),
                    None => open.push(question),
                }
            }
            asked = open;
            if asked.is_empty() || !wait_for_any(&asked, until)? {
                break;
            }
        }
        asked.iter().for_each(|question| found.enter(question.host(), Answer::Silent));
        found.sort();
        Ok(found)
    }
}
