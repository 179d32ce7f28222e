//! Streams between programs: what each has accepted and delivered, and its expected result.
//!
//! A stream delivers every byte once and in order, or its receiver is told of the break, once. A
//! record does not change while it is held. When a process dies, the simulation acts as the
//! operating system, which tells the other end.

/// A stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stream {
    /// Host and process of its ends, while they live.
    pub(crate) sender: Option<(usize, u64)>,
    pub(crate) receiver: Option<(usize, u64)>,
    pub(crate) hosts: [usize; 2],
    pub(crate) accepted: u64,
    pub(crate) delivered: u64,
    /// The sender closes it.
    pub(crate) closing: bool,
    /// The sender has closed it, and all data was on its way.
    pub(crate) closed: bool,
    /// A connection watches over it: the operating systems report the death of an end.
    pub(crate) watched: bool,
    /// Packets of it may be lost.
    pub(crate) excused: bool,
    /// Number of times the receiver was told of a break.
    pub(crate) breaks: u32,
    /// The receiver has been told that nothing more comes.
    pub(crate) over: bool,
}

/// Returns a stream's bytes. Neighbouring bytes differ, and so do different streams.
pub(crate) fn bytes(stream: usize, from: u64, length: usize) -> Vec<u8> {
    let byte = |position: u64| (position + stream as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (from..from + length as u64).map(|position| byte(position) as u8).collect()
}

impl Stream {
    /// Creates a stream that a connection watches over.
    pub(crate) fn watched(
        sender: Option<(usize, u64)>,
        receiver: Option<(usize, u64)>,
        hosts: [usize; 2],
        excused: bool,
    ) -> Self {
        Self { sender, receiver, hosts, excused, watched: true, ..Self::default() }
    }
}
