//! What both ways can do, so that the same messages are sent and looked at by either.

use std::sync::atomic::AtomicU8;

use clap::ValueEnum;
use hamlyn_bench_guest::pattern::{ends, mark_of};

use crate::engine::result::Outcome;
use crate::engine::wait::Wait;
use crate::express::{bare, channel};

/// Looks between two at the clock, or before an end sleeps that polls.
pub(crate) const LOOKS: u32 = 1 << 20;

/// Which ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Through {
    /// A channel of the library
    Channel,
    /// The same ring in the memory of ivshmem-plain, with nothing around it
    Ivshmem,
}

/// What the two ends meet through, said alike to both.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Way {
    /// Which ring
    #[arg(long, value_enum, default_value = "channel")]
    through: Through,
    /// Bytes of the ring to each end, in whole pages
    #[arg(long, default_value_t = 61440)]
    pub(crate) capacity: u64,
    /// How an end waits. A ring alone is polled
    #[arg(long, value_enum, default_value = "poll")]
    pub(crate) wait: Wait,
}

/// One end.
pub(crate) trait End {
    /// Sends a message that is built where the other reads it. Waits for room.
    fn build(&mut self, length: usize, build: impl FnOnce(&[AtomicU8])) -> Outcome;
    /// Waits for a message, and looks at it where it is.
    fn look<T>(&mut self, look: impl FnOnce(&[AtomicU8]) -> T) -> Outcome<T>;
    /// Waits for the first message, without a look too many: who polls for that starves its sender
    /// of the host's cores.
    fn first<T>(&mut self, look: impl FnOnce(&[AtomicU8]) -> T) -> Outcome<T>;

    /// Sends a copy.
    fn send(&mut self, bytes: &[u8]) -> Outcome {
        self.build(bytes.len(), |room| hamlyn_sys::register_copy_in(room, bytes))
    }

    /// Waits for a message of so many bytes, and copies it.
    fn receive(&mut self, to: &mut [u8]) -> Outcome {
        self.look(|message| copied(message, to))?
    }

    /// The same of the first one.
    fn receive_first(&mut self, to: &mut [u8]) -> Outcome {
        self.first(|message| copied(message, to))?
    }

    /// Sends a message in place: the number at both of its ends, and between them what is there.
    fn send_in_place(&mut self, length: usize, number: u64) -> Outcome {
        self.build(length, |room| {
            let mark = mark_of(number);
            for end in ends(length) {
                hamlyn_sys::register_copy_in(&room[end.clone()], &mark[..end.len()]);
            }
        })
    }

    /// Waits for such a message, and looks at its ends where they are.
    fn receive_in_place(&mut self, length: usize, number: u64) -> Outcome {
        self.look(|message| {
            let mark = mark_of(number);
            let is_mark = |end: std::ops::Range<usize>| {
                let mut bytes = mark;
                hamlyn_sys::register_copy_out(&message[end.clone()], &mut bytes[..end.len()]);
                bytes == mark
            };
            if message.len() != length || !ends(length).into_iter().all(is_mark) {
                return Err(format!("message {number} brought other bytes than its own").into());
            }
            Ok(())
        })?
    }
}

fn copied(message: &[AtomicU8], to: &mut [u8]) -> Outcome {
    if message.len() != to.len() {
        return Err(format!("a message of {} bytes came, not of {}", message.len(), to.len()).into());
    }
    hamlyn_sys::register_copy_out(message, to);
    Ok(())
}

/// What is done with an end, whatever it is.
pub(crate) trait Act {
    fn with(self, end: impl End) -> Outcome;
}

/// The end that is there first, and says so.
pub(crate) fn listen(way: &Way, act: impl Act) -> Outcome {
    match way.through {
        Through::Channel => act.with(channel::listen(way)?),
        Through::Ivshmem => act.with(bare::listen(way)?),
    }
}

/// The end that comes to it.
pub(crate) fn connect(way: &Way, act: impl Act) -> Outcome {
    match way.through {
        Through::Channel => act.with(channel::connect(way)?),
        Through::Ivshmem => act.with(bare::connect(way)?),
    }
}
