//! Manual control of express memory (`docs/express.md`): reads one command per line and answers
//! each with a JSON object. Pages and channels are identified by numbers.
//!
//! | line | answer |
//! |---|---|
//! | `make HOST BYTES` | an area for a host: its `pages`, and the `area` and `key` by which a process there maps it |
//! | `map HOST AREA KEY` | `pages`, and the number of `bytes` |
//! | `fill PAGES WORD` | `filled`: all words with this one |
//! | `count PAGES WORD` | the number of `words` equal to this one, `of` how many |
//! | `add PAGES WORD`, `add PAGES WORD AT` | adds atomically to the first word or to word AT; what it `was` |
//! | `tally PAGES COUNT` | `tallied`: adds 1 atomically to the first word, COUNT times |
//! | `give PAGES` | `given` back |
//! | `memory HOST` | the state of the express memory with a host |
//! | `listen NAME` | `listening` |
//! | `accept`, `connect HOST NAME` | a `channel`, and whether it uses `express` memory |
//! | `send CHANNEL BYTES` | `sent`: a message of the channel's next bytes |
//! | `flood CHANNEL` | `flooding`, then sends messages until it is killed |
//! | `begin CHANNEL BYTES` | `begun`: a message built in place at the receiver, and not sent |
//! | `receive CHANNEL` | the next message: its `bytes`, and whether they are `right`; `closed`; or `lost`, and why |
//! | `drain CHANNEL` | all messages up to the end: the number of `messages`, whether all were `right`, and the end |
//! | `close CHANNEL`, `drop CHANNEL` | `closed`, `dropped` |
//! | `talk CHANNEL COUNT WORD` | `talked`: COUNT messages of that word were sent, and each came back unchanged |
//! | `echo CHANNEL COUNT` | `echoed`: COUNT messages were sent back |
//! | `forge HOST NAME` | connects like a channel and maps the other end's receive memory as `pages`, to store anything there |
//! | `blamed` | how the connection of `forge` has `ended`, and the text that the other end `said` |
//! | `churn HOST NAME COUNT` | `made`: COUNT channels, one after the other, with one message in each direction |
//! | `serve COUNT` | `served`: the other end of `churn` |

use std::any::Any;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Parser;
use common::{CardOption, Outcome, print};
use hamlyn::channel::{self, Channel, End, Listener};
use hamlyn::express::Pages;
use hamlyn::{Card, Connection, Error, Polling};
use hamlyn_examples as common;
use serde_json::{Value, json};

/// Timeout of every operation.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a message of `flood`, `talk` and `churn`.
const MESSAGE: usize = 1000;

/// Makes and maps pages, opens channels, sends and receives, as told on standard input
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: CardOption,
    /// Bytes of the ring in each direction of a channel
    #[arg(long)]
    capacity: Option<u64>,
    /// Microseconds to poll before this side goes to sleep
    #[arg(long)]
    poll: Option<u64>,
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let mut channel = channel::Options::default();
        channel.capacity = options.capacity.unwrap_or(channel.capacity);
        let card = options.card.open()?;
        let mut desk = Desk {
            channels_card: card.clone().into(),
            card,
            channel,
            poll: options.poll,
            listener: None,
            forged: None,
            pages: BTreeMap::new(),
            channels: BTreeMap::new(),
            made: 0,
        };
        for line in std::io::stdin().lock().lines() {
            let answer = desk.obey(&line?).unwrap_or_else(|error| json!({ "error": error.to_string() }));
            print(&answer)?;
        }
        Ok(())
    })
}

struct Desk {
    card: Card,
    /// The same card, for channels.
    channels_card: channel::Card,
    channel: channel::Options,
    poll: Option<u64>,
    listener: Option<Listener>,
    forged: Option<(End, Connection)>,
    /// Pages, and the area or view that they belong to.
    pages: BTreeMap<u64, (Pages, Box<dyn Any>)>,
    channels: BTreeMap<u64, Talk>,
    made: u64,
}

/// A channel, and the number of messages sent and received.
struct Talk {
    channel: Channel,
    sent: u64,
    received: u64,
}

impl Desk {
    fn obey(&mut self, line: &str) -> Outcome<Value> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["make", host, bytes] => {
                let area = self.card.create_express_area(host.parse()?, bytes.parse()?)?;
                let (number, key) = (area.number(), area.key());
                Ok(json!({ "pages": self.keep(area.clone(), area), "area": number, "key": key }))
            }
            ["map", host, area, key] => {
                let (host, area, key) = (host.parse()?, area.parse()?, key.parse()?);
                let view = self.card.map_express_area(host, area, key)?;
                let bytes = view.len();
                Ok(json!({ "pages": self.keep(view.clone(), view), "bytes": bytes }))
            }
            ["fill", pages, word] => {
                let (pages, word) = (self.pages(pages)?, word.parse()?);
                let words = pages.words(0, pages.len() / 8)?;
                words.iter().for_each(|at| at.store(word, Ordering::Relaxed));
                Ok(json!({ "filled": pages.len() }))
            }
            ["count", pages, word] => {
                let (pages, word) = (self.pages(pages)?, word.parse::<u64>()?);
                let words = pages.words(0, pages.len() / 8)?;
                let count = words.iter().filter(|at| at.load(Ordering::Relaxed) == word).count();
                Ok(json!({ "words": count, "of": words.len() }))
            }
            ["add", pages, word] => self.add(pages, word.parse()?, 0),
            ["add", pages, word, at] => self.add(pages, word.parse()?, at.parse()?),
            ["tally", pages, count] => {
                let (count, word) = (count.parse::<u64>()?, &self.pages(pages)?.words(0, 1)?[0]);
                for _ in 0..count {
                    word.fetch_add(1, Ordering::AcqRel);
                }
                Ok(json!({ "tallied": count }))
            }
            ["give", pages] => {
                self.pages.remove(&pages.parse()?).ok_or("there are no such pages")?;
                Ok(json!({ "given": true }))
            }
            ["memory", host] => {
                let found = self.card.express(host.parse()?)?;
                Ok(json!({
                    "part": found.part, "pages": found.pages, "used": found.used, "leaving": found.leaving,
                    "viewed": found.viewed, "held": found.held, "limit": found.limit,
                }))
            }
            ["forge", host, name] => {
                let host = host.parse()?;
                let end = End::create(&self.channels_card, host, self.channel)?;
                let connection =
                    self.card.begin_connect(host, name, &end.offer()?)?.finish_timeout(PATIENCE)?;
                // The area's number and key, at these offsets of the other end's private data.
                let told = connection.private();
                let (area, key) =
                    (told.get(20..24).ok_or("too short")?, told.get(24..32).ok_or("too short")?);
                let (area, key) = (u32::from_le_bytes(area.try_into()?), u64::from_le_bytes(key.try_into()?));
                let view = self.card.map_express_area(host, area, key)?;
                self.forged = Some((end, connection));
                Ok(json!({ "pages": self.keep(view.clone(), view) }))
            }
            ["blamed"] => {
                let (_end, connection) = self.forged.take().ok_or("nothing was forged")?;
                let end = connection.wait_end_timeout(PATIENCE)?;
                Ok(
                    json!({ "ended": format!("{:?}", end.reason), "said": String::from_utf8_lossy(&end.private) }),
                )
            }
            ["listen", name] => {
                self.listener = Some(Listener::bind(&self.channels_card, name, self.channel)?);
                Ok(json!({ "listening": name }))
            }
            ["accept"] => {
                let channel = self.listener()?.accept_timeout(PATIENCE)?;
                Ok(self.met(channel))
            }
            ["connect", host, name] => {
                let channel = self.connect(host.parse()?, name)?;
                Ok(self.met(channel))
            }
            ["close", channel] => {
                let Channel { sender, mut receiver } = self.take(channel)?.channel;
                sender.close_timeout(PATIENCE)?;
                while receiver.recv_timeout(PATIENCE)?.is_some() {}
                Ok(json!({ "closed": true }))
            }
            ["drop", channel] => {
                self.take(channel)?;
                Ok(json!({ "dropped": true }))
            }
            ["send", channel, bytes] => self.talk(channel)?.send(bytes.parse()?),
            ["flood", channel] => self.talk(channel)?.flood(),
            ["begin", channel, bytes] => self.talk(channel)?.begin(bytes.parse()?),
            ["receive", channel] => Ok(self.talk(channel)?.receive()),
            ["drain", channel] => Ok(self.talk(channel)?.drain()),
            ["talk", channel, count, word] => self.talk(channel)?.talk(count.parse()?, word.parse()?),
            ["echo", channel, count] => self.talk(channel)?.echo(count.parse()?),
            ["churn", host, name, count] => self.churn(host.parse()?, name, count.parse()?),
            ["serve", count] => self.serve(count.parse()?),
            _ => Err(format!("what is {line:?}?").into()),
        }
    }

    fn add(&self, pages: &str, word: u64, at: u32) -> Outcome<Value> {
        let was = self.pages(pages)?.words(8 * at as usize, 1)?[0].fetch_add(word, Ordering::AcqRel);
        Ok(json!({ "was": was }))
    }

    fn connect(&self, host: u32, name: &str) -> hamlyn::Result<Channel> {
        Channel::connect_timeout(&self.channels_card, host, name, self.channel, PATIENCE)
    }

    fn churn(&self, host: u32, name: &str, count: u64) -> Outcome<Value> {
        for index in 0..count {
            let Channel { mut sender, mut receiver } = self.connect(host, name)?;
            sender.send_timeout(&bytes_of(index, MESSAGE), PATIENCE)?;
            let back = receiver.recv_timeout(PATIENCE)?.ok_or("it has closed")?.to_vec()?;
            if back != bytes_of(index, MESSAGE) {
                return Err(format!("other bytes came back by channel {index}").into());
            }
            sender.close_timeout(PATIENCE)?;
            if receiver.recv_timeout(PATIENCE)?.is_some() {
                return Err("more came back than was sent".into());
            }
        }
        Ok(json!({ "made": count }))
    }

    fn serve(&self, count: u64) -> Outcome<Value> {
        for _ in 0..count {
            let Channel { mut sender, mut receiver } = self.listener()?.accept_timeout(PATIENCE)?;
            while let Some(message) = receiver.recv_timeout(PATIENCE)? {
                let bytes = message.to_vec()?;
                drop(message);
                sender.send_timeout(&bytes, PATIENCE)?;
            }
            sender.close_timeout(PATIENCE)?;
        }
        Ok(json!({ "served": count }))
    }

    fn keep(&mut self, pages: Pages, of: impl Any) -> u64 {
        self.made += 1;
        self.pages.insert(self.made, (pages, Box::new(of)));
        self.made
    }

    fn met(&mut self, mut channel: Channel) -> Value {
        if let Some(poll) = self.poll {
            let polling = Polling::up_to(Duration::from_micros(poll));
            channel.sender.set_polling(polling);
            channel.receiver.set_polling(polling);
        }
        self.made += 1;
        let answer = json!({ "channel": self.made, "express": channel.is_express() });
        self.channels.insert(self.made, Talk { channel, sent: 0, received: 0 });
        answer
    }

    fn listener(&self) -> Outcome<&Listener> {
        Ok(self.listener.as_ref().ok_or("nothing is listened to")?)
    }

    fn pages(&self, number: &str) -> Outcome<&Pages> {
        let found = self.pages.get(&number.parse()?);
        Ok(found.map(|(pages, _)| pages).ok_or_else(|| format!("there are no pages {number}"))?)
    }

    fn talk(&mut self, number: &str) -> Outcome<&mut Talk> {
        let found = self.channels.get_mut(&number.parse()?);
        Ok(found.ok_or_else(|| format!("there is no channel {number}"))?)
    }

    fn take(&mut self, number: &str) -> Outcome<Talk> {
        let found = self.channels.remove(&number.parse()?);
        Ok(found.ok_or_else(|| format!("there is no channel {number}"))?)
    }
}

impl Talk {
    fn send(&mut self, bytes: usize) -> Outcome<Value> {
        self.channel.sender.send_timeout(&bytes_of(self.sent, bytes), PATIENCE)?;
        self.sent += 1;
        Ok(json!({ "sent": bytes }))
    }

    fn flood(&mut self) -> Outcome<Value> {
        print(&json!({ "flooding": true }))?;
        loop {
            self.send(MESSAGE)?;
        }
    }

    fn begin(&mut self, bytes: usize) -> Outcome<Value> {
        let mut message = self.channel.sender.reserve_timeout(bytes, PATIENCE)?;
        message.write(0, &bytes_of(self.sent, bytes))?;
        Ok(json!({ "begun": bytes }))
    }

    /// Returns the next message's length, and whether its bytes are right; `None` if the peer has
    /// closed.
    fn next(&mut self) -> hamlyn::Result<Option<(usize, bool)>> {
        let Some(message) = self.channel.receiver.recv_timeout(PATIENCE)? else { return Ok(None) };
        let bytes = message.to_vec()?;
        let right = bytes == bytes_of(self.received, bytes.len());
        self.received += 1;
        Ok(Some((bytes.len(), right)))
    }

    fn receive(&mut self) -> Value {
        match self.next() {
            Ok(Some((bytes, right))) => json!({ "bytes": bytes, "right": right }),
            Ok(None) => json!({ "closed": true }),
            Err(error) => lost(&error),
        }
    }

    fn drain(&mut self) -> Value {
        let (mut messages, mut all_right) = (0_u64, true);
        let mut end = loop {
            match self.next() {
                Ok(Some((_, right))) => all_right &= right,
                Ok(None) => break json!({ "closed": true }),
                Err(error) => break lost(&error),
            }
            messages += 1;
        };
        end["messages"] = messages.into();
        end["right"] = all_right.into();
        end
    }

    fn talk(&mut self, count: u64, word: u64) -> Outcome<Value> {
        let sent = word.to_le_bytes().repeat(MESSAGE / 8);
        for round in 0..count {
            self.channel.sender.send_timeout(&sent, PATIENCE)?;
            let back = self.channel.receiver.recv_timeout(PATIENCE)?.ok_or("it has closed")?;
            if back.to_vec()? != sent {
                return Err(format!("message {round} comes back with other bytes").into());
            }
        }
        Ok(json!({ "talked": count }))
    }

    fn echo(&mut self, count: u64) -> Outcome<Value> {
        for _ in 0..count {
            let message = self.channel.receiver.recv_timeout(PATIENCE)?.ok_or("it has closed")?;
            let bytes = message.to_vec()?;
            drop(message);
            self.channel.sender.send_timeout(&bytes, PATIENCE)?;
        }
        Ok(json!({ "echoed": count }))
    }
}

/// Returns the bytes of a channel's message with this number.
fn bytes_of(message: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    common::fill_pattern(message, 0, &mut bytes);
    bytes
}

fn lost(error: &Error) -> Value {
    match error {
        Error::PeerLost(why) => json!({ "lost": format!("{why:?}") }),
        error => json!({ "error": error.to_string() }),
    }
}
