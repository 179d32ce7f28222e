//! Double buffering (section 5.2, Figure 6): two buffers, one for odd and one for even iterations
//! of a loop. So a message is in flight while the previous one is processed.
//!
//! | bytes of either memory, for each half | what |
//! |---|---|
//! | 0 to 3 | a flag: not 0 while the half has a message |
//! | 64 and up | the message, in the receiver's memory |
//!
//! All messages have the same length, which the program chooses, so a flag only indicates that
//! there is a message. The necessary calls depend on the program's loop:
//!
//! | case | the loop |
//! |---|---|
//! | 1 | iteration *i* + 1 uses the data of *i*; the program has a barrier in between |
//! | 2 | an iteration uses its own data; a barrier shows that the previous half is free |
//! | 3 | there is no barrier |
//!
//! | case | sender | receiver |
//! |---|---|---|
//! | 1 | [`Sender::swap`] | [`Receiver::swap`] |
//! | 2 | [`Sender::announce`] | [`Receiver::wait`], [`Receiver::take`] |
//! | 3 | [`Sender::wait`], [`Sender::send`] | [`Receiver::wait`], [`Receiver::release`] |
//!
//! Both ends must use the same case.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use hamlyn_sys::look;
use hamlyn_sys::shrimp::halves::{HEAD, Halves};

use super::end::{End, Idle, Memories, expired};
use crate::error::{Error, Result, at_most, inside};

/// Flag value of a half that has a message.
const FULL: u32 = 1;
/// Maximum length of a message.
const MOST: usize = 1 << 21;

/// Creates two halves for messages of `bytes` bytes each.
fn halves(memories: Memories<'_>, bytes: usize) -> Result<Halves<'_>> {
    at_most("message length", bytes as u64, MOST as u64)?;
    let stride = (HEAD + bytes.max(1)).next_power_of_two();
    memories.have(2 * stride, 2 * stride)?;
    Halves::new(memories.own, memories.out, stride).map_err(Error::system("lay out two buffers"))
}

#[cold]
#[inline(never)]
fn until_free(flag: &AtomicU32, at: usize, idle: &dyn Idle) -> Result<()> {
    let begun = Instant::now();
    loop {
        match flag.load(Ordering::Acquire) {
            0 => return Ok(()),
            value => idle.wait(at, value)?,
        }
        expired(begun, idle.timeout())?;
    }
}

/// The sending side.
pub struct Sender<'a> {
    halves: Halves<'a>,
    memories: Memories<'a>,
}

impl<'a> Sender<'a> {
    /// Creates a sender on this end, for messages of `bytes` bytes. The other end has a
    /// [`Receiver`] for the same length. Each memory must have room for both halves: twice the next
    /// power of two above `bytes` + 64.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if there is no room; [`Error::OutOfRange`].
    pub fn new(end: &'a End, bytes: usize) -> Result<Self> {
        Self::over(end.memories(), bytes)
    }

    fn over(memories: Memories<'a>, bytes: usize) -> Result<Self> {
        Ok(Self { halves: halves(memories, bytes)?, memories })
    }

    /// Returns the half in place: stores to it are sent. Loads may be slow if stores take another
    /// path.
    #[must_use]
    #[inline]
    pub fn words(&self) -> &'a [AtomicU64] {
        self.halves.out_data()
    }

    /// Stores bytes of the message.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        inside("half", offset as u64, from.len() as u64, 8 * self.words().len() as u64)?;
        self.memories.out.write(self.halves.at() + HEAD + offset, from);
        Ok(())
    }

    /// Case 1: continues with the other half.
    #[inline]
    pub fn swap(&mut self) {
        self.halves.swap();
    }

    /// Case 2: notifies the receiver of the message, and continues with the other half.
    #[inline]
    pub fn announce(&mut self) {
        self.halves.out_flag().store(FULL, Ordering::Release);
        self.halves.swap();
    }

    /// Case 3, before the half is used: blocks until the receiver has finished with its previous
    /// message.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; the errors of [`End::check`] if the receiver is gone.
    #[inline]
    pub fn wait(&mut self) -> Result<()> {
        let flag = self.halves.own_flag();
        if look(flag) == 0 {
            return Ok(());
        }
        until_free(flag, self.halves.at(), self.memories.idle)
    }

    /// Case 3: notifies the receiver of the message, and continues with the other half.
    #[inline]
    pub fn send(&mut self) {
        self.halves.own_flag().store(FULL, Ordering::Relaxed);
        self.announce();
    }
}

/// The receiving side.
pub struct Receiver<'a> {
    halves: Halves<'a>,
    memories: Memories<'a>,
}

impl<'a> Receiver<'a> {
    /// Creates a receiver on this end, for messages of `bytes` bytes. The other end has a
    /// [`Sender`] for the same length.
    ///
    /// # Errors
    /// Same as [`Sender::new`].
    pub fn new(end: &'a End, bytes: usize) -> Result<Self> {
        Self::over(end.memories(), bytes)
    }

    fn over(memories: Memories<'a>, bytes: usize) -> Result<Self> {
        Ok(Self { halves: halves(memories, bytes)?, memories })
    }

    /// Returns the half in place. A correct sender does not change it before it may.
    #[must_use]
    #[inline]
    pub fn words(&self) -> &'a [AtomicU64] {
        self.halves.own_data()
    }

    /// Copies bytes out of the message.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("half", offset as u64, to.len() as u64, 8 * self.words().len() as u64)?;
        self.memories.own.read(self.halves.at() + HEAD + offset, to);
        Ok(())
    }

    /// Case 1: continues with the other half.
    #[inline]
    pub fn swap(&mut self) {
        self.halves.swap();
    }

    /// Cases 2 and 3: blocks until the message has arrived.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; the errors of [`End::check`] if the sender is gone.
    #[inline]
    pub fn wait(&mut self) -> Result<()> {
        if look(self.halves.own_flag()) != 0 {
            return Ok(());
        }
        self.memories.idle.wait(self.halves.at(), 0)
    }

    /// Case 2: finishes with the message, which a barrier shows to the sender, and continues with
    /// the other half.
    #[inline]
    pub fn take(&mut self) {
        self.halves.own_flag().store(0, Ordering::Relaxed);
        self.halves.swap();
    }

    /// Case 3: finishes with the message, notifies the sender, and continues with the other half.
    #[inline]
    pub fn release(&mut self) {
        self.halves.own_flag().store(0, Ordering::Relaxed);
        self.halves.out_flag().store(0, Ordering::Release);
        self.halves.swap();
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::Pair;
    use super::*;

    const BYTES: usize = 1000;

    fn ends(pair: &Pair) -> (Sender<'_>, Receiver<'_>) {
        (Sender::over(pair.end(0), BYTES).unwrap(), Receiver::over(pair.end(1), BYTES).unwrap())
    }

    fn found(receiver: &Receiver<'_>) -> [u8; 3] {
        let mut bytes = [0; 3];
        receiver.read(BYTES - 3, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn barriers_alone_alternate_halves() {
        let pair = Pair::hasty(4096);
        let (mut sender, mut receiver) = ends(&pair);
        for round in 1..6 {
            sender.write(BYTES - 3, &[round; 3]).unwrap();
            sender.swap();
            sender.write(BYTES - 3, &[99; 3]).unwrap();
            assert_eq!(found(&receiver), [round; 3], "the other half is being filled");
            receiver.swap();
        }
    }

    #[test]
    fn barrier_frees_half_and_flag_fills_it() {
        let pair = Pair::hasty(4096);
        let (mut sender, mut receiver) = ends(&pair);
        for round in 0..6 {
            assert!(receiver.wait().is_err_and(|error| error.is_timed_out()));
            sender.write(BYTES - 3, &[round; 3]).unwrap();
            sender.announce();
            receiver.wait().unwrap();
            assert_eq!(found(&receiver), [round; 3]);
            receiver.take();
        }
    }

    #[test]
    fn without_barriers_two_messages_are_in_flight() {
        let pair = Pair::hasty(4096);
        let (mut sender, mut receiver) = ends(&pair);
        let send = |sender: &mut Sender<'_>, value| {
            sender.wait()?;
            sender.write(BYTES - 3, &[value; 3])?;
            sender.send();
            Ok::<(), Error>(())
        };
        send(&mut sender, 1).unwrap();
        for value in 2..9 {
            send(&mut sender, value).unwrap();
            assert!(send(&mut sender, 99).is_err_and(|error| error.is_timed_out()), "both are full");
            receiver.wait().unwrap();
            assert_eq!(found(&receiver), [value - 1; 3]);
            receiver.release();
        }
    }

    #[test]
    fn two_threads_lose_nothing() {
        let pair = Pair::new(4096);
        let (mut sender, mut receiver) = ends(&pair);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in 0..2000_u32 {
                    sender.wait().unwrap();
                    sender.write(0, &value.to_le_bytes()).unwrap();
                    sender.write(BYTES - 4, &value.to_le_bytes()).unwrap();
                    sender.send();
                }
            });
            for value in 0..2000_u32 {
                receiver.wait().unwrap();
                for place in [0, BYTES - 4] {
                    let mut bytes = [0; 4];
                    receiver.read(place, &mut bytes).unwrap();
                    assert_eq!(u32::from_le_bytes(bytes), value);
                }
                receiver.release();
            }
        });
    }

    #[test]
    fn accesses_outside_half_are_refused() {
        let pair = Pair::hasty(4096);
        assert!(Sender::over(pair.end(0), 1985).is_err(), "two halves of 4096 bytes");
        assert!(
            Sender::over(pair.end(0), usize::MAX).is_err() && Sender::over(pair.end(0), MOST + 1).is_err()
        );
        let (sender, receiver) = ends(&pair);
        assert_eq!(
            sender.write(1980, &[0; 5]).unwrap_err().to_string(),
            "5 bytes at offset 1980 reach past the end of the half (limit 1984)"
        );
        assert!(receiver.read(usize::MAX, &mut [0; 2]).is_err());
    }
}
