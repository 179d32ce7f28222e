//! Manual control of connections (sections 6.3 and 6.4): reads one command per line and answers
//! each with a JSON object.
//!
//! | line | answer |
//! |---|---|
//! | `listen NAME [BACKLOG]` | `listening` |
//! | `unlisten NAME` | `unlistened` |
//! | `accept NAME [TEXT]` | the next request's `host` and `private` text, and the `connection` that it has become |
//! | `reject NAME [TEXT]` | the next request's `host` and `private` text |
//! | `connect HOST NAME [TEXT]` | the `connection` and the peer's text, or the `refused` reason and that text |
//! | `find NAME` | the `hosts` that have the name, those `too_old` to answer, and the number that are `silent` for 8 s |
//! | `any NAME [TEXT]` | connects to any host that has the name: `host`, and the fields of `connect` |
//! | `ask HOST NAME` | `asked`: sends the request without waiting for the answer |
//! | `forget` | `forgotten`: abandons the request of `ask` |
//! | `user CONNECTION` | the peer's `user` |
//! | `close CONNECTION [TEXT]` | `closed` |
//! | `drop CONNECTION` | `dropped` |
//! | `end CONNECTION` | waits for its end; the `reason`, and the peer's text |
//! | `look CONNECTION` | the same without waiting, or null if it has not ended |
//! | `serve NAME COUNT` | accepts COUNT requests that pass a ticket and waits for each end: the numbers `served` and `closed` gracefully |
//! | `forge HOST` | `forged`: a message to that host's operating system, which only an operating system may send |
//! | `churn HOST NAME COUNT` | opens a slot, connects, passes its ticket and closes both, COUNT times: the number `made` |

use std::collections::BTreeMap;
use std::io::BufRead;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use common::{CardOption, Outcome, print};
use hamlyn::{Card, Connecting, Connection, End, EndReason, Error, Listener, Message, Ticket, TicketFlags};
use hamlyn_abi::kernel::well_known::{ULN_WELL_KNOWN_KEY, ULN_WELL_KNOWN_PLACE_SIZE};
use hamlyn_examples as common;
use serde_json::{Value, json};

/// Timeout of every operation.
const PATIENCE: Duration = Duration::from_secs(60);

/// Listens, connects, accepts, rejects and closes, as told on standard input
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: CardOption,
}

fn main() -> ExitCode {
    common::run(|| {
        let mut desk = Desk {
            card: Options::parse().card.open()?,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            asked: Vec::new(),
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
    listeners: BTreeMap<String, Listener>,
    connections: BTreeMap<u64, Connection>,
    asked: Vec<Connecting>,
    made: u64,
}

impl Desk {
    fn obey(&mut self, line: &str) -> Outcome<Value> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["listen", name] => self.listen(name, 64),
            ["listen", name, backlog] => self.listen(name, backlog.parse()?),
            ["unlisten", name] => {
                self.listeners.remove(name);
                Ok(json!({ "unlistened": name }))
            }
            ["accept", name, ref text @ ..] => {
                let request = self.listener(name)?.request_timeout(PATIENCE)?;
                let (host, private) = (request.host(), text_of(request.private()));
                let number = self.keep(request.accept(text.join(" ").as_bytes())?);
                Ok(json!({ "connection": number, "host": host, "private": private }))
            }
            ["reject", name, ref text @ ..] => {
                let request = self.listener(name)?.request_timeout(PATIENCE)?;
                let answer = json!({ "host": request.host(), "private": text_of(request.private()) });
                request.reject(text.join(" ").as_bytes())?;
                Ok(answer)
            }
            ["connect", host, name, ref text @ ..] => {
                self.connect(host.parse()?, name, text.join(" ").as_bytes())
            }
            ["find", name] => {
                let found = self.card.find_timeout(name, PATIENCE)?;
                let silent = found.silent.len();
                Ok(json!({ "hosts": found.hosts, "too_old": found.too_old, "silent": silent }))
            }
            ["any", name, ref text @ ..] => {
                let (hosts, private) = (self.card.hosts()?, text.join(" "));
                let made = self.card.connect_any_timeout(hosts, name, private.as_bytes(), PATIENCE);
                let host = made.as_ref().ok().map(Connection::host);
                let mut answer = self.connected(made)?;
                answer["host"] = json!(host);
                Ok(answer)
            }
            ["ask", host, name] => {
                self.asked.push(self.card.begin_connect(host.parse()?, name, b"")?);
                Ok(json!({ "asked": name }))
            }
            ["forget"] => {
                self.asked.clear();
                Ok(json!({ "forgotten": true }))
            }
            ["user", number] => Ok(json!({ "user": self.connection(number)?.user() })),
            ["close", number, ref text @ ..] => {
                self.take(number)?.close(text.join(" ").as_bytes())?;
                Ok(json!({ "closed": number }))
            }
            ["drop", number] => {
                drop(self.take(number)?);
                Ok(json!({ "dropped": number }))
            }
            ["end", number] => Ok(ended(&self.connection(number)?.wait_end_timeout(PATIENCE)?)),
            ["look", number] => Ok(self.connection(number)?.end()?.map_or(Value::Null, |end| ended(&end))),
            ["serve", name, count] => self.serve(name, count.parse()?),
            ["forge", host] => self.forge(host.parse()?),
            ["churn", host, name, count] => self.churn(host.parse()?, name, count.parse()?),
            _ => Err(format!("what is {line:?}?").into()),
        }
    }

    fn listen(&mut self, name: &str, backlog: u32) -> Outcome<Value> {
        let listener = self.card.listen_backlog(name, backlog)?;
        self.listeners.insert(name.to_owned(), listener);
        Ok(json!({ "listening": name }))
    }

    fn connect(&mut self, host: u32, name: &str, private: &[u8]) -> Outcome<Value> {
        let made = self.card.connect(host, name, private);
        self.connected(made)
    }

    fn connected(&mut self, made: hamlyn::Result<Connection>) -> Outcome<Value> {
        match made {
            Ok(connection) => {
                let private = text_of(connection.private());
                Ok(json!({ "connection": self.keep(connection), "private": private }))
            }
            Err(Error::Ended(end)) => {
                Ok(json!({ "refused": end.reason.name(), "private": text_of(&end.private) }))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn serve(&mut self, name: &str, count: u64) -> Outcome<Value> {
        let listener = self.listener(name)?;
        let mut closed = 0;
        for _ in 0..count {
            let request = listener.request_timeout(PATIENCE)?;
            Ticket::from_bytes(request.private())?;
            let end = request.accept(b"")?.wait_end_timeout(PATIENCE)?;
            closed += u64::from(end.reason == EndReason::Closed);
        }
        Ok(json!({ "served": count, "closed": closed }))
    }

    fn churn(&mut self, host: u32, name: &str, count: u64) -> Outcome<Value> {
        for _ in 0..count {
            let area = self.card.create_area(4096)?;
            let slot = self.card.slot(&area).metadata_entries(1).create()?;
            self.card.connect(host, name, &slot.ticket(0)?.to_bytes())?.close(b"")?;
        }
        Ok(json!({ "made": count }))
    }

    /// Well-known slots and keys are public, but processes may not use them.
    fn forge(&mut self, host: u32) -> Outcome<Value> {
        let slot = self.card.info()?.host.ok_or("the link is down")?;
        let ticket = Ticket {
            destination: host,
            slot,
            metadata_index: 0,
            key: ULN_WELL_KNOWN_KEY,
            base: 0,
            length: ULN_WELL_KNOWN_PLACE_SIZE,
            flags: TicketFlags::default(),
        };
        let terminus = self.card.create_terminus()?;
        terminus.send(&Message::to(&ticket), b"listen to me")?.wait_timeout(PATIENCE)?;
        Ok(json!({ "forged": host }))
    }

    fn keep(&mut self, connection: Connection) -> u64 {
        self.made += 1;
        self.connections.insert(self.made, connection);
        self.made
    }

    fn listener(&self, name: &str) -> Outcome<&Listener> {
        Ok(self.listeners.get(name).ok_or_else(|| format!("{name:?} is not listened to"))?)
    }

    fn connection(&self, number: &str) -> Outcome<&Connection> {
        let found = self.connections.get(&number.parse()?);
        Ok(found.ok_or_else(|| format!("there is no connection {number}"))?)
    }

    fn take(&mut self, number: &str) -> Outcome<Connection> {
        let found = self.connections.remove(&number.parse()?);
        Ok(found.ok_or_else(|| format!("there is no connection {number}"))?)
    }
}

fn ended(end: &End) -> Value {
    json!({ "reason": end.reason.name(), "private": text_of(&end.private) })
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
