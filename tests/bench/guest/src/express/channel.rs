//! An end that uses a channel of the library.

use std::sync::atomic::AtomicU8;
use std::time::{Duration, Instant};

use hamlyn::express::{Channel, ChannelListener, ChannelOptions};
use hamlyn::{Card, Manager, Polling};
use serde_json::json;

use crate::engine::result::{Outcome, say};
use crate::engine::wait::{PATIENCE, Wait};
use crate::express::ends::{End, Way};

/// Name of the channel, and the host that listens on it.
const NAME: &str = "hamlyn-bench-express";
const FAR: u32 = 1;
/// Maximum pending notifications, which come from rings alone.
const ENTRIES: u32 = 64;

pub(crate) struct ByChannel {
    channel: Channel,
    polling: Polling,
}

/// Returns how long a receiver in this wait mode polls.
fn polling(wait: Wait) -> Polling {
    match wait {
        Wait::Poll => Polling::MOST,
        Wait::Sleep => Polling::NEVER,
        Wait::Yield | Wait::Spin => Polling::default(),
    }
}

pub(crate) fn manager(polling: Polling) -> Outcome<Manager> {
    Ok(Manager::create_with(&Card::open_default()?, ENTRIES, polling)?)
}

fn options(way: &Way) -> ChannelOptions {
    let mut options = ChannelOptions::default();
    options.capacity = way.capacity;
    options
}

pub(crate) fn listen(way: &Way) -> Outcome<ByChannel> {
    let listener = ChannelListener::bind(&manager(rest(way))?, NAME, options(way))?;
    say(&json!({ "ready": true }))?;
    ByChannel::over(listener.accept(Some(PATIENCE))?, way)
}

pub(crate) fn connect(way: &Way) -> Outcome<ByChannel> {
    ByChannel::over(Channel::connect(&manager(rest(way))?, FAR, NAME, options(way), Some(PATIENCE))?, way)
}

/// Returns how long a manager polls before it sleeps. A polling end must never wait in the
/// manager.
fn rest(way: &Way) -> Polling {
    match way.wait {
        Wait::Sleep => Polling::NEVER,
        _ => Polling::default(),
    }
}

impl ByChannel {
    fn over(channel: Channel, way: &Way) -> Outcome<Self> {
        // The fallback to messages is not what is measured here.
        if !channel.is_express() {
            return Err("there is no express memory between the two hosts".into());
        }
        let mut end = Self { channel, polling: polling(way.wait) };
        end.set_polling(end.polling);
        Ok(end)
    }

    fn set_polling(&mut self, polling: Polling) {
        self.channel.sender.set_polling(polling);
        self.channel.receiver.set_polling(polling);
    }
}

impl End for ByChannel {
    #[inline]
    fn build(&mut self, length: usize, build: impl FnOnce(&[AtomicU8])) -> Outcome {
        let room = self.channel.sender.reserve(length, Some(PATIENCE))?;
        build(room.cells());
        Ok(room.commit()?)
    }

    #[inline]
    fn look<T>(&mut self, look: impl FnOnce(&[AtomicU8]) -> T) -> Outcome<T> {
        let message = self.channel.receiver.recv_block(Some(PATIENCE))?;
        Ok(look(message.ok_or("the other end has closed")?.cells()))
    }

    fn first<T>(&mut self, look: impl FnOnce(&[AtomicU8]) -> T) -> Outcome<T> {
        self.set_polling(Polling::NEVER);
        let seen = self.look(look)?;
        self.set_polling(self.polling);
        Ok(seen)
    }
}

/// Connects the two hosts' processes. Both call this at the same time, and each gets one end of a
/// channel.
pub(crate) fn meet() -> Outcome<Channel> {
    const NAME: &str = "hamlyn-bench-doze";
    let manager = manager(Polling::NEVER)?;
    if manager.card().info()?.host == Some(FAR) {
        let listener = ChannelListener::bind(&manager, NAME, ChannelOptions::default())?;
        return Ok(listener.accept(Some(PATIENCE))?);
    }
    let start = Instant::now();
    loop {
        match Channel::connect(&manager, FAR, NAME, ChannelOptions::default(), Some(PATIENCE)) {
            // The other process may not have started yet.
            Err(_) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            connected => return Ok(connected?),
        }
    }
}
