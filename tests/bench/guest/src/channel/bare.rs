//! An end that uses the channel's ring alone, in the memory of QEMU's ivshmem-plain, without
//! protection and without wake-ups.

use std::sync::atomic::AtomicU8;
use std::time::{Duration, Instant};

use hamlyn::bare::{BareReceiver, BareSender};
use serde_json::json;

use crate::channel::end::{End, LOOKS, Way};
use crate::engine::ivshmem;
use crate::engine::lap_words::PAGE;
use crate::engine::result::{Outcome, say};
use crate::engine::wait::PATIENCE;

pub(crate) struct Bare {
    sender: BareSender,
    receiver: BareReceiver,
}

/// Maps the memory of the two rings. The first one leads to the listening end.
fn rings(way: &Way) -> Outcome<[hamlyn_sys::Mapping; 2]> {
    let length = (way.capacity as usize).next_multiple_of(PAGE) + PAGE;
    Ok([ivshmem::map(0, length)?, ivshmem::map(length, length)?])
}

pub(crate) fn listen(way: &Way) -> Outcome<Bare> {
    let [to, from] = rings(way)?;
    // A ring's memory starts as zeros, like a driver's area.
    for ring in [&to, &from] {
        ring.write(0, &[0; PAGE]);
    }
    say(&json!({ "ready": true }))?;
    Ok(Bare { sender: BareSender::over(from)?, receiver: BareReceiver::over(to)? })
}

pub(crate) fn connect(way: &Way) -> Outcome<Bare> {
    let [to, from] = rings(way)?;
    Ok(Bare { sender: BareSender::over(to)?, receiver: BareReceiver::over(from)? })
}

/// Polls until `look` finds something, and reads the clock now and then. With a nap, it leaves the
/// core to other threads between polls.
#[inline]
fn wait<T>(nap: Duration, mut look: impl FnMut() -> Outcome<Option<T>>) -> Outcome<T> {
    // If a message is there already, do not read the clock.
    if let Some(found) = look()? {
        return Ok(found);
    }
    let start = Instant::now();
    loop {
        let looks = if nap.is_zero() { LOOKS } else { 1 };
        for _ in 0..looks {
            if let Some(found) = look()? {
                return Ok(found);
            }
            std::hint::spin_loop();
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("nothing came within {PATIENCE:?}").into());
        }
        std::thread::sleep(nap);
    }
}

impl Bare {
    #[inline]
    fn next<T>(&mut self, nap: Duration, look: impl FnOnce(&[AtomicU8]) -> T) -> Outcome<T> {
        let mut look = Some(look);
        wait(nap, || {
            let found = self.receiver.try_recv(|message| look.take().map(|look| look(message)))?;
            Ok(found.flatten())
        })
    }
}

impl End for Bare {
    #[inline]
    fn build(&mut self, length: usize, build: impl FnOnce(&[AtomicU8])) -> Outcome {
        let mut build = Some(build);
        wait(Duration::ZERO, || {
            let sent = self.sender.try_send(length, |room| {
                if let Some(build) = build.take() {
                    build(room);
                }
            })?;
            Ok(sent.then_some(()))
        })
    }

    #[inline]
    fn look<T>(&mut self, look: impl FnOnce(&[AtomicU8]) -> T) -> Outcome<T> {
        self.next(Duration::ZERO, look)
    }

    fn first<T>(&mut self, look: impl FnOnce(&[AtomicU8]) -> T) -> Outcome<T> {
        self.next(Duration::from_millis(1), look)
    }
}
