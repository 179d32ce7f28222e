//! Listening, connecting, answering and leaving by programs, with the library's calls that do not
//! wait.

use std::time::Duration;

use hamlyn::protocol::stream::{StreamOptions, StreamReceiver, StreamSender};
use hamlyn::{Error, PeerLoss, Request, Seed, Ticket};

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::around::Around;
use crate::hamlyn::connections::Connections;
use crate::hamlyn::connections::{ASKER, BACKLOG, LISTENER, Record, Side};
use crate::hamlyn::correspondent::{Asking, NAMES, Open, Receiving, Sending};
use crate::hamlyn::endings::Watcher;
use crate::hamlyn::joining::Joiner;
use crate::hamlyn::process::Process;
use crate::hamlyn::questions::Asker;
use crate::hamlyn::streaming::Streamer;
use crate::hamlyn::streams::Stream;
use crate::hamlyn::streams::Streams;
use crate::hamlyn::tally::Tally;

/// Maximum number of connections of a program.
const MOST: usize = 4;
/// Length of the beginning of passed data: the connection's number, and the length of the seed or
/// offer that follows.
const HEAD: usize = 9;
/// Bytes of a channel's offer.
const OFFER: usize = 32 + 2 * Ticket::SIZE;

/// Returns the data to pass with a request or an answer: the connection's number, perhaps a seed or
/// an offer, and any bytes.
fn letter(number: usize, passed: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut letter = (number as u64).to_le_bytes().to_vec();
    letter.push(passed.len() as u8);
    letter.extend(passed);
    letter.extend(rest);
    letter.truncate(hamlyn::MAX_PRIVATE);
    letter
}

/// Returns the number of the connection that passed data belongs to.
fn number_of(letter: &[u8]) -> Option<usize> {
    Some(u64::from_le_bytes(letter.get(..8)?.try_into().ok()?) as usize)
}

/// Returns the seed in passed data.
fn seed_in(letter: &[u8]) -> Option<Seed> {
    let there = usize::from(*letter.get(HEAD - 1)?) == Seed::SIZE;
    letter.get(HEAD..HEAD + Seed::SIZE).filter(|_| there).and_then(|bytes| Seed::from_bytes(bytes).ok())
}

/// Returns the offer of a channel in passed data.
fn offer_in(letter: &[u8]) -> Option<Vec<u8>> {
    let there = usize::from(*letter.get(HEAD - 1)?) == OFFER;
    letter.get(HEAD..HEAD + OFFER).filter(|_| there).map(<[u8]>::to_vec)
}

/// Acts on the connections of programs.
pub(super) struct Connector<'a> {
    pub(super) around: Around<'a>,
    pub(super) streams: &'a mut Streams,
    pub(super) connections: &'a mut Connections,
    pub(super) tally: &'a mut Tally,
}

impl Connector<'_> {
    fn asker(&mut self) -> Asker<'_> {
        Asker { around: self.around.lend(), connections: self.connections }
    }

    fn joiner(&mut self) -> Joiner<'_> {
        Joiner { around: self.around.lend(), connections: self.connections, tally: self.tally }
    }

    fn watcher(&mut self) -> Watcher<'_> {
        Watcher { around: self.around.lend(), connections: self.connections }
    }

    /// Does something with the connections of a program.
    pub(super) fn converse(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        match self.around.rng.below(11) {
            0 => self.listen(host, process),
            1 if self.around.rng.percent(10) => Ok(self.stop_listening(host, process)),
            1..=3 => self.ask(host, process),
            4 | 5 => self.part(host, process),
            6 => self.asker().wonder(host, process),
            _ => Ok(self.take_request(host, process)?
                || self.asker().look_at_answers(host, process)?
                || self.look_at_answers(host, process)?
                || self.look_at_ends(host, process)?),
        }
    }

    /// Called when no new work is created: answers requests, takes answers, and ends all
    /// connections. Returns whether anything was done.
    pub(super) fn finish(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let mut busy = self.take_request(host, process)?;
        busy |= self.asker().look_at_answers(host, process)?;
        busy |= self.look_at_answers(host, process)?;
        busy |= self.look_at_ends(host, process)?;
        let done = |connector: &Self, open: &Open| connector.has_no_streams_of(host, process, open.record);
        let open = self.around.hosts[host].correspondent(process).map_or(Vec::new(), |program| {
            (0..program.open.len()).rev().filter(|index| done(self, &program.open[*index])).collect()
        });
        for index in open {
            busy |= self.let_go(host, process, index)?;
        }
        // Some programs go on listening for a while.
        let program = self.around.hosts[host].correspondent(process);
        if program.is_some_and(|program| program.listener.is_some()) {
            busy = true;
            if self.around.rng.percent(20) {
                self.stop_listening(host, process);
            }
        }
        Ok(busy)
    }

    fn listen(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let name = self.around.rng.pick(&NAMES).unwrap_or(NAMES[0]);
        let (now, pid) = (self.around.now, self.around.hosts[host].processes[process].pid);
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        if program.listener.is_some() {
            return Ok(false);
        }
        let listener = program.manager.card().listen_backlog(name, BACKLOG).map_err(Violation::new)?;
        program.listener = Some(listener);
        self.connections.listens(host, pid, name, now);
        self.around.note(|| format!("host {host} process {process} listens as {name}"));
        Ok(true)
    }

    fn stop_listening(&mut self, host: usize, process: usize) -> bool {
        let (now, pid) = (self.around.now, self.around.hosts[host].processes[process].pid);
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return false };
        if program.listener.take().is_none() {
            return false;
        }
        self.connections.listens_no_more(pid, now);
        self.around.note(|| format!("host {host} process {process} listens no more"));
        true
    }

    /// Asks for a connection, to a host of the fabric or rarely to one that does not exist.
    fn ask(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let hosts = self.around.hosts.len();
        let absent = self.around.scenario.faults > 0 && self.around.rng.percent(2);
        let target = if absent { hosts } else { self.around.rng.index(hosts) };
        let name = self.around.rng.pick(&NAMES).unwrap_or(NAMES[0]).to_owned();
        let known = self.connections.name_on(target).filter(|_| self.around.rng.percent(80));
        let name = known.unwrap_or(name);
        let length = self.around.rng.index(256 - HEAD - Seed::SIZE + 1);
        let rest = self.around.rng.bytes(length);
        let (now, with_streams) =
            (self.around.now, self.around.scenario.streams && self.around.rng.percent(60));
        let number = self.connections.records.len();
        let at = &mut self.around.hosts[host];
        let pid = at.processes[process].pid;
        let Some(program) = at.correspondent_mut(process) else { return Ok(false) };
        let channels = program.joining.len() + program.talking.len();
        if program.asking.len() + program.open.len() + channels >= MOST {
            return Ok(false);
        }
        let receiver = with_streams.then(|| self.make_receiver(host, process)).flatten();
        let seed = receiver.as_ref().and_then(|end| end.make_seed().ok());
        let express = self.around.scenario.express && seed.is_none() && self.around.rng.percent(70);
        let end = if express { self.joiner().make_end(host, process, target as u32)? } else { None };
        let (end, offer) = end.unzip();
        let passed = seed.as_ref().map(|seed| seed.to_bytes().to_vec()).or(offer).unwrap_or_default();
        let request = letter(number, &passed, &rest);
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let connecting = match program.manager.card().begin_connect(target as u32, &name, &request) {
            Ok(connecting) => connecting,
            // The link is down.
            Err(_) if !self.around.hosts[host].uplink.is_up() => return Ok(false),
            Err(error) => return Err(Violation::new(format!("host {host} cannot ask: {error}"))),
        };
        program.asking.push(Asking { record: number, connecting, receiver: seed.and(receiver), end });
        self.connections.enter(Record {
            hosts: [host, target],
            name,
            asked: now,
            claimed: None,
            request,
            answer: None,
            sides: [Side { pid: Some(pid), ..Side::default() }, Side::default()],
            established: false,
            streams: Vec::new(),
            lines: Default::default(),
        });
        self.around.note(|| format!("connection {number}: host {host} asks host {target}"));
        Ok(true)
    }

    fn make_receiver(&mut self, host: usize, process: usize) -> Option<StreamReceiver> {
        let records = self.around.rng.range(2, 3);
        let record_size = self.around.rng.range(1, 400);
        let options = StreamOptions { record_size, records, max_records: records };
        let program = self.around.hosts[host].correspondent(process)?;
        // There may be no room for it, or no link.
        StreamReceiver::create_with(&program.manager, options).ok()
    }

    fn make_sender(&mut self, host: usize, process: usize, seed: &Seed) -> Option<StreamSender> {
        let program = self.around.hosts[host].correspondent(process)?;
        StreamSender::from_seed(&program.manager, seed).ok()
    }

    /// Takes the next request as a listener, verifies it, and answers.
    fn take_request(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let Some(program) = self.around.hosts[host].correspondent(process) else { return Ok(false) };
        let Some(listener) = &program.listener else { return Ok(false) };
        let (name, pid) = (listener.name().to_owned(), self.around.hosts[host].processes[process].pid);
        let request = match listener.try_request() {
            Ok(request) => request,
            Err(Error::WouldBlock { .. }) => return Ok(false),
            Err(error) => return Err(Violation::new(error)),
        };
        let now = self.around.now;
        let number = number_of(request.private()).unwrap_or(usize::MAX);
        let record = self.connections.records.get_mut(number);
        let right = record.filter(|record| {
            record.request == request.private()
                && record.hosts == [request.host() as usize, host]
                && record.name == name
                && record.claimed.is_none()
        });
        let Some(record) = right else {
            return Err(Violation::new(format!(
                "host {host} gets a request to {name} that is not for it, or comes twice: {request:?} {:?}",
                self.connections.records.get(number)
            )));
        };
        record.claimed = Some(now);
        self.reply(host, process, number, request, pid)?;
        Ok(true)
    }

    fn reply(
        &mut self,
        host: usize,
        process: usize,
        number: usize,
        request: Request,
        pid: u64,
    ) -> Result<(), Violation> {
        let length = self.around.rng.index(100);
        let rest = self.around.rng.bytes(length);
        if self.around.rng.percent(20) {
            self.connections.records[number].answer = Some((false, rest.clone()));
            self.around.note(|| format!("connection {number} is rejected"));
            return request.reject(&rest).map_err(Violation::new);
        }
        if self.around.rng.percent(5) {
            self.connections.records[number].answer = Some((false, Vec::new()));
            drop(request);
            return Ok(());
        }
        let seed = seed_in(request.private());
        let ends = seed.and_then(|seed| {
            let receiver = self.make_receiver(host, process)?;
            Some((receiver.make_seed().ok()?, receiver, self.make_sender(host, process, &seed)?))
        });
        let theirs = offer_in(request.private());
        let end =
            if theirs.is_some() { self.joiner().make_end(host, process, request.host())? } else { None };
        let (end, offer) = end.unzip();
        let seed = ends.as_ref().map(|(seed, ..)| seed.to_bytes().to_vec());
        let answer = letter(number, &seed.or(offer).unwrap_or_default(), &rest);
        self.connections.records[number].sides[LISTENER].pid = Some(pid);
        let connection = match request.accept(&answer) {
            Ok(connection) => connection,
            Err(Error::Ended(end)) => return self.watcher().is_told(number, LISTENER, &end),
            Err(error) => return Err(Violation::new(format!("connection {number}: {error}"))),
        };
        self.connections.records[number].answer = Some((true, answer));
        self.around.note(|| format!("connection {number} is accepted"));
        if let Some((_, receiver, sender)) = ends {
            let (there, here) = (self.watched_stream(number, LISTENER), self.watched_stream(number, ASKER));
            if let Some(program) = self.around.hosts[host].correspondent_mut(process) {
                program.senders.push(Sending { stream: there, end: sender, closing: false });
                program.receivers.push(Receiving { stream: here, end: receiver, held: Vec::new() });
            }
        }
        if let (Some(end), Some(offer)) = (end, theirs) {
            return self.joiner().begin((host, process), (number, LISTENER), connection, end, offer);
        }
        if let Some(program) = self.around.hosts[host].correspondent_mut(process) {
            program.open.push(Open { record: number, side: LISTENER, connection });
        }
        Ok(())
    }

    /// Adds a stream that a connection watches over, sent from one side of it. Returns the stream's
    /// number.
    fn watched_stream(&mut self, number: usize, sender: usize) -> usize {
        let record = &mut self.connections.records[number];
        let end = |side: usize| record.sides[side].pid.map(|pid| (record.hosts[side], pid));
        // The asker may be gone, and never learn of it.
        let lost = record.sides[ASKER].gone.is_some() || record.sides[ASKER].told.is_some();
        let (mut from, mut to) = (end(sender), end(1 - sender));
        if lost {
            *(if sender == ASKER { &mut from } else { &mut to }) = None;
        }
        let stream = Stream::watched(from, to, record.hosts, lost);
        let stream = self.streams.enter(stream);
        record.streams.push(stream);
        stream
    }

    /// Checks as an asker whether there is an answer.
    fn look_at_answers(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let decided = program.asking.iter().position(|asking| asking.connecting.is_decided().unwrap_or(true));
        let Some(index) = decided else { return Ok(false) };
        let Asking { record: number, connecting, receiver, end } = program.asking.swap_remove(index);
        let connection = match connecting.finish_timeout(Duration::ZERO) {
            Ok(connection) => connection,
            Err(Error::Ended(end)) => {
                self.watcher().is_told(number, ASKER, &end)?;
                self.abandon_streams(host, process, number);
                return Ok(true);
            }
            Err(error) => return Err(Violation::new(format!("connection {number}: {error}"))),
        };
        let record = &mut self.connections.records[number];
        let passed = (true, connection.private().to_vec());
        ensure(record.answer.as_ref() == Some(&passed), || {
            format!("connection {number} is accepted with data that was not sent: {passed:?} {record:?}")
        })?;
        record.established = true;
        self.around.note(|| format!("connection {number} is established"));
        if let [to_asker, to_listener] = self.connections.records[number].streams[..] {
            let seed = seed_in(connection.private());
            let sender = seed.and_then(|seed| self.make_sender(host, process, &seed));
            let program = self.around.hosts[host].correspondent_mut(process);
            if let (Some(program), Some(end), Some(sender)) = (program, receiver, sender) {
                program.receivers.push(Receiving { stream: to_asker, end, held: Vec::new() });
                program.senders.push(Sending { stream: to_listener, end: sender, closing: false });
            } else {
                // A stream in one direction only is useless: the asker gives up.
                let now = self.around.now;
                self.connections.gone(number, ASKER, now, None);
                self.abandon_streams(host, process, number);
                return Ok(true);
            }
        }
        if let (Some(end), Some(offer)) = (end, offer_in(connection.private())) {
            self.joiner().begin((host, process), (number, ASKER), connection, end, offer)?;
            return Ok(true);
        }
        if let Some(program) = self.around.hosts[host].correspondent_mut(process) {
            program.open.push(Open { record: number, side: ASKER, connection });
        }
        Ok(true)
    }

    /// Notes that a host's link is down: all connections that its programs have established are
    /// over.
    pub(super) fn sever(&mut self, host: usize) {
        for process in &self.around.hosts[host].processes {
            let Some(program) = process.correspondent() else { continue };
            let open = program.open.iter().map(|open| (host, process.pid, open.record));
            self.connections.severed.extend(open);
        }
    }

    /// Called when the operating system of a host has looked at its card. It then knows of every
    /// change of the link, and must have told all affected sides, even if the link is back.
    pub(super) fn check_severed(&mut self, host: usize) -> Result<(), Violation> {
        let severed = std::mem::take(&mut self.connections.severed);
        let (here, elsewhere): (Vec<_>, Vec<_>) = severed.into_iter().partition(|(on, ..)| *on == host);
        self.connections.severed = elsewhere;
        for (_, pid, record) in here {
            let process = self.around.hosts[host].processes.iter().find(|process| process.pid == pid);
            let Some(program) = process.and_then(Process::correspondent) else { continue };
            let mut open = program.open.iter().filter(|open| open.record == record);
            ensure(open.all(|open| !matches!(open.connection.end(), Ok(None))), || {
                format!("host {host} has lost its link, and connection {record} was not told")
            })?;
        }
        Ok(())
    }

    /// Checks whether connections have ended. The reported end must be true, and must be the same
    /// when it is queried again.
    fn look_at_ends(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let ended = program.open.iter().position(|open| !matches!(open.connection.end(), Ok(None)));
        let Some(index) = ended else { return Ok(false) };
        let Open { record, side, connection } = program.open.swap_remove(index);
        let end = connection.end().map_err(Violation::new)?;
        let again = connection.end().map_err(Violation::new)?;
        let Some(end) = end.filter(|end| Some(end) == again.as_ref()) else {
            return Err(Violation::new(format!("connection {record} ends twice: {again:?}")));
        };
        self.watcher().is_told(record, side, &end)?;
        self.lose_streams(host, process, record, end.reason.into());
        Ok(true)
    }

    /// Leaves a connection that is established or asked for.
    fn part(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let Some(program) = self.around.hosts[host].correspondent(process) else { return Ok(false) };
        let (asking, open) = (program.asking.len(), program.open.len());
        if asking + open == 0 {
            return Ok(false);
        }
        let index = self.around.rng.index(asking + open);
        if index >= asking {
            let record = program.open[index - asking].record;
            // It rarely leaves while its streams are in progress.
            let done = self.has_no_streams_of(host, process, record);
            let does = done || self.around.rng.percent(5);
            return if does { self.let_go(host, process, index - asking) } else { Ok(false) };
        }
        if !self.around.rng.percent(20) {
            return Ok(false);
        }
        let (number, now) = (program.asking[index].record, self.around.now);
        // Checked first, because it may have been decided by now.
        if program.asking[index].connecting.is_decided().map_err(Violation::new)? {
            return Ok(false);
        }
        self.connections.gone(number, ASKER, now, None);
        self.around.note(|| format!("connection {number}: the asker gives up"));
        if let Some(program) = self.around.hosts[host].correspondent_mut(process) {
            program.asking.swap_remove(index);
        }
        self.abandon_streams(host, process, number);
        Ok(true)
    }

    /// Closes an established connection, or drops it.
    fn let_go(&mut self, host: usize, process: usize, index: usize) -> Result<bool, Violation> {
        let (now, graceful) = (self.around.now, self.around.rng.percent(70));
        let length = self.around.rng.index(257);
        let bytes = self.around.rng.bytes(length);
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        if !matches!(program.open[index].connection.end(), Ok(None)) {
            return self.look_at_ends(host, process);
        }
        let Open { record, side, connection } = program.open.swap_remove(index);
        self.connections.gone(record, side, now, graceful.then(|| bytes.clone()));
        self.around.note(|| format!("connection {record}: side {side} goes (closes: {graceful})"));
        if graceful {
            connection.close(&bytes).map_err(Violation::new)?;
        } else {
            drop(connection);
        }
        self.lose_streams(host, process, record, PeerLoss::Abandoned);
        Ok(true)
    }

    /// Notes that a program has left a connection, and tells its ends of the connection's streams.
    fn lose_streams(&mut self, host: usize, process: usize, number: usize, loss: PeerLoss) {
        let mut streamer = Streamer { around: self.around.lend(), streams: self.streams };
        streamer.lose(host, process, &self.connections.records[number].streams, loss);
    }

    /// Notes that the asker of a connection has no ends of its streams, and will have none.
    fn abandon_streams(&mut self, host: usize, process: usize, number: usize) {
        let pid = self.around.hosts[host].processes[process].pid;
        self.streams.abandon(&self.connections.records[number].streams, pid);
    }

    /// Returns whether a program has finished all streams of a connection.
    fn has_no_streams_of(&self, host: usize, process: usize, number: usize) -> bool {
        let streams = &self.connections.records[number].streams;
        self.around.hosts[host].correspondent(process).is_none_or(|program| {
            !program.senders.iter().any(|end| streams.contains(&end.stream))
                && !program.receivers.iter().any(|end| streams.contains(&end.stream))
        })
    }
}
