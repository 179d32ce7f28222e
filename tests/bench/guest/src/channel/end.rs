//! A common interface of all ways, so that the same messages are sent and checked through each.

use std::sync::atomic::AtomicU8;

use clap::ValueEnum;
use hamlyn_bench_guest::pattern::{ends, mark_of};

use crate::engine::result::Outcome;
use crate::engine::wait::Wait;

/// Polls between two reads of the clock, or before a polling end sleeps.
pub(crate) const LOOKS: u32 = 1 << 20;

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Through {
    /// A channel by express memory
    Express,
    /// A channel by the card, whatever its model
    Card,
    /// The same ring in the memory of ivshmem-plain, with nothing around it
    Ivshmem,
}

/// The ring between the two ends; both ends get the same options.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Way {
    /// Which way
    #[arg(long, value_enum, default_value = "express")]
    pub(super) through: Through,
    /// Bytes of the ring to each end, in whole pages
    #[arg(long, default_value_t = 61440)]
    pub(crate) capacity: u64,
    /// How an end waits; the ring alone is always polled
    #[arg(long, value_enum, default_value = "poll")]
    pub(crate) wait: Wait,
}

/// One end.
pub(crate) trait End {
    /// Sends a message that is built in the memory where the peer reads it. Waits for room.
    fn build(&mut self, length: usize, build: impl FnOnce(&[AtomicU8])) -> Outcome;
    /// Waits for a message, and reads it in place.
    fn look<T>(&mut self, look: impl FnOnce(&[AtomicU8]) -> T) -> Outcome<T>;
    /// Waits for the first message and avoids needless polls, which would starve the sender of the
    /// host's cores.
    fn first<T>(&mut self, look: impl FnOnce(&[AtomicU8]) -> T) -> Outcome<T>;

    /// Sends a copy.
    fn send(&mut self, bytes: &[u8]) -> Outcome {
        self.build(bytes.len(), |room| hamlyn_sys::register_copy_in(room, bytes))
    }

    /// Waits for a message of `to.len()` bytes, and copies it.
    fn receive(&mut self, to: &mut [u8]) -> Outcome {
        self.look(|message| copied(message, to))?
    }

    /// Does the same for the first message.
    fn receive_first(&mut self, to: &mut [u8]) -> Outcome {
        self.first(|message| copied(message, to))?
    }

    /// Sends a message in place: its number at both ends, and the ring's previous bytes in between.
    fn send_in_place(&mut self, length: usize, number: u64) -> Outcome {
        self.build(length, |room| {
            let mark = mark_of(number);
            for end in ends(length) {
                hamlyn_sys::register_copy_in(&room[end.clone()], &mark[..end.len()]);
            }
        })
    }

    /// Waits for such a message, and checks both of its ends in place.
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
