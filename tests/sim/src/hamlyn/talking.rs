//! Channels between programs: they send, receive, sleep and end them, and each result is checked.

use std::time::Duration;

use hamlyn::{Error, PeerLoss};

use crate::engine::violation::Violation;
use crate::hamlyn::areas;
use crate::hamlyn::around::Around;
use crate::hamlyn::channels::{CHANNEL_ENDS, message};
use crate::hamlyn::connections::Connections;
use crate::hamlyn::correspondent::{Correspondent, RECEIVER, SENDER, Talking};
use crate::hamlyn::endings::Watcher;
use crate::hamlyn::joining::Joiner;
use crate::hamlyn::tally::Tally;

/// The result of a turn of a channel.
enum Turn {
    /// Nothing could be done.
    Idle,
    Done,
    /// The channel is over: the other side has closed it, or is lost.
    Over(Option<PeerLoss>),
}

/// Acts on the channels of programs.
pub(super) struct Talker<'a> {
    pub(super) around: Around<'a>,
    pub(super) connections: &'a mut Connections,
    pub(super) tally: &'a mut Tally,
}

impl Talker<'_> {
    fn joiner(&mut self) -> Joiner<'_> {
        Joiner { around: self.around.lend(), connections: self.connections, tally: self.tally }
    }

    fn watcher(&mut self) -> Watcher<'_> {
        Watcher { around: self.around.lend(), connections: self.connections }
    }

    /// Does something with the channels of a program.
    pub(super) fn talk(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        if self.joiner().look_at_views(host, process)? {
            return Ok(true);
        }
        let count = self.wake_talkers(host, process);
        if count == 0 {
            return Ok(false);
        }
        let index = self.around.rng.index(count);
        match self.around.rng.below(60) {
            0 => return self.close_channel(host, process, index),
            1 if self.around.rng.percent(10) => return self.end_channel(host, process, index),
            _ => {}
        }
        let (says, times) = (self.around.rng.percent(50), self.around.rng.range(1, 12));
        for turn in 0..times {
            let done = if says { self.say(host, process, index)? } else { self.hear(host, process, index)? };
            let channels =
                self.around.hosts[host].correspondent(process).map_or(0, |program| program.talking.len());
            if !done || channels < count {
                return Ok(turn > 0 || done);
            }
        }
        Ok(true)
    }

    /// Called when no new work is created: closes and receives all channels. Returns whether
    /// anything was done.
    pub(super) fn finish(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let mut busy = false;
        while self.joiner().look_at_views(host, process)? {
            busy = true;
        }
        for index in (0..self.wake_talkers(host, process)).rev() {
            busy |= self.close_channel(host, process, index)?;
            busy |= self.hear(host, process, index)?;
        }
        Ok(busy)
    }

    /// Wakes the ends whose connection has ended. Returns the program's number of channels.
    fn wake_talkers(&mut self, host: usize, process: usize) -> usize {
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return 0 };
        for talking in &mut program.talking {
            if talking.receiver.peer_ended() {
                talking.asleep = [None; 2];
            }
        }
        program.talking.len()
    }

    fn say(&mut self, host: usize, process: usize, index: usize) -> Result<bool, Violation> {
        let (kind, sleeps) = (self.around.rng.below(10), self.around.rng.percent(50));
        let part = self.around.rng.range(0, 100) as usize;
        let machine = self.around.hosts[host].machine.clone();
        let pid = self.around.hosts[host].processes[process].pid;
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let Some(Talking { record, side, of, sender: Some(sender), receiver, asleep, .. }) =
            program.talking.get_mut(index)
        else {
            return Ok(false);
        };
        if asleep[SENDER].is_some() {
            return Ok(false);
        }
        // From now on it is known whether the connection has ended.
        receiver.peer_ended();
        let (number, side) = (*record, *side);
        let line = &mut self.connections.records[number].lines[side];
        let length = if kind < 5 { part } else { sender.longest() * part / 100 };
        let bytes = message(number, side, line.said.len(), length);
        let sent = match kind % 2 {
            0 => sender.try_send(&bytes),
            _ => sender.try_reserve(length).and_then(|mut room| {
                let (head, tail) = bytes.split_at(length / 2);
                room.write(length / 2, tail)?;
                room.write(0, head)?;
                room.commit()
            }),
        };
        let full = sent.as_ref().is_err_and(Error::is_would_block);
        let armed = match full && sleeps {
            true => sender.arm(length),
            false => Ok(true),
        };
        match if full { armed } else { sent.map(|()| true) } {
            Ok(there) if full => {
                if !there {
                    self.tally.slept += 1;
                    program.talking[index].asleep[SENDER] = Some(program.armed());
                }
                Ok(false)
            }
            Ok(_) => {
                line.said.push(length);
                line.reached += usize::from(areas::views(&machine, pid, *of));
                Ok(true)
            }
            Err(Error::PeerLost(loss)) => {
                program.talking[index].sender = None;
                self.watcher().check_loss(number, side, loss)?;
                Ok(true)
            }
            Err(error) => {
                Err(Violation::new(format!("connection {number}: side {side} cannot send: {error}")))
            }
        }
    }

    fn hear(&mut self, host: usize, process: usize, index: usize) -> Result<bool, Violation> {
        let sleeps = self.around.rng.percent(50);
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let Some(Talking { record, side, receiver, asleep, .. }) = program.talking.get_mut(index) else {
            return Ok(false);
        };
        if asleep[RECEIVER].is_some() {
            return Ok(false);
        }
        receiver.peer_ended();
        let (number, side) = (*record, *side);
        let line = &mut self.connections.records[number].lines[1 - side];
        let wrong = |what: &str, line: &dyn std::fmt::Debug| {
            Violation::new(format!("connection {number}: side {side} {what}: {line:?}"))
        };
        let came = receiver.try_recv().and_then(|came| came.map(|came| came.to_vec()).transpose());
        let turn = match came {
            Ok(Some(came)) => {
                let due = line.said.get(line.delivered).copied();
                let due = due.map(|length| message(number, 1 - side, line.delivered, length));
                if due != Some(came) {
                    return Err(wrong("gets what is not the next message", line));
                }
                line.delivered += 1;
                self.tally.said += 1;
                Turn::Done
            }
            Ok(None) if line.closed && line.delivered == line.said.len() => Turn::Over(None),
            Ok(None) => return Err(wrong("is told too early that all has come", line)),
            Err(Error::PeerLost(loss)) if line.delivered == line.reached => Turn::Over(Some(loss)),
            Err(Error::PeerLost(_)) => return Err(wrong("is told of the end before all has come", line)),
            Err(error) if error.is_would_block() => {
                let there = !sleeps
                    || match receiver.arm() {
                        Ok(there) => there,
                        Err(error) => return Err(wrong(&format!("cannot sleep ({error})"), line)),
                    };
                if !there {
                    self.tally.slept += 1;
                    program.talking[index].asleep[RECEIVER] = Some(program.armed());
                }
                Turn::Idle
            }
            Err(error) => return Err(wrong(&format!("cannot receive ({error})"), line)),
        };
        match turn {
            Turn::Idle => Ok(false),
            Turn::Done => Ok(true),
            Turn::Over(end) => self.hear_no_more(host, process, index, end),
        }
    }

    /// Ends reception: the channel is closed, or the other side is lost.
    fn hear_no_more(
        &mut self,
        host: usize,
        process: usize,
        index: usize,
        end: Option<PeerLoss>,
    ) -> Result<bool, Violation> {
        let Some(program) = self.around.hosts[host].correspondent(process) else { return Ok(false) };
        let Talking { record, side, .. } = program.talking[index];
        // A side that still sends, and whose peer still receives, goes on.
        let sends = program.talking[index].sender.is_some();
        let talks = sends && end.is_none() && !self.watcher().is_parted(record, side);
        if let Some(loss) = end {
            self.watcher().check_loss(record, side, loss)?;
        }
        let ends = self.tally.channel_ends.iter_mut().zip(CHANNEL_ENDS);
        ends.filter(|(_, how)| *how == end).for_each(|(count, _)| *count += 1);
        if talks { Ok(false) } else { self.end_channel(host, process, index) }
    }

    fn close_channel(&mut self, host: usize, process: usize, index: usize) -> Result<bool, Violation> {
        let machine = self.around.hosts[host].machine.clone();
        let pid = self.around.hosts[host].processes[process].pid;
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let Some(Talking { record, side, of, sender, .. }) = program.talking.get_mut(index) else {
            return Ok(false);
        };
        let Some(sender) = sender.take() else { return Ok(false) };
        let line = &mut self.connections.records[*record].lines[*side];
        line.closed = areas::views(&machine, pid, *of);
        match sender.close_timeout(Duration::ZERO) {
            // It does not wait until the other side is sure to be woken.
            Ok(()) | Err(Error::TimedOut { .. }) => Ok(true),
            Err(error) => Err(Violation::new(error)),
        }
    }

    /// Leaves a channel of a program, whatever is still to come.
    fn end_channel(&mut self, host: usize, process: usize, index: usize) -> Result<bool, Violation> {
        let now = self.around.now;
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let talking = program.talking.swap_remove(index);
        let Talking { record, side, .. } = talking;
        self.connections.gone(record, side, now, Some(Vec::new()));
        self.around.note(|| format!("connection {record}: side {side} ends its channel"));
        drop(talking);
        Ok(true)
    }
}

/// Notes that a program exits: its channels close their connections.
pub(super) fn leave_channels(program: &Correspondent, connections: &mut Connections, now: u64) {
    for Talking { record, side, .. } in &program.talking {
        connections.gone(*record, *side, now, Some(Vec::new()));
    }
}
