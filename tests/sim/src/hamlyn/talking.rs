//! Channels between programs: they send, receive, sleep and end them, and each result is checked.

use hamlyn::Error;

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::channels::message;
use crate::hamlyn::correspondent::{RECEIVER, SENDER, Talking, token};
use crate::hamlyn::world::World;

/// The result of a turn of a channel.
enum Turn {
    /// Nothing could be done.
    Idle,
    Done,
    /// The channel is over.
    Over,
}

impl World {
    /// Does something with the channels of a program.
    pub(crate) fn talk(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        if self.look_at_views(host, process)? {
            return Ok(true);
        }
        let count = self.wake_talkers(host, process)?;
        if count == 0 {
            return Ok(false);
        }
        let index = self.rng.index(count);
        match self.rng.below(40) {
            0 => return self.close_channel(host, process, index),
            1 if self.rng.percent(10) => return self.end_channel(host, process, index),
            _ => {}
        }
        let (says, times) = (self.rng.percent(50), self.rng.range(1, 12));
        for turn in 0..times {
            let done = if says { self.say(host, process, index)? } else { self.hear(host, process, index)? };
            let channels = self.hosts[host].correspondent(process).map_or(0, |program| program.talking.len());
            if !done || channels < count {
                return Ok(turn > 0 || done);
            }
        }
        Ok(true)
    }

    /// Called when no new work is created: closes and receives all channels. Returns whether
    /// anything was done.
    pub(crate) fn finish_channels(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let mut busy = false;
        while self.look_at_views(host, process)? {
            busy = true;
        }
        for index in (0..self.wake_talkers(host, process)?).rev() {
            busy |= self.close_channel(host, process, index)?;
            busy |= self.hear(host, process, index)?;
        }
        Ok(busy)
    }

    /// Hands on arrived messages. Wakes the ends that are reported ready, or that have lost the
    /// other side. Returns the program's number of channels.
    fn wake_talkers(&mut self, host: usize, process: usize) -> Result<usize, Violation> {
        let Some(program) = self.hosts[host].correspondent_mut(process) else { return Ok(0) };
        if program.talking.is_empty() {
            return Ok(0);
        }
        match program.manager.poll_all() {
            Ok(_) | Err(Error::Overrun { .. }) => {}
            Err(error) => return Err(Violation::new(error)),
        }
        let ready = program.manager.ready();
        for talking in &mut program.talking {
            let is_over = talking.receiver.peer_ended().is_some();
            for end in [SENDER, RECEIVER] {
                talking.asleep[end] &= !is_over && !ready.contains(&token(talking.record, talking.side, end));
            }
        }
        Ok(program.talking.len())
    }

    fn say(&mut self, host: usize, process: usize, index: usize) -> Result<bool, Violation> {
        let (kind, sleeps) = (self.rng.below(10), self.rng.percent(50));
        let part = self.rng.range(0, 100) as usize;
        let machine = self.hosts[host].machine.clone();
        let pid = self.hosts[host].processes[process].pid;
        let Some(program) = self.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let Some(Talking { record, side, of, sender: Some(sender), receiver, asleep, .. }) =
            program.talking.get_mut(index)
        else {
            return Ok(false);
        };
        if asleep[SENDER] {
            return Ok(false);
        }
        // From now on it is known whether the connection has ended.
        let _ = receiver.peer_ended();
        let (number, side) = (*record, *side);
        let line = &mut self.model.connections.records[number].lines[side];
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
            true => sender.arm(length).map(|there| {
                self.model.slept += u64::from(!there);
                asleep[SENDER] = !there;
            }),
            false => Ok(()),
        };
        match if full { armed } else { sent } {
            Ok(()) if full => Ok(false),
            Ok(()) => {
                line.said.push(length);
                line.reached += usize::from(machine.express_views(pid, *of));
                Ok(true)
            }
            Err(Error::PeerLost(_)) => {
                program.talking[index].sender = None;
                ensure(self.is_parted(number, side), || {
                    format!("connection {number}: side {side} is told for no reason that its peer is lost")
                })?;
                Ok(true)
            }
            Err(error) => {
                Err(Violation::new(format!("connection {number}: side {side} cannot send: {error}")))
            }
        }
    }

    fn hear(&mut self, host: usize, process: usize, index: usize) -> Result<bool, Violation> {
        let sleeps = self.rng.percent(50);
        let Some(program) = self.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let Some(Talking { record, side, receiver, asleep, .. }) = program.talking.get_mut(index) else {
            return Ok(false);
        };
        if asleep[RECEIVER] {
            return Ok(false);
        }
        let _ = receiver.peer_ended();
        let (number, side) = (*record, *side);
        let line = &mut self.model.connections.records[number].lines[1 - side];
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
                self.model.said += 1;
                Turn::Done
            }
            Ok(None) if line.closed && line.delivered == line.said.len() => Turn::Over,
            Ok(None) => return Err(wrong("is told too early that all has come", line)),
            Err(Error::PeerLost(_)) if line.delivered == line.reached => Turn::Over,
            Err(Error::PeerLost(_)) => return Err(wrong("is told of the end before all has come", line)),
            Err(error) if error.is_would_block() => {
                if sleeps {
                    asleep[RECEIVER] = match receiver.arm() {
                        Ok(there) => {
                            self.model.slept += u64::from(!there);
                            !there
                        }
                        // The next look returns it again.
                        Err(Error::PeerLost(_)) => false,
                        Err(error) => return Err(wrong(&format!("cannot sleep ({error})"), line)),
                    };
                }
                Turn::Idle
            }
            Err(error) => return Err(wrong(&format!("cannot receive ({error})"), line)),
        };
        match turn {
            Turn::Idle => Ok(false),
            Turn::Done => Ok(true),
            Turn::Over => self.hear_no_more(host, process, index),
        }
    }

    /// Ends reception: the channel is closed, or the other side is gone.
    fn hear_no_more(&mut self, host: usize, process: usize, index: usize) -> Result<bool, Violation> {
        let Some(program) = self.hosts[host].correspondent(process) else { return Ok(false) };
        let Talking { record, side, .. } = program.talking[index];
        let line = &self.model.connections.records[record].lines[1 - side];
        let is_closed = line.closed && line.delivered == line.said.len();
        ensure(is_closed || self.is_parted(record, side), || {
            format!("connection {record}: side {side} is told for no reason that its peer is gone")
        })?;
        // A side that still sends, and whose peer still receives, goes on.
        let talks = program.talking[index].sender.is_some() && is_closed && !self.is_parted(record, side);
        if talks { Ok(false) } else { self.end_channel(host, process, index) }
    }

    fn close_channel(&mut self, host: usize, process: usize, index: usize) -> Result<bool, Violation> {
        let machine = self.hosts[host].machine.clone();
        let pid = self.hosts[host].processes[process].pid;
        let Some(program) = self.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let Some(Talking { record, side, of, sender, closing, .. }) = program.talking.get_mut(index) else {
            return Ok(false);
        };
        let Some(mut sender) = sender.take() else { return Ok(false) };
        *closing = true;
        let line = &mut self.model.connections.records[*record].lines[*side];
        line.closed = machine.express_views(pid, *of);
        sender.try_close().map_err(Violation::new)?;
        Ok(true)
    }

    /// Leaves a channel of a program, whatever is still to come.
    fn end_channel(&mut self, host: usize, process: usize, index: usize) -> Result<bool, Violation> {
        let now = self.now();
        let Some(program) = self.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let talking = program.talking.swap_remove(index);
        let Talking { record, side, closing, .. } = talking;
        let heard = &self.model.connections.records[record].lines[1 - side];
        let graceful = closing && heard.closed && heard.delivered == heard.said.len();
        self.model.connections.gone(record, side, now, graceful.then(Vec::new));
        self.note(|| format!("connection {record}: side {side} ends its channel (closes: {graceful})"));
        drop(talking);
        Ok(true)
    }
}
