//! Manual control: reads one command per line and answers each with a JSON object.
//!
//! | line | answer |
//! |---|---|
//! | `info` | `host` |
//! | `aperture LENGTH RIGHTS` | the `aperture`'s number here, and its `descriptor`; rights are `read`, `write`, `both` or `none` |
//! | `close-aperture APERTURE` | `closed` |
//! | `join GROUP KEY LENGTH` | an `aperture` that is a member of a group |
//! | `endpoint PORT` | the `endpoint`'s number here, and its `address` |
//! | `endpoint-of-driver PORT` | the same, for an endpoint whose DMA requests the driver carries out |
//! | `close-endpoint ENDPOINT` | `closed` |
//! | `window ENDPOINT DESCRIPTOR` | the `window`'s number here |
//! | `store WINDOW OFFSET VALUE` | `stored`: 8 bytes |
//! | `fetch WINDOW OFFSET` | the `value` of 8 bytes in the other host's memory |
//! | `own APERTURE OFFSET` | the `value` of 8 bytes in this process' memory |
//! | `fill APERTURE SEED` | `filled` with a pattern |
//! | `check APERTURE SEED` | whether the pattern `arrived` |
//! | `put ENDPOINT APERTURE DESCRIPTOR COUNT` | `done`: COUNT DMA writes of the whole aperture to the other one |
//! | `get ENDPOINT APERTURE DESCRIPTOR COUNT` | the same, reading from the other one |
//! | `storm ENDPOINT WINDOW APERTURE` | `storming`: stores, loads and DMA both ways; no further commands are read |
//! | `watch ENDPOINT APERTURE FROM TO HOW...` | the `tripwire`'s number; it watches writes, or `reads` or `all`, and may be `once` and `interrupting` |
//! | `watch-remote ENDPOINT DESCRIPTOR FROM TO HOW...` | the same, for this process' accesses to remote memory |
//! | `tripped TRIPWIRE` | waits until it fires; how often it has `fired` |
//! | `count TRIPWIRE` | the `count` of firings so far |
//! | `enable TRIPWIRE` | `enabled` |
//! | `fault ENDPOINT` | the current or next `fault` |
//! | `send ENDPOINT ADDRESS TEXT` | `sent` |
//! | `send-many ENDPOINT ADDRESS` | the number `sent` before one was `refused`, and why |
//! | `message ENDPOINT` | the next message: `from`, `kind`, `text` |
//! | `connect ENDPOINT ADDRESS [DESCRIPTOR or WORD]` | the `connection`'s number here |
//! | `accept ENDPOINT OTHER` | the same, for the first request at ENDPOINT; the connection uses OTHER |
//! | `end CONNECTION` | waits for its end; how it `ended` |
//! | `events ENDPOINT` | `registered`: all its events except those of Tripwires |
//! | `watch-event TRIPWIRE` | `registered`: each firing is an event, with the Tripwire's number as token |
//! | `readable` | whether the queue's file becomes `readable` within a moment |
//! | `event` | `what` has happened, and its `token` |
//! | `listen NAME` | `listening`: for connections of the operating systems |
//! | `admit NAME TEXT` | `admitted`: its number; the next request's `host` and `private` text |
//! | `reach HOST NAME TEXT` | `reached`: its number, and the answer's `private` text; or why it is `refused` |
//! | `over NUMBER` | waits for the connection's end; why it is `over` |

use std::collections::BTreeMap;
use std::io::BufRead;
use std::os::fd::AsFd;
use std::time::Duration;

use hamlyn::Polling;
use hamlyn::clan::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use crate::common::{Outcome, fill_pattern, find_difference, print};
use crate::names::Names;
use crate::storm::storm;
use crate::tripwires::Tripwires;

/// Timeout of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(card: Card) -> Outcome {
    let mut desk = Desk {
        card,
        tripwires: Tripwires::default(),
        windows: BTreeMap::new(),
        connections: BTreeMap::new(),
        events: None,
        names: Names::default(),
        endpoints: BTreeMap::new(),
        apertures: BTreeMap::new(),
        made: 0,
    };
    for line in std::io::stdin().lock().lines() {
        let answer = desk.obey(&line?).unwrap_or_else(|error| json!({ "error": error.to_string() }));
        print(&answer)?;
    }
    Ok(())
}

struct Desk {
    card: Card,
    tripwires: Tripwires,
    windows: BTreeMap<u64, Window>,
    connections: BTreeMap<u64, Connection>,
    events: Option<EventQueue>,
    names: Names,
    endpoints: BTreeMap<u64, Endpoint>,
    apertures: BTreeMap<u64, Aperture>,
    made: u64,
}

/// Looks up an object by its number.
pub(crate) fn get<'a, T>(of: &'a BTreeMap<u64, T>, number: &str) -> Outcome<&'a T> {
    of.get(&number.parse()?).ok_or_else(|| format!("there is no {number}").into())
}

impl Desk {
    fn obey(&mut self, line: &str) -> Outcome<Value> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["info"] => Ok(json!({ "host": self.card.host()? })),
            ["aperture", ..]
            | ["join", ..]
            | ["close-aperture", _]
            | ["own", ..]
            | ["fill", ..]
            | ["check", ..] => self.obey_about_memory(&words),
            ["window", ..] | ["store", ..] | ["fetch", ..] | ["storm", ..] => self.obey_about_windows(&words),
            ["connect", ..]
            | ["accept", ..]
            | ["end", _]
            | ["send", ..]
            | ["send-many", ..]
            | ["message", _] => self.obey_about_messages(&words),
            ["watch", ..] | ["watch-remote", ..] | ["tripped", _] | ["count", _] | ["enable", _] => {
                self.tripwires.obey(&self.endpoints, &self.apertures, &words)
            }
            ["events", _] | ["watch-event", _] | ["readable"] | ["event"] => self.obey_about_events(&words),
            ["listen", _] | ["admit", ..] | ["reach", ..] | ["over", _] => {
                self.names.obey(&self.card, &words)
            }
            _ => self.obey_about_endpoints(&words),
        }
    }

    fn next(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    fn obey_about_memory(&mut self, words: &[&str]) -> Outcome<Value> {
        match *words {
            ["aperture", length, rights] => {
                let aperture = self.card.aperture(length.parse()?, rights_of(rights)?)?;
                let (number, descriptor) = (self.next(), aperture.descriptor()?);
                self.apertures.insert(number, aperture);
                Ok(json!({ "aperture": number, "descriptor": descriptor.to_string() }))
            }
            ["join", group, key, length] => {
                let aperture = self.card.join_group(group.parse()?, key.parse()?, length.parse()?)?;
                let (number, descriptor) = (self.next(), aperture.descriptor()?);
                self.apertures.insert(number, aperture);
                Ok(json!({ "aperture": number, "descriptor": descriptor.to_string() }))
            }
            ["close-aperture", number] => {
                self.apertures.remove(&number.parse()?).ok_or("there is no such aperture")?;
                Ok(json!({ "closed": true }))
            }
            ["own", number, offset] => {
                Ok(json!({ "value": get(&self.apertures, number)?.load_u64(offset.parse()?)? }))
            }
            ["fill", number, seed] => {
                let aperture = get(&self.apertures, number)?;
                let mut bytes = vec![0; aperture.len()];
                fill_pattern(seed.parse()?, 0, &mut bytes);
                aperture.write(0, &bytes)?;
                Ok(json!({ "filled": bytes.len() }))
            }
            ["check", number, seed] => {
                let aperture = get(&self.apertures, number)?;
                let mut bytes = vec![0; aperture.len()];
                aperture.read(0, &mut bytes)?;
                Ok(json!({ "arrived": find_difference(seed.parse()?, 0, &bytes).is_none() }))
            }
            _ => Err(format!("what is {words:?}?").into()),
        }
    }

    fn obey_about_windows(&mut self, words: &[&str]) -> Outcome<Value> {
        match *words {
            ["window", endpoint, descriptor] => {
                let descriptor: Descriptor = descriptor.parse()?;
                let length = descriptor.len().try_into()?;
                let window = get(&self.endpoints, endpoint)?.map(&descriptor, 0, length)?;
                let number = self.next();
                self.windows.insert(number, window);
                Ok(json!({ "window": number }))
            }
            ["store", window, offset, value] => {
                get(&self.windows, window)?.store_u64(offset.parse()?, value.parse()?)?;
                Ok(json!({ "stored": true }))
            }
            ["fetch", window, offset] => {
                Ok(json!({ "value": get(&self.windows, window)?.load_u64(offset.parse()?)? }))
            }
            ["storm", endpoint, window, aperture] => {
                let (dma, window) = (get(&self.endpoints, endpoint)?.dma(), get(&self.windows, window)?);
                print(&json!({ "storming": true }))?;
                storm(&dma, window, get(&self.apertures, aperture)?)
            }
            _ => Err(format!("what is {words:?}?").into()),
        }
    }

    fn obey_about_endpoints(&mut self, words: &[&str]) -> Outcome<Value> {
        match *words {
            ["endpoint", port] => self.open_endpoint(port, false),
            ["endpoint-of-driver", port] => self.open_endpoint(port, true),
            ["close-endpoint", number] => {
                self.endpoints.remove(&number.parse()?).ok_or("there is no such endpoint")?;
                Ok(json!({ "closed": true }))
            }
            ["put", endpoint, aperture, descriptor, count] => {
                let (local, there): (_, Descriptor) = (get(&self.apertures, aperture)?, descriptor.parse()?);
                let transfer = Transfer::write(local, 0, &there, 0, local.len())?;
                self.transfer(endpoint, &transfer, count.parse()?)
            }
            ["get", endpoint, aperture, descriptor, count] => {
                let (local, there): (_, Descriptor) = (get(&self.apertures, aperture)?, descriptor.parse()?);
                let transfer = Transfer::read(local, 0, &there, 0, local.len())?;
                self.transfer(endpoint, &transfer, count.parse()?)
            }
            ["fault", endpoint] => Ok(
                json!({ "fault": get(&self.endpoints, endpoint)?.recv_fault_timeout(PATIENCE)?.to_string() }),
            ),
            _ => Err(format!("what is {words:?}?").into()),
        }
    }

    fn open_endpoint(&mut self, port: &str, drivers: bool) -> Outcome<Value> {
        let builder = self.card.endpoint_builder().port(port.parse()?).tripwires(8).drivers_dma(drivers);
        let endpoint = builder.polling(Polling::NEVER).open()?;
        let (number, address) = (self.next(), endpoint.address()?);
        self.endpoints.insert(number, endpoint);
        Ok(json!({ "endpoint": number, "address": address.to_string() }))
    }

    /// Puts as many transfers as there is room for, and waits for each.
    fn transfer(&self, endpoint: &str, transfer: &Transfer, count: u32) -> Outcome<Value> {
        let dma = get(&self.endpoints, endpoint)?.dma();
        let mut last = None;
        for _ in 0..count {
            last = Some(dma.put_chain_timeout(std::slice::from_ref(transfer), PATIENCE)?);
        }
        last.map_or(Ok(()), |last| dma.wait_timeout(last, PATIENCE))?;
        Ok(json!({ "done": count }))
    }

    fn obey_about_messages(&mut self, words: &[&str]) -> Outcome<Value> {
        match *words {
            ["send", endpoint, to, text] => {
                get(&self.endpoints, endpoint)?.send_message(
                    to.parse()?,
                    MessageKind::Data,
                    text.as_bytes(),
                )?;
                Ok(json!({ "sent": true }))
            }
            ["send-many", endpoint, to] => {
                let (endpoint, to) = (get(&self.endpoints, endpoint)?, to.parse()?);
                let mut sent = 0;
                let refused = loop {
                    match endpoint.send_message(to, MessageKind::Data, b"many") {
                        Ok(()) => sent += 1,
                        Err(error) => break error,
                    }
                };
                Ok(json!({ "sent": sent, "refused": refused.to_string() }))
            }
            ["message", endpoint] => {
                let message = get(&self.endpoints, endpoint)?.recv_message_timeout(PATIENCE)?;
                let text = String::from_utf8_lossy(&message.data).trim_end_matches('\0').to_owned();
                Ok(
                    json!({ "from": message.from.to_string(), "kind": format!("{:?}", message.kind), "text": text }),
                )
            }
            // The private data is a descriptor, or the word itself.
            ["connect", endpoint, to, ref told @ ..] => {
                let told = told.first().copied().unwrap_or("please");
                let told = told
                    .parse()
                    .map_or(told.as_bytes().to_vec(), |told: Descriptor| told.to_bytes().to_vec());
                let made = get(&self.endpoints, endpoint)?.connect_timeout(to.parse()?, &told, PATIENCE)?;
                Ok(self.keep(made))
            }
            ["accept", listener, own] => {
                let request = get(&self.endpoints, listener)?.accept_timeout(PATIENCE)?;
                let made = request.accept(get(&self.endpoints, own)?, b"welcome")?;
                Ok(self.keep(made))
            }
            ["end", connection] => {
                let end = get(&self.connections, connection)?.wait_end_timeout(PATIENCE)?;
                let ended = if end == PeerEnd::Gone { "gone" } else { "closed" };
                Ok(json!({ "ended": ended }))
            }
            _ => Err(format!("what is {words:?}?").into()),
        }
    }

    fn keep(&mut self, connection: Connection) -> Value {
        let number = self.next();
        self.connections.insert(number, connection);
        json!({ "connection": number })
    }

    fn obey_about_events(&mut self, words: &[&str]) -> Outcome<Value> {
        if self.events.is_none() {
            self.events = Some(self.card.events(64)?);
        }
        let events = self.events.as_mut().ok_or("no event queue")?;
        match *words {
            ["events", endpoint] => {
                events.register(get(&self.endpoints, endpoint)?, Interest::ALL, endpoint.parse()?)?;
                Ok(json!({ "registered": true }))
            }
            ["watch-event", tripwire] => {
                events.register_tripwire(self.tripwires.get(tripwire)?, tripwire.parse()?)?;
                Ok(json!({ "registered": true }))
            }
            ["readable"] => {
                let moment = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
                let mut files = [PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN)];
                Ok(json!({ "readable": poll(&mut files, Some(&moment))? != 0 }))
            }
            _ => {
                let event = events.recv_timeout(PATIENCE)?;
                Ok(json!({ "what": format!("{:?}", event.what), "token": event.token }))
            }
        }
    }
}

fn rights_of(text: &str) -> Outcome<Rights> {
    Ok(match text {
        "none" => Rights::None,
        "read" => Rights::Read,
        "write" => Rights::Write,
        "both" => Rights::ReadWrite,
        _ => return Err(format!("what right is {text}?").into()),
    })
}
