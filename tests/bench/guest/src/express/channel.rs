//! An end by a channel of the library.

use std::sync::atomic::AtomicU8;
use std::time::{Duration, Instant};

use hamlyn::express::{Channel, ChannelListener, ChannelOptions};
use hamlyn::{Card, Manager, Polling};
use serde_json::json;

use crate::engine::result::{Outcome, say};
use crate::engine::wait::{PATIENCE, Wait};
use crate::express::ends::{End, LOOKS, Way};

/// The name to meet under, and the host of who has it.
const NAME: &str = "hamlyn-bench-express";
const FAR: u32 = 1;
/// Notifications that wait: of rings alone.
const ENTRIES: u32 = 64;

pub(crate) struct ByChannel {
    channel: Channel,
    polling: Polling,
}

/// How often one looks who waits like that.
fn polling(wait: Wait) -> Polling {
    match wait {
        Wait::Poll => Polling { spins: LOOKS },
        Wait::Sleep => Polling { spins: 0 },
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

/// How often a manager looks before it sleeps: whoever polls is not to come to that.
fn rest(way: &Way) -> Polling {
    match way.wait {
        Wait::Sleep => Polling { spins: 0 },
        _ => Polling::default(),
    }
}

impl ByChannel {
    fn over(channel: Channel, way: &Way) -> Outcome<Self> {
        // What goes by messages instead is not what is measured here.
        if !channel.is_express() {
            return Err("there is no express memory between the two hosts".into());
        }
        let mut end = Self { channel, polling: polling(way.wait) };
        end.look_often(end.polling);
        Ok(end)
    }

    fn look_often(&mut self, polling: Polling) {
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
        self.look_often(Polling { spins: 0 });
        let seen = self.look(look)?;
        self.look_often(self.polling);
        Ok(seen)
    }
}

/// Both hosts' processes come to this together, and each has one end of a channel.
pub(crate) fn meet() -> Outcome<Channel> {
    const NAME: &str = "hamlyn-bench-doze";
    let manager = manager(Polling { spins: 0 })?;
    if manager.card().info()?.host == Some(FAR) {
        let listener = ChannelListener::bind(&manager, NAME, ChannelOptions::default())?;
        return Ok(listener.accept(Some(PATIENCE))?);
    }
    let start = Instant::now();
    loop {
        match Channel::connect(&manager, FAR, NAME, ChannelOptions::default(), Some(PATIENCE)) {
            // The other may be about to start.
            Err(_) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            connected => return Ok(connected?),
        }
    }
}
