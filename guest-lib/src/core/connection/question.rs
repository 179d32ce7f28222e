//! Queries whether, and on which hosts, a name has a listener.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hamlyn_abi::kernel::well_known::ULN_WELL_KNOWN_SLOTS;
use hamlyn_abi::uapi::{ULN_CONNECTION_ENDED, ULN_END_LISTENING, ULN_END_NO_NAME, ULN_END_NOT_LISTENING};

use super::wait::{deadline, wait_for_any};
use super::{EndReason, check_name, end_of};
use crate::core::attach::{CardAttachment, ConnectionParts};
use crate::core::card::Card;
use crate::error::{Error, Result};

/// How long [`Card::connect_any`] waits for hosts that do not answer while no host has the name.
/// Also a good timeout for [`Card::find`]: a host answers within one round trip, so this allows for
/// a busy host.
pub const FIND_TIMEOUT: Duration = Duration::from_secs(2);

/// A host's answer to the query whether a name has a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Answer {
    /// The name had a listener when the host was asked.
    Listening,
    /// The name had no listener.
    NotListening,
    /// The host is present, but its driver is too old for queries. Only a connection request will
    /// tell.
    TooOld,
    /// No answer: the host does not exist, is dead, paused or unreachable, or has just restarted.
    Silent,
}

/// A pending query whether a host has a listener of a name. Listeners do not notice it.
///
/// Its descriptor ([`AsFd`]) is readable once there is an answer.
#[derive(Debug)]
pub struct Question {
    host: u32,
    parts: Box<dyn ConnectionParts>,
}

impl Question {
    /// Returns the host that was asked.
    #[must_use]
    pub fn host(&self) -> u32 {
        self.host
    }

    /// Returns the answer, if it has arrived.
    ///
    /// # Errors
    /// [`Error::Ended`] if this host's own link or card failed, [`Error::System`].
    pub fn answer(&self) -> Result<Option<Answer>> {
        let state = self.parts.state()?;
        if state.state != ULN_CONNECTION_ENDED {
            return Ok(None);
        }
        match state.reason {
            ULN_END_LISTENING => return Ok(Some(Answer::Listening)),
            ULN_END_NOT_LISTENING => return Ok(Some(Answer::NotListening)),
            // An old host treats the query as a request for the empty name, which no listener has.
            ULN_END_NO_NAME => return Ok(Some(Answer::TooOld)),
            _ => {}
        }
        match end_of(&state)? {
            Some(end) if is_own(end.reason) => Err(Error::Ended(end)),
            _ => Ok(Some(Answer::Silent)),
        }
    }
}

/// Returns whether this host is the cause.
fn is_own(reason: EndReason) -> bool {
    matches!(reason, EndReason::LinkLost | EndReason::Lapsed | EndReason::CardReset)
}

impl AsFd for Question {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.parts.file()
    }
}

/// Hosts by their answer; each list is in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// Hosts that had a listener of the name when they were asked.
    pub hosts: Vec<u32>,
    /// Hosts whose drivers are too old to answer. Only a connection request will tell.
    pub too_old: Vec<u32>,
    /// Hosts that did not answer in time; most of them are absent.
    pub silent: Vec<u32>,
}

impl Found {
    fn enter(&mut self, host: u32, answer: Answer) {
        match answer {
            Answer::Listening => self.hosts.push(host),
            Answer::TooOld => self.too_old.push(host),
            Answer::Silent => self.silent.push(host),
            Answer::NotListening => {}
        }
    }

    fn sort(&mut self) {
        self.hosts.sort_unstable();
        self.too_old.sort_unstable();
        self.silent.sort_unstable();
    }
}

impl<A: CardAttachment + ?Sized> Card<A> {
    /// Returns the hosts that can have names: one for each port of the switch, including this host,
    /// and at most 64.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn hosts(&self) -> Result<Range<u32>> {
        // 0: the card or driver is too old to report it.
        let ports = Some(self.attachment().query()?.ports).filter(|ports| *ports != 0);
        Ok(0..ports.unwrap_or(ULN_WELL_KNOWN_SLOTS).min(ULN_WELL_KNOWN_SLOTS))
    }

    /// Asks a host, without blocking, whether it has a listener of this name.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Invalid`], [`Error::System`]; [`Error::Unsupported`], also
    /// if the driver is too old.
    pub fn ask(&self, host: u32, name: &str) -> Result<Question> {
        check_name(name)?;
        Ok(Question { host, parts: self.attachment().ask(host, name)? })
    }

    /// Returns the hosts that have a listener `name`. Asks all of [`Card::hosts`] at once. Blocks
    /// until each has answered. An absent host never answers: the operating system gives it up
    /// after 8 s.
    ///
    /// # Errors
    /// Those of [`Card::ask`] and [`Question::answer`].
    pub fn find(&self, name: &str) -> Result<Found> {
        self.find_within(name, None)
    }

    /// As [`Card::find`], but blocks for at most `timeout`, such as [`FIND_TIMEOUT`]. Hosts that
    /// have not answered by then are [`Found::silent`].
    ///
    /// # Errors
    /// Those of [`Card::find`]. The end of `timeout` is not an error.
    pub fn find_timeout(&self, name: &str, timeout: Duration) -> Result<Found> {
        self.find_within(name, Some(timeout))
    }

    pub(crate) fn find_within(&self, name: &str, timeout: Option<Duration>) -> Result<Found> {
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
