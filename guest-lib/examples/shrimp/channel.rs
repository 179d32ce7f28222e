//! The connection of two programs that use the primitives: a channel for messages, another for the
//! program's own barriers, and a block for deliberate update. `c-primitives` has the same.

use std::time::Duration;

use clap::Subcommand;
use hamlyn::Connection;
use hamlyn::shrimp::primitives::{End, nx};
use hamlyn::shrimp::{Card, Handle, Mode, ReceiveBuffer, SendBuffer};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::seek::seek;

/// Bytes of each channel's memory.
pub(crate) const LENGTH: usize = nx::LENGTH;
/// Bytes of the block: several pages, the last one partial.
pub(crate) const BLOCK: usize = 3 * 4096 + 400;
/// The type of the barriers' messages.
const BARRIER: u16 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub(crate) enum Side {
    /// Waits for a sender, and receives
    Receive,
    /// Sends to any host that listens
    Send,
}

/// The objects of one of the two programs.
pub(crate) struct Channel {
    pub(crate) messages: End,
    pub(crate) barriers: End,
    /// The sender's block; the receiver has one that is not used.
    pub(crate) block: SendBuffer,
    pub(crate) received: ReceiveBuffer,
    connection: Connection,
    /// The peer's memory for messages.
    pub(crate) other: Handle,
}

const HANDLES: usize = 3;

impl Channel {
    /// Finds the peer and maps its memory. The peer maps this side's memory.
    pub(crate) fn open(card: &Card, side: Side, name: &str, mode: Mode, patience: Duration) -> Outcome<Self> {
        let lengths = [LENGTH, LENGTH, BLOCK];
        let mut own = Vec::new();
        for length in lengths {
            own.push(card.export(length, card.hosts()?)?);
        }
        let handles =
            own.iter().map(|own| Ok(own.handle()?.to_bytes())).collect::<Outcome<Vec<_>>>()?.concat();
        let map = |told: &[u8]| map(card, told, &lengths, mode);
        let (connection, out) = match side {
            Side::Receive => {
                let listener = card.listen(name)?;
                print(&json!({ "listening": name }))?;
                let request = listener.request_timeout(patience)?;
                let out = map(request.private())?;
                (request.accept(&handles)?, out)
            }
            Side::Send => {
                let connection = seek(card, name, &handles, patience)?;
                let out = map(connection.private())?;
                (connection, out)
            }
        };
        let [first, second, received] = <[_; HANDLES]>::try_from(own).map_err(|_| "buffers are missing")?;
        let [to_first, to_second, block] =
            <[_; HANDLES]>::try_from(out).map_err(|_| "buffers are missing")?;
        let other = *to_first.handle();
        Ok(Self {
            messages: End::new(first, to_first)?.with_timeout(patience),
            barriers: End::new(second, to_second)?.with_timeout(patience),
            block,
            received,
            other,
            connection,
        })
    }

    /// Ends the connection when both sides are done.
    pub(crate) fn close(self, side: Side, patience: Duration) -> Outcome {
        match side {
            Side::Receive => self.connection.close(b"")?,
            Side::Send => drop(self.connection.wait_end_timeout(patience)?),
        }
        Ok(())
    }
}

/// Maps buffers to the memory of the peer's handles.
fn map(card: &Card, told: &[u8], lengths: &[usize], mode: Mode) -> Outcome<Vec<SendBuffer>> {
    if told.len() != HANDLES * Handle::SIZE {
        return Err(format!("the other told {} bytes, not {HANDLES} handles", told.len()).into());
    }
    let modes = [mode, Mode::Single, Mode::Deliberate];
    let each = told.chunks(Handle::SIZE).zip(lengths).zip(modes);
    each.map(|((handle, length), mode)| Ok(card.map(&Handle::from_bytes(handle)?, 0, *length, mode)?))
        .collect()
}

/// A barrier of the two programs, which are each other's node 0. It is not inlined, because it is
/// not part of what is counted.
#[inline(never)]
pub(crate) fn barrier(node: &mut nx::Node<'_>) -> Outcome {
    node.csend(BARRIER, &[], 0)?;
    node.crecv(BARRIER, &mut [])?;
    Ok(())
}
