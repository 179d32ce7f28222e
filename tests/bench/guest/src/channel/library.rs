//! An end that uses a channel of the library.

use std::sync::atomic::AtomicU8;
use std::time::{Duration, Instant};

use hamlyn::Polling;
use hamlyn::channel::{Card, Channel, Listener, Options};
use serde_json::json;

use crate::channel::end::{End, Through, Way};
use crate::engine::result::{Outcome, say};
use crate::engine::wait::{PATIENCE, Wait};

/// Name of the channel, and the host that listens on it.
const NAME: &str = "hamlyn-bench-channel";
const FAR: u32 = 1;

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

fn options(way: &Way) -> Options {
    let mut options = Options::default();
    options.capacity = way.capacity;
    options.by_card = way.through == Through::Card;
    options
}

pub(crate) fn listen(way: &Way) -> Outcome<ByChannel> {
    let listener = Listener::bind(&Card::open_any()?, NAME, options(way))?;
    say(&json!({ "ready": true }))?;
    ByChannel::over(listener.accept_timeout(PATIENCE)?, way)
}

pub(crate) fn connect(way: &Way) -> Outcome<ByChannel> {
    let channel = Channel::connect_timeout(&Card::open_any()?, FAR, NAME, options(way), PATIENCE)?;
    ByChannel::over(channel, way)
}

impl ByChannel {
    fn over(channel: Channel, way: &Way) -> Outcome<Self> {
        // The fallback to the card is not what is measured then.
        if way.through == Through::Express && !channel.is_express() {
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
        let room = self.channel.sender.reserve_timeout(length, PATIENCE)?;
        build(room.cells());
        Ok(room.commit()?)
    }

    #[inline]
    fn look<T>(&mut self, look: impl FnOnce(&[AtomicU8]) -> T) -> Outcome<T> {
        let message = self.channel.receiver.recv_timeout(PATIENCE)?;
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
    let (card, options) = (Card::open_any()?, Options::default());
    if card.host()? == Some(FAR) {
        return Ok(Listener::bind(&card, NAME, options)?.accept_timeout(PATIENCE)?);
    }
    let start = Instant::now();
    loop {
        match Channel::connect_timeout(&card, FAR, NAME, options, PATIENCE) {
            // The other process may not have started yet.
            Err(_) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            connected => return Ok(connected?),
        }
    }
}
