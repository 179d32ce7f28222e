//! The loop of a server. It takes events until there are none, and polls the queue for 15 us more.
//! Then it sleeps, in `poll(2)`, in `mio` by `epoll(7)`, or as a task of `tokio`. Each of these can
//! wait for the event queue's file among others.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::ValueEnum;
use hamlyn::clan::EventQueue;
use hamlyn::clan::asynchronous::Events;
use mio::unix::SourceFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::common::{Outcome, input_ended};
use crate::server::Serving;

/// Interval at which a sleeping loop checks whether standard input has ended.
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sleep {
    Poll,
    Mio,
    Tokio,
}

/// Serves until all clients are done, or standard input ends.
pub(crate) fn run(serving: &mut Serving, events: EventQueue, polling: Duration, sleep: Sleep) -> Outcome {
    match sleep {
        Sleep::Poll => in_poll(serving, events, polling),
        Sleep::Mio => in_mio(serving, events, polling),
        Sleep::Tokio => {
            Builder::new_current_thread().enable_all().build()?.block_on(in_tokio(serving, events, polling))
        }
    }
}

/// Dispatches all pending events.
fn take(serving: &mut Serving, events: &mut EventQueue, polling: Duration) -> Outcome {
    while let Some(event) = events.poll(polling) {
        serving.happened(events, event)?;
    }
    serving.sleeps += 1;
    Ok(())
}

fn in_poll(serving: &mut Serving, mut events: EventQueue, polling: Duration) -> Outcome {
    let (ended, limit) = (input_ended(), Timespec::try_from(TICK)?);
    while !serving.is_done() && !ended.load(Ordering::Acquire) {
        take(serving, &mut events, polling)?;
        match poll(&mut [PollFd::new(&events.as_fd(), PollFlags::IN)], Some(&limit)) {
            Err(error) if error != rustix::io::Errno::INTR => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn in_mio(serving: &mut Serving, mut events: EventQueue, polling: Duration) -> Outcome {
    let (mut mio, mut ready) = (mio::Poll::new()?, mio::Events::with_capacity(8));
    let file = events.as_raw_fd();
    mio.registry().register(&mut SourceFd(&file), mio::Token(0), mio::Interest::READABLE)?;
    let ended = input_ended();
    while !serving.is_done() && !ended.load(Ordering::Acquire) {
        take(serving, &mut events, polling)?;
        // `mio` reports edges only, so the queue is checked again.
        if events.arm()? {
            continue;
        }
        match mio.poll(&mut ready, Some(TICK)) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

async fn in_tokio(serving: &mut Serving, events: EventQueue, polling: Duration) -> Outcome {
    let (mut events, ended) = (Events::new(events)?, input_ended());
    while !serving.is_done() && !ended.load(Ordering::Acquire) {
        take(serving, events.queue(), polling)?;
        // Other tasks run meanwhile. Cancelling the wait loses no event.
        if let Ok(event) = timeout(TICK, events.recv()).await {
            serving.happened(events.queue(), event?)?;
        }
    }
    Ok(())
}
