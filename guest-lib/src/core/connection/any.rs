//! A name on whichever host has it.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::question::{Answer, FIND_TIMEOUT, Question};
use super::wait::{deadline, wait_for_any};
use super::{Connecting, Connection, End, EndReason};
use crate::core::attach::CardAttachment;
use crate::core::card::Card;
use crate::error::{Error, Result};

impl<A: CardAttachment + ?Sized> Card<A> {
    /// Connects to the listener `name` on whichever of these hosts accepts first; [`Card::hosts`]
    /// has all there are. They are asked at once whether they have the name ([`Card::ask`]), and
    /// those that do for a connection. What was asked of the others is given up, which a listener
    /// that had accepted notices as the end of a connection. A host that is absent costs no time
    /// while another has the name, and [`FIND_TIMEOUT`] for all together if none has. `None` waits
    /// for ever for a listener to accept.
    ///
    /// # Errors
    /// If none accepts, why not: [`Error::Ended`], or why they could not be asked.
    /// [`Error::TimedOut`]; [`Error::Invalid`] for no hosts; those of [`Card::begin_connect`].
    pub fn connect_any(
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
            // Whoever is only waited for to say whether it has the name is not waited for so long.
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

/// How far it has come with a host.
enum Step {
    /// Whether it has the name.
    Asked(Question),
    /// It may have.
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
    /// Why the last of those hosts that are there did not accept.
    failed: Option<Error>,
}

impl<A: CardAttachment + ?Sized> Search<'_, A> {
    fn begin(&mut self, host: u32) -> Result<()> {
        match self.card.ask(host, self.name) {
            Ok(question) => self.steps.push(Step::Asked(question)),
            // Here nobody can ask first.
            Err(Error::Unsupported(_)) => self.connect(host)?,
            // It concerns all of them.
            Err(error @ (Error::OutOfRange { .. } | Error::Invalid(_))) => return Err(error),
            Err(error) => self.failed = Some(error),
        }
        Ok(())
    }

    fn connect(&mut self, host: u32) -> Result<()> {
        match self.card.begin_connect(host, self.name, self.private) {
            Ok(connecting) => self.steps.push(Step::Connecting(connecting)),
            // It concerns all of them.
            Err(error @ (Error::Unsupported(_) | Error::OutOfRange { .. } | Error::Invalid(_))) => {
                return Err(error);
            }
            Err(error) => self.failed = Some(error),
        }
        Ok(())
    }

    /// Goes on with whatever need not be waited for.
    fn look(&mut self) -> Result<Option<Connection>> {
        let mut index = 0;
        while index < self.steps.len() {
            if !self.steps[index].is_decided()? {
                index += 1;
                continue;
            }
            match self.steps.swap_remove(index) {
                Step::Asked(question) => self.answered(&question)?,
                Step::Connecting(connecting) => match connecting.finish(None) {
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
            Some(Answer::Nobody) => self.failed = Some(ended(EndReason::NoName)),
            // Who is there knows better.
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
