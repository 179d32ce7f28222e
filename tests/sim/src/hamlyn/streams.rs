//! Streams between programs: what each has accepted and delivered, and its expected result.
//!
//! A stream delivers every byte once and in order, or its receiver is told of the break, once. A
//! record does not change while it is held. When a process dies, the simulation acts as the
//! operating system, which tells the other end.

use std::ops::{Index, IndexMut};

use crate::engine::violation::{Violation, ensure};

/// A stream.
#[derive(Debug, Clone, Default)]
pub(super) struct Stream {
    /// Host and process of its ends, while they live.
    pub(super) sender: Option<(usize, u64)>,
    pub(super) receiver: Option<(usize, u64)>,
    pub(super) hosts: [usize; 2],
    pub(super) accepted: u64,
    pub(super) delivered: u64,
    /// The sender closes it.
    pub(super) closing: bool,
    /// The sender has closed it, and all data was on its way.
    pub(super) closed: bool,
    /// A connection watches over it: the operating systems report the death of an end.
    pub(super) watched: bool,
    /// Packets of it may be lost.
    pub(super) excused: bool,
    /// Number of times the receiver was told of a break.
    pub(super) breaks: u32,
    /// The receiver has been told that nothing more comes.
    pub(super) over: bool,
}

/// Returns a stream's bytes. Neighbouring bytes differ, and so do different streams.
pub(super) fn bytes(stream: usize, from: u64, length: usize) -> Vec<u8> {
    let byte = |position: u64| (position + stream as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (from..from + length as u64).map(|position| byte(position) as u8).collect()
}

impl Stream {
    /// Creates a stream that a connection watches over.
    pub(super) fn watched(
        sender: Option<(usize, u64)>,
        receiver: Option<(usize, u64)>,
        hosts: [usize; 2],
        excused: bool,
    ) -> Self {
        Self { sender, receiver, hosts, excused, watched: true, ..Self::default() }
    }

    /// Notes that a process has no end of it, and will have none.
    fn bury(&mut self, pid: u64) {
        for end in [&mut self.sender, &mut self.receiver] {
            end.take_if(|(_, of)| *of == pid);
        }
    }
}

/// All streams of a simulation.
#[derive(Debug, Default)]
pub(super) struct Streams(Vec<Stream>);

impl Index<usize> for Streams {
    type Output = Stream;

    fn index(&self, number: usize) -> &Stream {
        &self.0[number]
    }
}

impl IndexMut<usize> for Streams {
    fn index_mut(&mut self, number: usize) -> &mut Stream {
        &mut self.0[number]
    }
}

impl Streams {
    /// Enters a stream. Returns its number.
    pub(super) fn enter(&mut self, stream: Stream) -> usize {
        self.0.push(stream);
        self.0.len() - 1
    }

    /// Notes that packets from or to this host may be lost from now on.
    pub(super) fn excuse(&mut self, host: usize) {
        let own = |stream: &&mut Stream| stream.hosts.contains(&host);
        self.0.iter_mut().filter(own).for_each(|stream| stream.excused = true);
    }

    /// Notes that packets between two hosts may be lost from now on.
    pub(super) fn excuse_between(&mut self, host: usize, other: usize) {
        let both = |stream: &&mut Stream| stream.hosts.contains(&host) && stream.hosts.contains(&other);
        self.0.iter_mut().filter(both).for_each(|stream| stream.excused = true);
    }

    /// Notes that a process has died.
    pub(super) fn bury(&mut self, pid: u64) {
        self.0.iter_mut().for_each(|stream| stream.bury(pid));
    }

    /// Notes that a process has no ends of some streams, and will have none.
    pub(super) fn abandon(&mut self, numbers: &[usize], pid: u64) {
        for number in numbers {
            self.0[*number].excused = true;
            self.0[*number].bury(pid);
        }
    }

    /// Checks that every stream is over, or one of its ends died.
    pub(super) fn check_rest(&self) -> Result<(), Violation> {
        let open = |stream: &Stream| stream.sender.is_some() || stream.receiver.is_some();
        let open = self.0.iter().position(open);
        ensure(open.is_none(), || {
            let stream = open.map(|number| &self.0[number]);
            format!("work has stopped, but stream {open:?} goes on: {stream:?}")
        })
    }

    /// Returns the number of bytes delivered, of streams that completed, and of streams that were
    /// broken and reported it.
    pub(super) fn totals(&self) -> (u64, u64, u64) {
        let count = |which: fn(&Stream) -> bool| self.0.iter().filter(|stream| which(stream)).count() as u64;
        let delivered = self.0.iter().map(|stream| stream.delivered).sum();
        let whole = count(|stream| stream.over && stream.breaks == 0);
        (delivered, whole, count(|stream| stream.breaks > 0))
    }
}
