//! Single buffering (section 5.2, Figure 5): one buffer, and one flag that tells both how long a
//! message is and that the buffer is free.
//!
//! | bytes of either memory | what |
//! |---|---|
//! | 0 to 3 | `nbytes`: the message's length; `0x80000000` while the buffer is free |
//! | 64 and up | the message, in the receiver's memory |
//!
//! The sender waits until the buffer is free, puts the message there in place, and stores its
//! length. The receiver waits until there is a length, reads the message in place or copies it, and
//! stores that the buffer is free. In the paper a free buffer is told by 0. Here it is a length
//! that there cannot be, so that one comparison tells the receiver both that there is no message
//! and that there is one which cannot be true.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use hamlyn_sys::{copy_out, look};

use super::end::{End, Idle, Ways, expired};
use crate::error::{Error, Result, at_most, inside};

/// Where a message begins.
const DATA: usize = 64;
/// What `nbytes` is while the buffer is free.
const FREE: u32 = 0x8000_0000;
/// The longest buffer.
const MOST: usize = 1 << 30;

/// How long a message is: 1 to as many bytes as a buffer has. It is checked when it is made
/// ([`Sender::length`]), so that a loop whose messages are alike need not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length(u32);

/// The flag of one end, in its own memory and where it is sent.
#[derive(Clone, Copy)]
struct Flag<'a> {
    own: &'a AtomicU32,
    out: &'a AtomicU32,
    capacity: u32,
    idle: &'a dyn Idle,
}

impl<'a> Flag<'a> {
    /// Memory is all zeros at first, which is no length: then the buffer is free. What the other
    /// may have sent already stays.
    fn new(ways: Ways<'a>, room: usize) -> Result<Self> {
        ways.have(DATA, DATA)?;
        let flag = Self {
            own: &ways.own.words(0, 1)[0],
            out: &ways.out.words(0, 1)[0],
            capacity: room.saturating_sub(DATA).min(MOST) as u32 & !7,
            idle: ways.idle,
        };
        let _ = flag.own.compare_exchange(0, FREE, Ordering::AcqRel, Ordering::Acquire);
        Ok(flag)
    }

    /// For this end, and then for the other, which sees what was stored before it, too.
    #[inline(always)]
    fn store(self, value: u32) {
        self.own.store(value, Ordering::Relaxed);
        self.out.store(value, Ordering::Release);
    }
}

// Off the fast path. They take values, not the flag: that stays in registers then.

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

/// Who sends.
pub struct Sender<'a> {
    flag: Flag<'a>,
    ways: Ways<'a>,
}

impl<'a> Sender<'a> {
    /// On this end; the other end has a [`Receiver`]. Its buffer is as long as what is mapped to
    /// the other's memory, less 64 bytes.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if there are not even so many.
    pub fn new(end: &'a End) -> Result<Self> {
        Self::over(end.ways())
    }

    fn over(ways: Ways<'a>) -> Result<Self> {
        Ok(Self { flag: Flag::new(ways, ways.out_length)?, ways })
    }

    /// The longest message, in bytes: a multiple of 8.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.flag.capacity as usize
    }

    /// A message's length.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::Invalid`] for no bytes.
    pub fn length(&self, bytes: usize) -> Result<Length> {
        at_most("message length", bytes as u64, self.flag.capacity.into())?;
        if bytes == 0 {
            return Err(Error::Invalid("a message has at least one byte"));
        }
        Ok(Length(bytes as u32))
    }

    /// Waits until the receiver is done with the message before.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::OutOfRange`] if the receiver has stored nonsense; those of
    /// [`End::check`] if it is gone.
    #[inline]
    pub fn wait(&mut self) -> Result<Free<'_, 'a>> {
        if look(self.flag.own) != FREE {
            until_free(self.flag.own, self.flag.capacity, self.flag.idle)?;
        }
        Ok(Free(self))
    }
}

/// A buffer that is free: the next message is stored there, and then sent. If it is not sent the
/// buffer stays free.
pub struct Free<'s, 'a>(&'s mut Sender<'a>);

impl<'a> Free<'_, 'a> {
    /// The buffer in place: what is stored in it travels. Loads may be slow, where stores take
    /// another way.
    #[must_use]
    pub fn words(&self) -> &'a [AtomicU64] {
        self.0.ways.out.long_words(DATA, self.0.capacity() / 8)
    }

    /// Stores bytes of the message.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        inside("message buffer", offset as u64, from.len() as u64, self.0.flag.capacity.into())?;
        self.0.ways.out.write(DATA + offset, from);
        Ok(())
    }

    /// Tells the receiver that the message is there: all that was stored in the buffer before.
    #[inline]
    pub fn send(self, length: Length) {
        self.0.flag.store(length.0);
    }
}

/// Who receives.
pub struct Receiver<'a> {
    flag: Flag<'a>,
    ways: Ways<'a>,
    bytes: &'a [AtomicU8],
}

impl<'a> Receiver<'a> {
    /// On this end; the other end has a [`Sender`]. Its buffer is as long as this process' memory,
    /// less 64 bytes.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if there are not even so many.
    pub fn new(end: &'a End) -> Result<Self> {
        Self::over(end.ways())
    }

    fn over(ways: Ways<'a>) -> Result<Self> {
        let flag = Flag::new(ways, ways.own_length)?;
        Ok(Self { flag, ways, bytes: ways.own.cells(DATA, flag.capacity as usize) })
    }

    /// The longest message, in bytes: a multiple of 8.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.flag.capacity as usize
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::OutOfRange`] if the sender says that it is longer than the
    /// buffer; those of [`End::check`] if it is gone.
    #[inline]
    pub fn wait(&mut self) -> Result<Message<'_, 'a>> {
        let mut length = look(self.flag.own) as usize;
        loop {
            if let Some(bytes) = self.bytes.get(..length) {
                return Ok(Message { bytes, receiver: self });
            }
            length = until_full(self.flag.own, self.flag.capacity, self.flag.idle)?;
        }
    }

    /// Single buffering with copy: waits for a message, copies it, and gives the buffer back; how
    /// many bytes it has. One that does not fit stays there.
    ///
    /// # Errors
    /// Those of [`Receiver::wait`]; [`Error::PastEnd`] if the message does not fit.
    #[inline]
    pub fn receive(&mut self, to: &mut [u8]) -> Result<usize> {
        let message = self.wait()?;
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

/// A message that has arrived. If it is not released it is there the next time, too.
pub struct Message<'r, 'a> {
    bytes: &'a [AtomicU8],
    receiver: &'r mut Receiver<'a>,
}

impl<'a> Message<'_, 'a> {
    /// How many bytes it has: at most as many as the buffer.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has none: never, if the sender is as it should be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The whole buffer in place. A sender that is as it should be does not change it before it is
    /// released.
    #[must_use]
    pub fn words(&self) -> &'a [AtomicU64] {
        self.receiver.ways.own.long_words(DATA, self.receiver.capacity() / 8)
    }

    /// Copies bytes of the message out.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("message", offset as u64, to.len() as u64, self.bytes.len() as u64)?;
        self.receiver.ways.own.read(DATA + offset, to);
        Ok(())
    }

    /// Gives the buffer back to the sender.
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
    fn a_message_is_there_until_it_is_released_and_the_sender_waits_for_that() {
        let pair = Pair::hasty(4096);
        let (mut sender, mut receiver) = ends(&pair);
        assert!(receiver.wait().is_err_and(|error| error.is_timed_out()), "there is none");
        for round in 0..3 {
            send(&mut sender, &[round; 9]).unwrap();
            assert!(sender.wait().is_err_and(|error| error.is_timed_out()), "the buffer is full");
            for _ in 0..2 {
                let message = receiver.wait().unwrap();
                let mut bytes = [9; 9];
                message.read(0, &mut bytes).unwrap();
                assert_eq!((message.len(), bytes), (9, [round; 9]));
                assert!(message.read(1, &mut bytes).is_err());
            }
            receiver.wait().unwrap().release();
            assert!(receiver.wait().is_err());
        }
    }

    #[test]
    fn a_sender_that_is_early_loses_nothing() {
        let pair = Pair::hasty(4096);
        let mut sender = Sender::over(pair.end(0)).unwrap();
        send(&mut sender, b"early").unwrap();
        let mut receiver = Receiver::over(pair.end(1)).unwrap();
        assert_eq!(receiver.receive(&mut [0; 9]).unwrap(), 5);
    }

    #[test]
    fn messages_of_each_length_are_copied_while_the_next_is_made() {
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
                assert_eq!(receiver.receive(&mut bytes).unwrap(), length);
                assert!(bytes[..length].iter().all(|byte| *byte == length as u8));
                assert!(bytes[length..].iter().all(|byte| *byte == 0));
            }
        });
    }

    #[test]
    fn what_does_not_fit_is_refused_and_stays() {
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
            receiver.receive(&mut [0; 99]).unwrap_err().to_string(),
            "100 bytes at offset 0 reach past the end of the buffer for a message (limit 99)"
        );
        assert_eq!(receiver.receive(&mut [0; 100]).unwrap(), 100);
    }

    #[test]
    fn nonsense_in_the_flag_is_told_at_either_end() {
        let pair = Pair::hasty(4096);
        let (mut sender, mut receiver) = ends(&pair);
        for nonsense in [4033, FREE - 1, u32::MAX] {
            pair.memory[0].store_u32(0, nonsense);
            pair.memory[1].store_u32(0, nonsense);
            let told = format!("nbytes {nonsense} is out of range (limit 4032)");
            assert_eq!(sender.wait().err().unwrap().to_string(), told);
            assert_eq!(receiver.wait().err().unwrap().to_string(), told);
            assert!(receiver.receive(&mut [0; 5000]).is_err());
        }
        // It goes on when that is over.
        pair.memory[0].store_u32(0, FREE);
        pair.memory[1].store_u32(0, FREE);
        send(&mut sender, b"again").unwrap();
        assert_eq!(receiver.receive(&mut [0; 5]).unwrap(), 5);
    }

    /// Woken again and again, and there is nothing: by a sender that stores a length and takes it
    /// back at once.
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
    fn who_is_woken_for_nothing_waits_no_longer() {
        let (pair, idle) = (Pair::hasty(4096), Restless::default());
        let ways = |end| Ways { idle: &idle, ..pair.end(end) };
        let (mut sender, mut receiver) = (Sender::over(ways(0)).unwrap(), Receiver::over(ways(1)).unwrap());
        assert!(receiver.wait().err().unwrap().is_timed_out());
        pair.memory[0].store_u32(0, 9);
        assert!(sender.wait().err().unwrap().is_timed_out());
    }

    #[test]
    fn memory_without_room_for_the_flag_is_refused() {
        let pair = Pair::hasty(4096);
        let small = |ways: Ways<'_>| Ways { own_length: 63, ..ways }.have(DATA, DATA).is_err();
        assert!(small(pair.end(0)));
        assert!(Sender::over(Ways { out_length: 63, ..pair.end(0) }).is_err());
        assert!(Receiver::over(Ways { own_length: 63, ..pair.end(0) }).is_err());
    }
}
