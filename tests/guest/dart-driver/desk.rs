//! Manual control: reads one command per line and answers each with a JSON object.
//!
//! | line | answer |
//! |---|---|
//! | `info` | `host` |
//! | `counter NAME` | the `value` of one of the card's counters |
//! | `endpoint LENGTH` | the `endpoint`'s number here |
//! | `bank REGISTERS ENTRIES` | the `bank`'s number |
//! | `queue RECORDS URGENCY` | the `queue`'s number; `delayed` or `immediate` |
//! | `open HOST ENDPOINT BANK WHAT...` | the `connection`'s number and its `address`; `events=QUEUE`, `exceptions=QUEUE`, `registers=FROM-TO`, `program=FROM-TO`, `rights=RIGHTS` |
//! | `connect CONNECTION ADDRESS` | `connected` |
//! | `close WHAT NUMBER` | `closed`: an `endpoint`, a `bank`, a `queue` or a `connection` |
//! | `program BANK FIRST OPERATION` | `set`: an entry |
//! | `send CONNECTION OPERATION OFFSET LENGTH` | `sent`, once there is room; an operation is `OPCODE:MASK:I:J:K:OPERAND` |
//! | `burst CONNECTION OPERATION OFFSET LENGTH COUNT` | the number `sent` |
//! | `storm CONNECTION` | `storming`: writes and reads all over the other's first 128 KiB; then why it had to stop |
//! | `ask CONNECTION QUESTION ANSWER BYTES SCRATCH` | `asked` |
//! | `left CONNECTION` | `left`: waits until all operations have left the card |
//! | `record QUEUE` | waits for the next record: `what`, `operand`, `words`, `length` |
//! | `records QUEUE COUNT` | the number of the next COUNT records that arrived `in_order`, by their operands from 0 |
//! | `silent QUEUE` | `silent`: no record arrives within a moment |
//! | `own ENDPOINT OFFSET` | the `value` of 8 bytes in this process' memory |
//! | `put ENDPOINT OFFSET VALUE` | `put`: stores 8 bytes in this process' memory |
//! | `fill ENDPOINT OFFSET LENGTH SEED` | `filled` with a pattern |
//! | `check ENDPOINT OFFSET LENGTH SEED` | whether the pattern `arrived` |
//! | `register CONNECTION NUMBER` | its `value` |
//! | `set CONNECTION NUMBER VALUE` | `set` |
//! | `status CONNECTION` | `left`, `dropped`, `traps`, `trap`, `broken` |
//! | `broken CONNECTION` | waits until it breaks; why it is `broken` |
//! | `page-out ENDPOINT` | `told`: advises the kernel to page out its pages |
//! | `discard ENDPOINT` | `discarded`: its pages |
//! | `pages ENDPOINT` | the number of `present` and of `swapped` pages |
//! | `frames ENDPOINT` | the `frames` of its pages, 0 for absent ones; only as root |
//! | `churn ENDPOINT MILLISECONDS` | `churned`: how often the kernel was advised to page out its pages |
//! | `fork ENDPOINT` | `forked`: a child that has a copy of its memory |
//! | `forked ENDPOINT OFFSET LENGTH SEED` | whether the child has `kept` the pattern; the child exits |

use std::collections::BTreeMap;
use std::io::BufRead;
use std::ops::Range;
use std::time::{Duration, Instant};

use hamlyn::dart::*;
use hamlyn_abi::dart::control::DartControl;
use hamlyn_sys::KeptCopy;
use serde_json::{Value, json};

use crate::common::{Outcome, fill_pattern, find_difference, print};
use crate::pages::{frames, pages};

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time within which nothing may arrive.
const MOMENT: Duration = Duration::from_millis(300);

pub(crate) fn run(card: Card) -> Outcome {
    let mut desk = Desk {
        card,
        connections: BTreeMap::new(),
        queues: BTreeMap::new(),
        banks: BTreeMap::new(),
        endpoints: BTreeMap::new(),
        forked: BTreeMap::new(),
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
    connections: BTreeMap<u64, Connection>,
    queues: BTreeMap<u64, Queue>,
    banks: BTreeMap<u64, Bank>,
    endpoints: BTreeMap<u64, Endpoint>,
    forked: BTreeMap<u64, KeptCopy>,
    made: u64,
}

/// Looks up an object by its number.
fn get<'a, T>(of: &'a BTreeMap<u64, T>, number: &str) -> Outcome<&'a T> {
    of.get(&number.parse()?).ok_or_else(|| format!("there is no {number}").into())
}

fn range<T: std::str::FromStr<Err: std::error::Error + 'static>>(text: &str) -> Outcome<Range<T>> {
    let (from, to) = text.split_once('-').ok_or("a range has a -")?;
    Ok(from.parse()?..to.parse()?)
}

fn operation(text: &str) -> Outcome<Operation> {
    let fields = text.split(':').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    let [opcode, mask, i, j, k, operand] = fields[..] else { return Err(format!("what is {text}?").into()) };
    let indices = [i as u8, j as u8, k as u8];
    Ok(DartControl { opcode: opcode as u32, mask: mask as u8, indices, operand }.into())
}

fn rights(text: &str) -> Outcome<Rights> {
    Ok(match text {
        "none" => Rights::None,
        "read" => Rights::Read,
        "write" => Rights::Write,
        "both" => Rights::ReadWrite,
        _ => return Err(format!("what rights are {text}?").into()),
    })
}

fn record(record: &Record) -> Value {
    let words: Vec<u64> = (0..4).filter_map(|n| record.word(n)).collect();
    json!({
        "what": format!("{:?}", record.what),
        "operand": record.operand(),
        "words": words,
        "length": record.length,
    })
}

impl Desk {
    fn obey(&mut self, line: &str) -> Outcome<Value> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["info"] => Ok(json!({ "host": self.card.host()? })),
            ["counter", name] => {
                let counters = self.card.statistics()?;
                let found = counters.iter().find(|(known, _)| *known == name);
                Ok(json!({ "value": found.ok_or("there is no such counter")?.1 }))
            }
            ["endpoint", ..] | ["bank", ..] | ["queue", ..] | ["open", ..] | ["close", ..] => {
                self.make(&words)
            }
            ["record", _] | ["records", ..] | ["silent", _] => self.obey_about_queues(&words),
            ["page-out", _]
            | ["discard", _]
            | ["pages" | "frames", _]
            | ["churn", ..]
            | ["fork", _]
            | ["forked", ..] => self.obey_about_pages(&words),
            ["own", ..] | ["put", ..] | ["fill", ..] | ["check", ..] => self.obey_about_memory(&words),
            _ => self.obey_about_connections(&words),
        }
    }

    fn next(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    fn make(&mut self, words: &[&str]) -> Outcome<Value> {
        match *words {
            ["endpoint", length] => {
                let endpoint = self.card.endpoint(length.parse()?)?;
                let number = self.next();
                self.endpoints.insert(number, endpoint);
                Ok(json!({ "endpoint": number }))
            }
            ["bank", registers, entries] => {
                let bank = self.card.bank(registers.parse()?, entries.parse()?)?;
                let number = self.next();
                self.banks.insert(number, bank);
                Ok(json!({ "bank": number }))
            }
            ["queue", records, urgency] => {
                let urgency = if urgency == "immediate" { Urgency::Immediate } else { Urgency::Delayed };
                let queue = self.card.queue(records.parse()?, urgency)?;
                let number = self.next();
                self.queues.insert(number, queue);
                Ok(json!({ "queue": number }))
            }
            ["open", host, endpoint, bank, ref what @ ..] => {
                let (endpoint, bank) = (get(&self.endpoints, endpoint)?, get(&self.banks, bank)?);
                let mut builder = self.card.connection(endpoint, bank);
                for choice in what {
                    builder = self.choose(builder, choice)?;
                }
                let connection = builder.open(host.parse()?)?;
                let (number, address) = (self.next(), connection.address()?);
                self.connections.insert(number, connection);
                Ok(json!({ "connection": number, "address": address.to_string() }))
            }
            ["close", what, number] => {
                let number = number.parse()?;
                let closed = match what {
                    "endpoint" => self.endpoints.remove(&number).is_some(),
                    "bank" => self.banks.remove(&number).is_some(),
                    "queue" => self.queues.remove(&number).is_some(),
                    _ => self.connections.remove(&number).is_some(),
                };
                Ok(json!({ "closed": closed }))
            }
            _ => Err(format!("what is {words:?}?").into()),
        }
    }

    fn choose(&self, builder: ConnectionBuilder, choice: &str) -> Outcome<ConnectionBuilder> {
        let (what, value) = choice.split_once('=').ok_or("a choice has a =")?;
        Ok(match what {
            "events" => builder.events(get(&self.queues, value)?),
            "exceptions" => builder.exceptions(get(&self.queues, value)?),
            "registers" => builder.registers(range(value)?),
            "program" => builder.program(range(value)?),
            "rights" => builder.rights(rights(value)?),
            _ => return Err(format!("what is {choice}?").into()),
        })
    }

    fn obey_about_queues(&mut self, words: &[&str]) -> Outcome<Value> {
        let queue = self.queues.get_mut(&words[1].parse()?).ok_or("there is no such queue")?;
        match *words {
            ["record", _] => Ok(record(&queue.recv_timeout(PATIENCE)?)),
            ["records", _, count] => {
                let count: u64 = count.parse()?;
                for number in 0..count {
                    let found = queue.recv_timeout(PATIENCE)?.operand();
                    if found != number {
                        return Err(format!("record {number} is {found}").into());
                    }
                }
                Ok(json!({ "in_order": count }))
            }
            _ => Ok(match queue.recv_timeout(MOMENT) {
                Ok(found) => record(&found),
                Err(_) => json!({ "silent": true }),
            }),
        }
    }

    fn obey_about_memory(&self, words: &[&str]) -> Outcome<Value> {
        let endpoint = get(&self.endpoints, words[1])?;
        match *words {
            ["own", _, offset] => {
                let mut bytes = [0; 8];
                endpoint.read(offset.parse()?, &mut bytes)?;
                Ok(json!({ "value": u64::from_le_bytes(bytes) }))
            }
            ["put", _, offset, value] => {
                endpoint.write(offset.parse()?, &value.parse::<u64>()?.to_le_bytes())?;
                Ok(json!({ "put": true }))
            }
            ["fill", _, offset, length, seed] => {
                let mut bytes = vec![0; length.parse()?];
                fill_pattern(seed.parse()?, 0, &mut bytes);
                endpoint.write(offset.parse()?, &bytes)?;
                Ok(json!({ "filled": bytes.len() }))
            }
            ["check", _, offset, length, seed] => {
                let mut bytes = vec![0; length.parse()?];
                endpoint.read(offset.parse()?, &mut bytes)?;
                Ok(json!({ "arrived": find_difference(seed.parse()?, 0, &bytes).is_none() }))
            }
            _ => Err(format!("what is {words:?}?").into()),
        }
    }

    fn obey_about_pages(&mut self, words: &[&str]) -> Outcome<Value> {
        let endpoint = get(&self.endpoints, words[1])?;
        match *words {
            ["page-out", _] => {
                endpoint.page_out()?;
                Ok(json!({ "told": true }))
            }
            ["discard", _] => {
                endpoint.discard()?;
                Ok(json!({ "discarded": true }))
            }
            ["pages", _] => pages(endpoint.address(), endpoint.len() as u64),
            ["frames", _] => Ok(json!({ "frames": frames(endpoint.address(), endpoint.len() as u64)? })),
            ["churn", _, milliseconds] => {
                let (begun, until) = (Instant::now(), Duration::from_millis(milliseconds.parse()?));
                let mut churned = 0_u64;
                while begun.elapsed() < until {
                    endpoint.page_out()?;
                    churned += 1;
                }
                Ok(json!({ "churned": churned }))
            }
            ["fork", number] => {
                let kept = endpoint.keep_copy()?;
                self.forked.insert(number.parse()?, kept);
                Ok(json!({ "forked": true }))
            }
            ["forked", number, offset, length, seed] => {
                let kept = self.forked.remove(&number.parse()?).ok_or("there is no such child")?;
                let (offset, length): (usize, usize) = (offset.parse()?, length.parse()?);
                let bytes = kept.take(offset + length)?;
                Ok(json!({ "kept": find_difference(seed.parse()?, 0, &bytes[offset..]).is_none() }))
            }
            _ => Err(format!("what is {words:?}?").into()),
        }
    }

    fn obey_about_connections(&mut self, words: &[&str]) -> Outcome<Value> {
        if let ["program", bank, first, entry] = *words {
            get(&self.banks, bank)?.set_program(first.parse()?, &[operation(entry)?])?;
            return Ok(json!({ "set": true }));
        }
        let connection = get(&self.connections, words.get(1).ok_or("what?")?)?;
        match *words {
            ["connect", _, address] => {
                connection.connect(&address.parse()?)?;
                Ok(json!({ "connected": true }))
            }
            ["send", _, what, offset, length] => {
                connection.send_timeout(&operation(what)?, data(offset, length)?, PATIENCE)?;
                Ok(json!({ "sent": true }))
            }
            ["burst", _, what, offset, length, count] => {
                let count: u32 = count.parse()?;
                for _ in 0..count {
                    connection.send_timeout(&operation(what)?, data(offset, length)?, PATIENCE)?;
                }
                Ok(json!({ "sent": count }))
            }
            ["storm", _] => {
                print(&json!({ "storming": true }))?;
                for place in (0..32).cycle().map(|page| page * 4096) {
                    connection.send_timeout(
                        &Operation::write_multiple(place),
                        place..place + 4000,
                        PATIENCE,
                    )?;
                    let answer = Operation::write_multiple(place + (1 << 17));
                    match connection.ask(&Operation::read_multiple(place), &answer, 4000, 1 << 18) {
                        Err(hamlyn::Error::WouldBlock { .. }) => {}
                        asked => asked?,
                    }
                }
                Ok(Value::Null)
            }
            ["ask", _, question, answer, bytes, scratch] => {
                connection.ask(
                    &operation(question)?,
                    &operation(answer)?,
                    bytes.parse()?,
                    scratch.parse()?,
                )?;
                Ok(json!({ "asked": true }))
            }
            ["left", _] => {
                connection.wait_until_left_timeout(PATIENCE)?;
                Ok(json!({ "left": true }))
            }
            ["register", _, number] => Ok(json!({ "value": connection.register(number.parse()?)? })),
            ["set", _, number, value] => {
                connection.set_register(number.parse()?, value.parse()?)?;
                Ok(json!({ "set": true }))
            }
            ["status", _] => Ok(status(&connection.status())),
            ["broken", _] => {
                let begun = Instant::now();
                while connection.status().broken.is_none() && begun.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(json!({ "broken": connection.status().broken.map(|why| format!("{why:?}")) }))
            }
            _ => Err(format!("what is {words:?}?").into()),
        }
    }
}

fn data(offset: &str, length: &str) -> Outcome<Range<u64>> {
    let offset = offset.parse()?;
    Ok(offset..offset + length.parse::<u64>()?)
}

fn status(status: &Status) -> Value {
    json!({
        "left": status.left,
        "dropped": status.dropped,
        "traps": status.traps,
        "trap": status.trap.map(|(trap, _)| format!("{trap:?}")),
        "broken": status.broken.map(|why| format!("{why:?}")),
    })
}
