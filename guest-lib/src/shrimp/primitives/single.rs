//! Single buffering (section 5.2, Figure 5): one buffer, and one flag that contains the length of a
//! message, or indicates that the buffer is free.
//!
//! | bytes of either memory | what |
//! |---|---|
//! | 0 to 3 | `nbytes`: the message's length; `0x80000000` while the buffer is free |
//! | 64 and up | the message, in the receiver's memory |
//!
//! The sender waits until the buffer is free, stores the message in place, and stores its length.
//! The receiver waits until there is a length, reads the message in place or copies it, and marks
//! the buffer as free.
//!
//! In the paper, 0 marks a free buffer. Here it is an invalid length. So with one comparison the
//! receiver detects both that there is no message and that the length is invalid.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use hamlyn_sys::{copy_out, look};

use super::end::{End, Idle, Memories, expired};
use crate::error::{Error, Result, at_most, inside};

/// Offset of the message.
const DATA: usize = 64;
/// Value of `nbytes` while the buffer is free.
const FREE: u32 = 0x8000_0000;
/// Maximum size of a buffer.
const MOST: usize = 1 << 30;

/// The length of a message: from 1 to the size of the buffer. It is checked when it is created
/// ([`Sender::length`]), so that a loop with messages of the same length need not check it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length(u32);

/// The flag of one end, in its own memory and in the memory that is sent.
#[derive(Clone, Copy)]
struct Flag<'a> {
    own: &'a AtomicU32,
    out: &'a AtomicU32,
    capacity: u32,
    idle: &'a dyn Idle,
}

impl<'a> Flag<'a> {
    /// Creates the flag. Memory is initially zero, which is not a valid length: the buffer is then
    /// free. A value that the other end may have sent already is kept.
    fn new(memories: Memories<'a>, room: usize) -> Result<Self> {
        memories.have(DATA, DATA)?;
        let flag = Self {
            own: &memories.own.words(0, 1)[0],
            out: &memories.out.words(0, 1)[0],
            capacity: room.saturating_sub(DATA).min(MOST) as u32 & !7,
            idle: memories.idle,
        };
        let _ = flag.own.compare_exchange(0, FREE, Ordering::AcqRel, Ordering::Acquire);
        Ok(flag)
    }

    /// Stores a value for this end, and then for the other end, which also sees all earlier stores.
    #[inline(always)]
    fn store(self, value: u32) {
        self.own.store(value, Ordering::Relaxed);
        self.out.store(value, Ordering::Release);
    }
}

// These functions are off the fast path. They take values instead of the flag, so that the flag
// stays in registers.

#[cold]
#[inline(never)]
fn until_free(flag: &AtomicU32, capacity: u32, idle: &dyn Idle) -> Result<()> {
    let begun = Instant::now();
    loop {
        match flag.load(Ordering::Acquire) {
            FREE => return Ok(()),
            length => check(length, capacity).and_then(|()| idle.wait(0, length))?,
        }
        expired(begun, idle.timeout())?;
    }
}

#[cold]
#[inline(never)]
fn until_full(flag: &AtomicU32, capacity: u32, idle: &dyn Idle) -> Result<usize> {
    let begun = Instant::now();
    loop {
        match flag.load(Ordering::Acquire) {
            FREE => idle.wait(0, FREE)?,
            length => return check(length, capacity).map(|()| length as usize),
        }
        expired(begun, idle.timeout())?;
    }
}

fn check(length: u32, capacity: u32) -> Result<()> {
    at_most("nbytes", length.into(), capacity.into())
}

/// The sending side.
pub struct Sender<'a> {
    flag: Flag<'a>,
    memories: Memories<'a>,
}

impl<'a> Sender<'a> {
    /// Creates a sender on this end. The other end has a [`Receiver`]. The buffer is as long as the
    /// memory mapped to the other end, minus 64 bytes.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if the memory has less than that.
    pub fn new(end: &'a End) -> Result<Self> {
        Self::over(end.memories())
    }

    fn over(memories: Memories<'a>) -> Result<Self> {
        Ok(Self { flag: Flag::new(memories, memories.out_length)?, memories })
    }

    /// Returns the maximum length of a message in bytes: a multiple of 8.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.flag.capacity as usize
    }

    /// Creates the length of a message.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::Invalid`] if `bytes` is zero.
    pub fn length(&self, bytes: usize) -> Result<Length> {
        at_most("message length", bytes as u64, self.flag.capacity.into())?;
        if bytes == 0 {
            return Err(Error::Invalid("a message has at least one byte"));
        }
        Ok(Length(bytes as u32))
    }

    /// Blocks until the receiver has finished with the previous message.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::OutOfRange`] if the receiver has stored an invalid value; the
    /// errors of [`End::check`] if it is gone.
    #[inline]
    pub fn wait(&mut self) -> Result<Free<'_, 'a>> {
        if look(self.flag.own) != FREE {
            until_free(self.flag.own, self.flag.capacity, self.flag.idle)?;
        }
        Ok(Free(self))
    }
}

/// A free buffer: store the next message into it, then send it. The buffer stays free if it is not
/// sent.
pub struct Free<'s, 'a>(&'s mut Sender<'a>);

impl<'a> Free<'_, 'a> {
    /// Returns the buffer in place: stores to it are sent. Loads may be slow if stores take another
    /// path.
    #[must_use]
    pub fn words(&self) -> &'a [AtomicU64] {
        self.0.memories.out.long_words(DATA, self.0.capacity() / 8)
    }

    /// Stores bytes of the message.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        inside("message buffer", offset as u64, from.len() as u64, self.0.flag.capacity.into())?;
        self.0.memories.out.write(DATA + offset, from);
        Ok(())
    }

    /// Notifies the receiver of the message: everything that was stored in the buffer before.
    #[inline]
    pub fn send(self, length: Length) {
        self.0.flag.store(length.0);
    }
}

/// The receiving side.
pub struct Receiver<'a> {
    flag: Flag<'a>,
    memories: Memories<'a>,
    bytes: &'a [AtomicU8],
}

impl<'a> Receiver<'a> {
    /// Creates a receiver on this end. The other end has a [`Sender`]. The buffer is as long as
    /// this process' memory, minus 64 bytes.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if the memory has less than that.
    pub fn new(end: &'a End) -> Result<Self> {
        Self::over(end.memories())
    }

    fn over(memories: Memories<'a>) -> Result<Self> {
        let flag = Flag::new(memories, memories.own_length)?;
        Ok(Self { flag, memories, bytes: memories.own.cells(DATA, flag.capacity as usize) })
    }

    /// Returns the maximum length of a message in bytes: a multiple of 8.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.flag.capacity as usize
    }

    /// Blocks until a message arrives.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::OutOfRange`] if its length, as stored by the sender, exceeds
    /// the buffer; the errors of [`End::check`] if the sender is gone.
    #[inline]
    pub fn recv(&mut self) -> Result<Message<'_, 'a>> {
        let mut length = look(self.flag.own) as usize;
        loop {
            if let Some(bytes) = self.bytes.get(..length) {
                return Ok(Message { bytes, receiver: self });
            }
            length = until_full(self.flag.own, self.flag.capacity, self.flag.idle)?;
        }
    }

    /// Single buffering with copy: blocks until a message arrives, copies it, and frees the buffer.
    /// Returns its length. A message that does not fit is kept.
    ///
    /// # Errors
    /// Same as [`Receiver::recv`]; [`Error::PastEnd`] if the message does not fit.
    #[inline]
    pub fn recv_into(&mut self, to: &mut [u8]) -> Result<usize> {
        let message = self.recv()?;
        let (length, room) = (message.len(), to.len());
        let Some(to) = to.get_mut(..length) else { return Err(does_not_fit(length, room)) };
        copy_out(message.bytes, to);
        message.release();
        Ok(length)
    }
}

#[cold]
fn does_not_fit(length: usize, room: usize) -> Error {
    Error::PastEnd { object: "buffer for a message", offset: 0, length: length as u64, limit: room as u64 }
}

/// A message that has arrived. If it is not released, it is returned again the next time.
pub struct Message<'r, 'a> {
    bytes: &'a [AtomicU8],
    receiver: &'r mut Receiver<'a>,
}

impl<'a> Message<'_, 'a> {
    /// Returns the length in bytes, which is at most that of the buffer.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the message is empty, which it never is if the sender is correct.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the whole buffer in place. A correct sender does not change it before the message is
    /// released.
    #[must_use]
    pub fn words(&self) -> &'a [AtomicU64] {
        self.receiver.memories.own.long_words(DATA, self.receiver.capacity() / 8)
    }

    /// Copies bytes out of the message.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("message", offset as u64, to.len() as u64, self.bytes.len() as u64)?;
        self.receiver.memories.own.read(DATA + offset, to);
        Ok(())
    }

    /// Returns the buffer to the sender.
    #[inline]
    pub fn release(self) {
        self.receiver.flag.store(FREE);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::Pair;
    use super::*;

    fn ends(pair: &Pair) -> (Sender<'_>, Receiver<'_>) {
        (Sender::over(pair.end(0)).unwrap(), Receiver::over(pair.end(1)).unwrap())
    }

    fn send(sender: &mut Sender<'_>, bytes: &[u8]) -> Result<()> {
        let length = sender.length(bytes.len())?;
        let free = sender.wait()?;
        free.write(0, bytes)?;
        free.send(length);
        Ok(())
    }

    #[test]
    fn message_stays_and_blocks_sender_until_released() {
        let pair = Pair::hasty(4096);
        let (mut sender, mut receiver) = ends(&pair);
        assert!(receiver.recv().is_err_and(|error| error.is_timed_out()), "there is none");
        for round in 0..3 {
            send(&mut sender, &[round; 9]).unwrap();
            assert!(sender.wait().is_err_and(|error| error.is_timed_out()), "the buffer is full");
            for _ in 0..2 {
                let message = receiver.recv().unwrap();
                let mut bytes = [9; 9];
                message.read(0, &mut bytes).unwrap();
                assert_eq!((message.len(), bytes), (9, [round; 9]));
                assert!(message.read(1, &mut bytes).is_err());
            }
            receiver.recv().unwrap().release();
            assert!(receiver.recv().is_err());
        }
    }

    #[test]
    fn message_before_receiver_exists_is_kept() {
        let pair = Pair::hasty(4096);
        let mut sender = Sender::over(pair.end(0)).unwrap();
        send(&mut sender, b"early").unwrap();
        let mut receiver = Receiver::over(pair.end(1)).unwrap();
        assert_eq!(receiver.recv_into(&mut [0; 9]).unwrap(), 5);
    }

    #[test]
    fn messages_of_each_length_are_copied() {
        let pair = Pair::new(4096);
        let (mut sender, mut receiver) = ends(&pair);
        let most = sender.capacity();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for length in 1..=most {
                    send(&mut sender, &vec![length as u8; length]).unwrap();
                }
            });
            for length in 1..=most {
                let mut bytes = vec![0; most];
                assert_eq!(receiver.recv_into(&mut bytes).unwrap(), length);
                assert!(bytes[..length].iter().all(|byte| *byte == length as u8));
                assert!(bytes[length..].iter().all(|byte| *byte == 0));
            }
        });
    }

    #[test]
    fn message_that_does_not_fit_is_kept() {
        let pair = Pair::hasty(4096);
        let (mut sender, mut receiver) = ends(&pair);
        assert_eq!(
            sender.length(4033).unwrap_err().to_string(),
            "message length 4033 is out of range (limit 4032)"
        );
        assert!(sender.length(0).is_err());
        assert!(sender.wait().unwrap().write(4030, b"abc").is_err());
        send(&mut sender, &[7; 100]).unwrap();
        assert_eq!(
            receiver.recv_into(&mut [0; 99]).unwrap_err().to_string(),
            "100 bytes at offset 0 reach past the end of the buffer for a message (limit 99)"
        );
        assert_eq!(receiver.recv_into(&mut [0; 100]).unwrap(), 100);
    }

    #[test]
    fn invalid_flag_fails_at_both_ends() {
        let pair = Pair::hasty(4096);
        let (mut sender, mut receiver) = ends(&pair);
        for nonsense in [4033, FREE - 1, u32::MAX] {
            pair.memory[0].store_u32(0, nonsense);
            pair.memory[1].store_u32(0, nonsense);
            let told = format!("nbytes {nonsense} is out of range (limit 4032)");
            assert_eq!(sender.wait().err().unwrap().to_string(), told);
            assert_eq!(receiver.recv().err().unwrap().to_string(), told);
            assert!(receiver.recv_into(&mut [0; 5000]).is_err());
        }
        // The channel works again afterwards.
        pair.memory[0].store_u32(0, FREE);
        pair.memory[1].store_u32(0, FREE);
        send(&mut sender, b"again").unwrap();
        assert_eq!(receiver.recv_into(&mut [0; 5]).unwrap(), 5);
    }

    /// Simulates endless spurious wake-ups: a sender that stores a length and takes it back at
    /// once.
    #[derive(Default)]
    struct Restless(AtomicU32);

    impl Idle for Restless {
        fn wait(&self, _: usize, _: u32) -> Result<()> {
            let often = self.0.fetch_add(1, Ordering::Relaxed) > 1000;
            if often { Err(Error::Invalid("it waits for ever")) } else { Ok(()) }
        }

        fn glance(&self, offset: usize, value: u32) -> Result<()> {
            self.wait(offset, value)
        }

        fn timeout(&self) -> Option<std::time::Duration> {
            Some(std::time::Duration::ZERO)
        }
    }

    #[test]
    fn spurious_wakeups_do_not_extend_timeout() {
        let (pair, idle) = (Pair::hasty(4096), Restless::default());
        let memories = |end| Memories { idle: &idle, ..pair.end(end) };
        let (mut sender, mut receiver) =
            (Sender::over(memories(0)).unwrap(), Receiver::over(memories(1)).unwrap());
        assert!(receiver.recv().err().unwrap().is_timed_out());
        pair.memory[0].store_u32(0, 9);
        assert!(sender.wait().err().unwrap().is_timed_out());
    }

    #[test]
    fn memory_without_room_for_the_flag_is_refused() {
        let pair = Pair::hasty(4096);
        let small =
            |memories: Memories<'_>| Memories { own_length: 63, ..memories }.have(DATA, DATA).is_err();
        assert!(small(pair.end(0)));
        assert!(Sender::over(Memories { out_length: 63, ..pair.end(0) }).is_err());
        assert!(Receiver::over(Memories { own_length: 63, ..pair.end(0) }).is_err());
    }
}
