//! Connecting to a name on any host that has it.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::question::{Answer, FIND_TIMEOUT, Question};
use super::wait::{deadline, wait_for_any};
use super::{Connecting, Connection, End, EndReason};
use crate::core::attach::CardAttachment;
use crate::core::card::Card;
use crate::error::{Error, Result};

impl<A: CardAttachment + ?Sized> Card<A> {
    /// Connects to the listener `name` on the first of these hosts that accepts. [`Card::hosts`]
    /// returns all possible hosts.
    ///
    /// First asks all hosts at once whether they have the name ([`Card::ask`]), then requests a
    /// connection from those that do. The other requests are given up; a listener that had already
    /// accepted sees the connection end. An absent host adds no delay while another has the name;
    /// if none has it, the search ends after [`FIND_TIMEOUT`] in total.
    ///
    /// # Errors
    /// If no host accepts: [`Error::Ended`], or why the hosts could not be asked.
    /// [`Error::Invalid`] for an empty list of hosts; those of [`Card::begin_connect`].
    pub fn connect_any(
        &self,
        hosts: impl IntoIterator<Item = u32>,
        name: &str,
        private: &[u8],
    ) -> Result<Connection> {
        self.connect_any_within(hosts, name, private, None)
    }

    /// As [`Card::connect_any`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Card::connect_any`].
    pub fn connect_any_timeout(
        &self,
        hosts: impl IntoIterator<Item = u32>,
        name: &str,
        private: &[u8],
        timeout: Duration,
    ) -> Result<Connection> {
        self.connect_any_within(hosts, name, private, Some(timeout))
    }

    fn connect_any_within(
        &self,
        hosts: impl IntoIterator<Item = u32>,
        name: &str,
        private: &[u8],
        timeout: Option<Duration>,
    ) -> Result<Connection> {
        let mut search = Search { card: self, name, private, steps: Vec::new(), failed: None };
        for host in hosts {
            search.begin(host)?;
        }
        if search.steps.is_empty() && search.failed.is_none() {
            return Err(Error::Invalid("no hosts to connect to were named"));
        }
        let (until, patience) = (deadline(timeout), deadline(Some(FIND_TIMEOUT)));
        while !search.steps.is_empty() {
            if let Some(connection) = search.look()? {
                return Ok(connection);
            }
            // If only answers to queries are pending, the shorter timeout applies.
            let asks_only = search.steps.iter().all(|step| matches!(step, Step::Asked(_)));
            let next = if asks_only { earlier(until, patience) } else { until };
            if search.steps.is_empty() || wait_for_any(&search.steps, next)? {
                continue;
            }
            if asks_only && until.is_none_or(|until| Instant::now() < until) {
                break;
            }
            let what = "answer to any request for a connection";
            return Err(Error::TimedOut { what, after: timeout.unwrap_or_default() });
        }
        Err(search.failure())
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// State of the search on one host.
enum Step {
    /// A query whether the host has the name is pending.
    Asked(Question),
    /// A connection request is pending.
    Connecting(Connecting),
}

impl Step {
    fn is_decided(&self) -> Result<bool> {
        match self {
            Step::Asked(question) => Ok(question.answer()?.is_some()),
            Step::Connecting(connecting) => connecting.is_decided(),
        }
    }
}

impl AsFd for Step {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Step::Asked(question) => question.as_fd(),
            Step::Connecting(connecting) => connecting.as_fd(),
        }
    }
}

struct Search<'a, A: ?Sized> {
    card: &'a Card<A>,
    name: &'a str,
    private: &'a [u8],
    steps: Vec<Step>,
    /// Why the last of the present hosts did not accept.
    failed: Option<Error>,
}

impl<A: CardAttachment + ?Sized> Search<'_, A> {
    fn begin(&mut self, host: u32) -> Result<()> {
        match self.card.ask(host, self.name) {
            Ok(question) => self.steps.push(Step::Asked(question)),
            // This attachment has no queries: connect directly.
            Err(Error::Unsupported(_)) => self.connect(host)?,
            // The error applies to all hosts.
            Err(error @ (Error::OutOfRange { .. } | Error::Invalid(_))) => return Err(error),
            Err(error) => self.failed = Some(error),
        }
        Ok(())
    }

    fn connect(&mut self, host: u32) -> Result<()> {
        match self.card.begin_connect(host, self.name, self.private) {
            Ok(connecting) => self.steps.push(Step::Connecting(connecting)),
            // The error applies to all hosts.
            Err(error @ (Error::Unsupported(_) | Error::OutOfRange { .. } | Error::Invalid(_))) => {
                return Err(error);
            }
            Err(error) => self.failed = Some(error),
        }
        Ok(())
    }

    /// Advances all steps that are decided.
    fn look(&mut self) -> Result<Option<Connection>> {
        let mut index = 0;
        while index < self.steps.len() {
            if !self.steps[index].is_decided()? {
                index += 1;
                continue;
            }
            match self.steps.swap_remove(index) {
                Step::Asked(question) => self.answered(&question)?,
                Step::Connecting(connecting) => match connecting.finish() {
                    Ok(connection) => return Ok(Some(connection)),
                    Err(error) => self.failed = Some(error),
                },
            }
        }
        Ok(None)
    }

    fn answered(&mut self, question: &Question) -> Result<()> {
        match question.answer()? {
            Some(Answer::Listening | Answer::TooOld) => self.connect(question.host())?,
            Some(Answer::NotListening) => self.failed = Some(ended(EndReason::NoName)),
            // Another host's answer is more useful.
            _ => {}
        }
        Ok(())
    }

    fn failure(self) -> Error {
        self.failed.unwrap_or_else(|| ended(EndReason::HostLost))
    }
}

fn ended(reason: EndReason) -> Error {
    Error::Ended(End { reason, private: Vec::new() })
}
