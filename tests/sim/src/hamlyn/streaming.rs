//! Streams between programs: they open streams, send, receive and end them, and each result is
//! checked.

use std::time::Duration;

use hamlyn::protocol::stream::{StreamOptions, StreamReceiver, StreamSender};
use hamlyn::{Error, PeerLoss, Seed};

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::around::Around;
use crate::hamlyn::correspondent::{Receiving, Sending};
use crate::hamlyn::streams::Streams;
use crate::hamlyn::streams::{Stream, bytes};

/// Maximum number of bytes of a send.
const MOST: u32 = 900;
/// Maximum number of streams that a program receives.
const STREAMS: usize = 2;

/// Returns whether an error means that nothing could be done now.
fn is_for_later(error: &Error) -> bool {
    error.is_would_block() || error.is_timed_out() || error.is_exhausted()
}

/// Acts on the streams of programs.
pub(super) struct Streamer<'a> {
    pub(super) around: Around<'a>,
    pub(super) streams: &'a mut Streams,
}

impl Streamer<'_> {
    /// Opens a stream to a program, or does something with one of its ends.
    pub(super) fn correspond(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        match self.around.rng.below(10) {
            0 if self.around.scenario.streams => self.open_stream(host, process),
            1..=5 => self.send_on(host, process),
            _ => self.receive_on(host, process),
        }
    }

    /// Called when no new work is created: closes and receives all streams. Returns whether
    /// anything was done.
    pub(super) fn finish(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        program.senders.iter_mut().for_each(|sender| sender.closing = true);
        let (senders, receivers) = (program.senders.len(), program.receivers.len());
        let mut busy = false;
        for index in (0..senders).rev() {
            busy |= self.send(host, process, index)?;
        }
        for index in (0..receivers).rev() {
            busy |= self.receive(host, process, index)?;
        }
        Ok(busy)
    }

    /// Creates a receiver here, and a sender elsewhere from the seed that was passed as bytes. Some
    /// seeds are forged or stale.
    fn open_stream(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let records = self.around.rng.range(2, 5);
        let options = StreamOptions {
            record_size: self.around.rng.range(1, 700),
            records,
            max_records: records + self.around.rng.range(0, 4),
        };
        let there = self.around.correspondents();
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        if program.receivers.len() >= STREAMS {
            return Ok(false);
        }
        // There may be no room for it, or no link.
        let Ok(end) = StreamReceiver::create_with(&program.manager, options) else { return Ok(false) };
        let Ok(seed) = end.make_seed() else { return Ok(false) };
        let mut letter = seed.to_bytes();
        if self.around.rng.percent(10) {
            letter[self.around.rng.index(Seed::SIZE)] ^= 1 << self.around.rng.below(8);
            ensure(Seed::from_bytes(&letter).is_err(), || "a changed seed was taken for a good one")?;
            return Ok(true);
        }
        let seed = Seed::from_bytes(&letter).map_err(Violation::new)?;
        ensure(seed == end_seed(&end)?, || "a seed changes on its way")?;
        let Some((other, sender_process)) = self.around.rng.pick(&there) else { return Ok(false) };
        let Some(peer) = self.around.hosts[other].correspondent_mut(sender_process) else { return Ok(false) };
        let Ok(sender) = StreamSender::from_seed(&peer.manager, &seed) else { return Ok(false) };
        let stale = self.around.rng.percent(10);
        let pid = |at: usize, process: usize| self.around.hosts[at].processes[process].pid;
        let down = [host, other].iter().any(|end| !self.around.hosts[*end].uplink.is_up());
        let stream = self.streams.enter(Stream {
            sender: Some((other, pid(other, sender_process))),
            receiver: (!stale).then_some((host, pid(host, process))),
            hosts: [host, other],
            excused: down || stale,
            ..Stream::default()
        });
        self.around.note(|| {
            format!("stream {stream} from host {other} to host {host} (stale: {stale}): {options:?}")
        });
        let sending = Sending { stream, end: sender, closing: false };
        if let Some(peer) = self.around.hosts[other].correspondent_mut(sender_process) {
            peer.senders.push(sending);
        }
        if let Some(program) = self.around.hosts[host].correspondent_mut(process).filter(|_| !stale) {
            program.receivers.push(Receiving { stream, end, held: Vec::new() });
        }
        Ok(true)
    }

    fn send_on(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let count = self.around.hosts[host].correspondent(process).map_or(0, |program| program.senders.len());
        if count == 0 {
            return Ok(false);
        }
        let index = self.around.rng.index(count);
        self.send(host, process, index)
    }

    /// Sends, flushes, or closes. Removes a sender that is told of a break.
    fn send(&mut self, host: usize, process: usize, index: usize) -> Result<bool, Violation> {
        self.excuse_streams_without_link(host);
        let (length, kind) = (self.around.rng.range(1, MOST) as usize, self.around.rng.below(20));
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let Some(sending) = program.senders.get_mut(index) else { return Ok(false) };
        let (number, before) = (sending.stream, sending.end.accepted());
        sending.closing |= kind == 0;
        let data = bytes(number, before, length);
        let result = match kind {
            _ if sending.closing => sending.end.try_close(),
            1..=6 => sending.end.try_flush(),
            7..=9 => program.manager.allocate(length).and_then(|mut buffer| {
                sending.end.try_flush()?;
                // Coalesced data went first.
                buffer.write(0, &bytes(number, sending.end.accepted(), length))?;
                sending.end.send_buffer_timeout(buffer, Duration::ZERO).map(drop).map_err(Error::from)
            }),
            _ => sending.end.try_send(&data).map(drop),
        };
        let accepted = sending.end.accepted();
        let stream = &mut self.streams[number];
        stream.accepted = accepted;
        stream.closing = sending.closing;
        match result {
            Ok(()) if sending.closing => {
                stream.closed = true;
                stream.sender = None;
                program.senders.remove(index);
                self.around.note(|| format!("stream {number} is closed after {accepted} bytes"));
                Ok(true)
            }
            Ok(()) => Ok(true),
            Err(error) if is_for_later(&error) => Ok(accepted > before),
            Err(error @ Error::PeerLost(_)) => {
                let gone = stream.receiver.is_none() || stream.over || stream.excused;
                stream.sender = None;
                program.senders.remove(index);
                ensure(gone, || format!("stream {number}: the sender is told of a break: {error}"))?;
                Ok(true)
            }
            // There are no pages for more memory.
            Err(Error::OutOfRange { object: "memory length", .. }) => Ok(false),
            Err(error) => Err(Violation::new(format!("stream {number}: {error}"))),
        }
    }

    fn receive_on(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let count =
            self.around.hosts[host].correspondent(process).map_or(0, |program| program.receivers.len());
        if count == 0 {
            return Ok(false);
        }
        let index = self.around.rng.index(count);
        self.receive(host, process, index)
    }

    /// Takes the next record and verifies it, or releases some. Removes a receiver whose stream is
    /// over.
    fn receive(&mut self, host: usize, process: usize, index: usize) -> Result<bool, Violation> {
        let keep = self.around.step < self.around.scenario.steps && self.around.rng.percent(40);
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let Some(Receiving { stream: number, end, held }) = program.receivers.get_mut(index) else {
            return Ok(false);
        };
        let number = *number;
        let stream = &mut self.streams[number];
        let wrong =
            |stream: &Stream, what: &str| Violation::new(format!("stream {number} {what}: {stream:?}"));
        let busy = match end.try_recv() {
            Ok(Some(record)) => {
                let length = record.len();
                if stream.breaks > 0 || record.to_vec() != bytes(number, stream.delivered, length) {
                    return Err(wrong(stream, "delivers other bytes than were sent"));
                }
                held.push((record.number(), stream.delivered, length));
                stream.delivered += length as u64;
                true
            }
            Ok(None) => {
                let whole = stream.closing && stream.delivered == stream.accepted;
                if !whole && stream.breaks != 1 {
                    return Err(wrong(stream, "ends too early, or with no word of a break"));
                }
                stream.over = true;
                stream.receiver = None;
                program.receivers.remove(index);
                return Ok(true);
            }
            Err(Error::PeerLost(loss)) => {
                let reason = stream.sender.is_none() && !stream.closed;
                if !(reason || stream.excused) || stream.breaks > 0 {
                    return Err(wrong(stream, &format!("breaks for no reason ({loss})")));
                }
                stream.breaks += 1;
                true
            }
            Err(error) if is_for_later(&error) => false,
            Err(error) => return Err(wrong(stream, &error.to_string())),
        };
        for (record, from, length) in held.iter() {
            let now = end.record(*record).map(|record| record.to_vec());
            if now != Some(bytes(number, *from, *length)) {
                return Err(wrong(stream, "changes a record that is held"));
            }
        }
        if let Some((record, ..)) = held.last().filter(|_| !keep) {
            end.release(*record).map_err(Violation::new)?;
            held.clear();
        }
        Ok(busy)
    }

    /// Notes that packets for hosts without a link are lost.
    fn excuse_streams_without_link(&mut self, host: usize) {
        self.around.down().into_iter().for_each(|down| self.streams.excuse_between(host, down));
    }

    /// Notes that a process has died. The operating system tells the other ends of its streams.
    pub(super) fn bury(&mut self, pid: u64) {
        self.streams.bury(pid);
        for host in self.around.hosts.iter_mut() {
            for program in host.processes.iter_mut().filter_map(|process| process.correspondent_mut()) {
                for receiving in &program.receivers {
                    let stream = &self.streams[receiving.stream];
                    if !stream.watched && stream.sender.is_none() && !stream.closed {
                        receiving.end.peer_lost(PeerLoss::Process);
                    }
                }
                for sending in &program.senders {
                    let stream = &self.streams[sending.stream];
                    if !stream.watched && stream.receiver.is_none() && !stream.over {
                        sending.end.peer_lost(PeerLoss::Process);
                    }
                }
            }
        }
    }

    /// Notes that a program has left the connection of some streams, and tells its ends of them.
    pub(super) fn lose(&mut self, host: usize, process: usize, numbers: &[usize], loss: PeerLoss) {
        numbers.iter().for_each(|stream| self.streams[*stream].excused = true);
        let Some(program) = self.around.hosts[host].correspondent(process) else { return };
        for sending in program.senders.iter().filter(|end| numbers.contains(&end.stream)) {
            sending.end.peer_lost(loss);
        }
        for receiving in program.receivers.iter().filter(|end| numbers.contains(&end.stream)) {
            receiving.end.peer_lost(loss);
        }
    }

    /// Called when nothing moves: streams that may have lost packets are broken now, and other
    /// streams must be complete. Returns whether there were any to break.
    pub(super) fn break_all(&mut self) -> bool {
        let mut any = false;
        for host in self.around.hosts.iter_mut() {
            for program in host.processes.iter_mut().filter_map(|process| process.correspondent_mut()) {
                for receiving in program.receivers.iter().filter(|end| self.streams[end.stream].excused) {
                    receiving.end.peer_lost(PeerLoss::Link);
                    any = true;
                }
                for sending in program.senders.iter().filter(|end| self.streams[end.stream].excused) {
                    sending.end.peer_lost(PeerLoss::Link);
                    any = true;
                }
            }
        }
        any
    }
}

fn end_seed(end: &StreamReceiver) -> Result<Seed, Violation> {
    end.make_seed().map_err(Violation::new)
}
