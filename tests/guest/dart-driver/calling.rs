//! The client's side of the compound operations. Reads one command per line and answers each. `own`
//! is a number that no other client has.
//!
//! | line | answer |
//! |---|---|
//! | `increment COUNT` | adds COUNT times to register 0; its value `before` the last one |
//! | `add COUNT` | `added`: adds 1 to register 1 by compare and swap, COUNT times |
//! | `locked COUNT` | `added`: adds 1 to the word at 0 by reads and writes with a lock held, COUNT times; another way every third time |
//! | `lock COUNT` | `locked`: takes and releases the lock COUNT times |
//! | `read COUNT` | `read`: COUNT blocks of 32 bytes |
//! | `append COUNT` | `appended`: COUNT entries, numbered from `own * 1000` |
//! | `full` | why one more entry is `refused` |
//! | `gather` | `gathered`: pieces of the other's memory have the values that were written |
//! | `put COUNT` | `put`: COUNT items |
//! | `urge PRIORITY...` | `put`: the number of entries, one per priority |
//! | `meet ROUNDS` | the last `round` of the barrier |
//! | `call COUNT` | `called`, and each result was right |

use std::io::BufRead;
use std::sync::Arc;

use hamlyn::dart::programs::*;
use hamlyn::dart::*;
use serde_json::{Value, json};

use crate::common::{Outcome, print};
use crate::serving::{BARRIER, ENTRY, LENGTH, LOG, NAMES, PATIENCE, SIZE, URGENT};

const LOCK: LockRegisters = LockRegisters { tickets: 2, turn: 3 };
/// Offset that questions are sent from.
const SCRATCH: u64 = 1 << 16;

struct Part {
    endpoint: Arc<Endpoint>,
    _bank: Bank,
    connection: Arc<Connection>,
    _known: hamlyn::Connection,
}

struct Calling {
    own: u64,
    /// Last known value of register 1.
    known: u64,
    parts: Vec<Part>,
    caller: Caller,
    member: Member,
    client: Client,
}

pub(crate) fn run(card: &Card, host: u32, own: u64) -> Outcome {
    let (mut parts, mut queues) = (Vec::new(), Vec::new());
    for name in NAMES {
        let (endpoint, bank) = (Arc::new(card.endpoint(LENGTH)?), card.bank(1, 0)?);
        let queue = card.queue(64, Urgency::Delayed)?;
        let (connection, known) = card.connection(&endpoint, &bank).events(&queue).reach(card, host, name)?;
        parts.push(Part { endpoint, _bank: bank, connection: Arc::new(connection), _known: known });
        queues.push(queue);
    }
    let [answers, _, _, released, results]: [Queue; 5] = queues.try_into().map_err(|_| "five queues")?;
    let caller = Caller::new(parts[0].connection.clone(), answers, SCRATCH).with_timeout(PATIENCE);
    let member = Member::new(parts[3].connection.clone(), released, BARRIER);
    let place = own * SIZE;
    let client = Client::new(parts[4].connection.clone(), parts[4].endpoint.clone(), results, place, SIZE);
    print(&json!({ "calling": true }))?;
    let mut calling = Calling { own, known: 0, parts, caller, member, client };
    for line in std::io::stdin().lock().lines() {
        let answer = calling.obey(&line?).unwrap_or_else(|error| json!({ "error": error.to_string() }));
        print(&answer)?;
    }
    Ok(())
}

impl Calling {
    fn obey(&mut self, line: &str) -> Outcome<Value> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["increment", count] => self.increment(count.parse()?),
            ["add", count] => self.add(count.parse()?),
            ["locked", count] => self.locked(count.parse()?),
            ["lock", count] => self.lock(count.parse()?),
            ["read", count] => self.read(count.parse()?),
            ["append", count] => self.append(count.parse()?),
            ["full"] => self.full(),
            ["gather"] => self.gather(),
            ["put", count] => self.put(count.parse()?),
            ["urge", ref priorities @ ..] => self.urge(priorities),
            ["meet", rounds] => {
                let mut last = 0;
                for _ in 0..rounds.parse()? {
                    last = self.member.wait_timeout(PATIENCE)?;
                }
                Ok(json!({ "round": last }))
            }
            ["call", count] => self.call(count.parse()?),
            _ => Err(format!("what is {line:?}?").into()),
        }
    }

    fn increment(&mut self, count: u64) -> Outcome<Value> {
        let mut before = 0;
        for _ in 0..count {
            before = self.caller.fetch(0, Step::Increment, 0)?.0;
        }
        Ok(json!({ "before": before }))
    }

    /// Returns this client's own register.
    fn register(&self) -> u8 {
        16 + self.own as u8
    }

    fn add(&mut self, count: u64) -> Outcome<Value> {
        let own = self.register();
        for _ in 0..count {
            loop {
                let found = self.caller.compare_and_swap(1, own, self.known, self.known + 1)?;
                let done = found == self.known;
                self.known = if done { found + 1 } else { found };
                if done {
                    break;
                }
            }
        }
        Ok(json!({ "added": count }))
    }

    fn locked(&mut self, count: u64) -> Outcome<Value> {
        let (lock, own) = (Lock::new(LOCK), self.register());
        for round in 0..count {
            if round % 3 == 2 {
                while !lock.try_lock(&mut self.caller, own)? {}
            } else {
                lock.lock(&mut self.caller)?;
            }
            let mut bytes = [0; 8];
            self.caller.read(0, &mut bytes)?;
            let more = u64::from_le_bytes(bytes) + 1;
            self.parts[0].endpoint.write(0, &more.to_le_bytes())?;
            // Deselected words stay unchanged.
            self.parts[0].connection.try_send(&Operation::write(0).mask(0b1111_1100), 0..8)?;
            lock.unlock(&self.caller)?;
            self.parts[0].connection.wait_until_left_timeout(PATIENCE)?;
        }
        self.settle()?;
        Ok(json!({ "added": count }))
    }

    fn lock(&mut self, count: u64) -> Outcome<Value> {
        let lock = Lock::new(LOCK);
        for _ in 0..count {
            lock.lock(&mut self.caller)?;
            lock.unlock(&self.caller)?;
        }
        Ok(json!({ "locked": count }))
    }

    fn read(&mut self, count: u64) -> Outcome<Value> {
        for _ in 0..count {
            self.caller.read(0, &mut [0; 32])?;
        }
        Ok(json!({ "read": count }))
    }

    /// Waits for the answer to a question. All earlier operations have been executed by then.
    fn settle(&mut self) -> Outcome {
        self.caller.fetch(7, Step::Or, 0)?;
        Ok(())
    }

    fn append(&mut self, count: u64) -> Outcome<Value> {
        let appender = Appender::new(self.parts[0].connection.clone(), LOG, ENTRY);
        for number in 0..count {
            let at = 256 + number % 16 * u64::from(ENTRY);
            if number % 16 == 0 {
                self.parts[0].connection.wait_until_left_timeout(PATIENCE)?;
            }
            self.parts[0].endpoint.write(at as usize, &(self.own * 1000 + number).to_le_bytes())?;
            appender.append(at)?;
        }
        self.settle()?;
        Ok(json!({ "appended": count }))
    }

    fn full(&mut self) -> Outcome<Value> {
        Appender::new(self.parts[0].connection.clone(), LOG, ENTRY).append(256)?;
        self.settle()?;
        let trap = self.parts[0].connection.status().trap.map(|(trap, _)| format!("{trap:?}"));
        Ok(json!({ "refused": trap }))
    }

    fn gather(&mut self) -> Outcome<Value> {
        let (part, place) = (&self.parts[0], 200_000 + self.own * 300_000);
        let pattern: Vec<u8> = (0..20_000_u32).map(|byte| (byte * 7 / 8) as u8).collect();
        part.endpoint.write(place as usize, &pattern)?;
        part.connection.try_send(&Operation::write_multiple(place), place..place + 20_000)?;
        let to = place + 100_000;
        let pieces = (0..100).map(|n| Piece { from: place + n * 200, to: to + (99 - n) * 200, length: 200 });
        self.caller.gather(&pieces.collect::<Vec<_>>())?;
        let mut found = vec![0; 20_000];
        self.parts[0].endpoint.read(to as usize, &mut found)?;
        let expected: Vec<u8> = pattern.chunks(200).rev().flatten().copied().collect();
        Ok(json!({ "gathered": found == expected }))
    }

    fn put(&mut self, count: u64) -> Outcome<Value> {
        let (part, producer) = (&self.parts[1], Producer::new(self.parts[1].connection.clone()));
        for number in 0..count {
            let at = number % 32 * 8;
            if number % 32 == 0 {
                part.connection.wait_until_left_timeout(PATIENCE)?;
            }
            part.endpoint.write(at as usize, &(number * 3).to_le_bytes())?;
            producer.put_timeout(number, at, 8, PATIENCE)?;
        }
        Ok(json!({ "put": count }))
    }

    fn urge(&mut self, priorities: &[&str]) -> Outcome<Value> {
        let part = &self.parts[2];
        let urgent = Urgent::new(part.connection.clone(), URGENT);
        for priority in priorities {
            urgent.put(&part.endpoint, 0, priority.parse()?)?;
            part.connection.wait_until_left_timeout(PATIENCE)?;
        }
        // The question uses another connection, but is sent after what has left the card.
        self.settle()?;
        Ok(json!({ "put": priorities.len() }))
    }

    fn call(&mut self, count: u64) -> Outcome<Value> {
        for number in 0..count {
            let arguments: Vec<u8> = (0..number % SIZE).map(|byte| (byte * number) as u8).collect();
            let result = self.client.call_timeout(&arguments, PATIENCE)?;
            if !result.iter().eq(arguments.iter().rev()) {
                return Err(format!("call {number} has another's result").into());
            }
        }
        Ok(json!({ "called": count }))
    }
}
