//! Manual control: reads one command per line and answers each with a JSON object.
//!
//! | line | answer |
//! |---|---|
//! | `info` | `host`, and whether the card `snoops` |
//! | `export LENGTH HOST...` | the `export`'s number, and its `handle` |
//! | `export-paged LENGTH HOST...` | the same, for an export whose pages may be paged out |
//! | `memory LENGTH` | the number of `memory` of the program's own, which begins at a page |
//! | `export-own MEMORY START LENGTH HOST...` | the same as `export`, for a part of it |
//! | `map-own MEMORY START LENGTH HANDLE OFFSET MODE` | the same as `map`, for a part of it |
//! | `take-back MEMORY OFFSET` | the `value` of 4 bytes of it, which no buffer uses |
//! | `page-out EXPORT` | `told`: advises the kernel to page out its pages |
//! | `pages EXPORT` | the number of `present` and of `swapped` pages |
//! | `unexport EXPORT` | `unexported`, once no host maps it |
//! | `map HANDLE OFFSET LENGTH MODE` | the `mapping`'s number |
//! | `forge HANDLE KEY` | the `handle` with another key |
//! | `unmap MAPPING` | `unmapped` |
//! | `mode MAPPING MODE` | `mode` |
//! | `store MAPPING OFFSET VALUE` | `stored`: 4 bytes |
//! | `fill MAPPING OFFSET LENGTH SEED` | `filled` with a pattern |
//! | `send MAPPING OFFSET LENGTH` | `sent`, once it is |
//! | `own MAPPING OFFSET` | the `value` of 4 bytes in this process' memory |
//! | `state MAPPING` | `state` |
//! | `load EXPORT OFFSET` | the `value` of 4 bytes |
//! | `wait EXPORT OFFSET VALUE [SECONDS]` | waits until the 4 bytes differ from VALUE: their `value`, or none within SECONDS (60) |
//! | `check EXPORT OFFSET LENGTH SEED` | whether the pattern `arrived` |
//! | `batter MAPPING ROUNDS` | the number of transfers `started`: all pages of the buffer in turn, ROUNDS times |
//! | `watch MAPPING ROUNDS` | sends the first page ROUNDS times; the numbers of words `left` while its own transfers were under way |
//! | `stream MAPPING COUNT` | `streamed`: COUNT items, and after each the number of items |
//! | `follow EXPORT COUNT` | `followed`, once all have arrived, each before its number |
//! | `flood MAPPING` | `flooding`, then stores forever without further output |

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::ops::Range;
use std::time::Duration;

use hamlyn::Pages;
use hamlyn::shrimp::{Card, Handle, MappingState, Mode, OwnMemory, ReceiveBuffer, SendBuffer};
use serde_json::{Value, json};

use crate::common::{Outcome, fill_pattern, find_difference, print};
use crate::pages::pages;
use crate::stream;

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(card: Card) -> Outcome {
    let mut desk = Desk {
        card,
        memories: BTreeMap::new(),
        exports: BTreeMap::new(),
        mappings: BTreeMap::new(),
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
    memories: BTreeMap<u64, OwnMemory>,
    exports: BTreeMap<u64, ReceiveBuffer>,
    mappings: BTreeMap<u64, SendBuffer>,
    made: u64,
}

impl Desk {
    fn obey(&mut self, line: &str) -> Outcome<Value> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["info"] => {
                let info = self.card.info()?;
                Ok(json!({ "host": info.host, "snoops": info.snoops }))
            }
            ["export", length, ref names @ ..] => {
                let buffer = self.card.export(length.parse()?, hosts(names)?)?;
                self.exports(buffer)
            }
            ["export-paged", length, ref names @ ..] => {
                let buffer = self.card.export_paged(length.parse()?, hosts(names)?)?;
                self.exports(buffer)
            }
            ["memory", length] => {
                self.made += 1;
                self.memories.insert(self.made, OwnMemory::new(Pages::new(length.parse()?))?);
                Ok(json!({ "memory": self.made }))
            }
            ["export-own", memory, start, length, ref names @ ..] => {
                let range = range(start, length)?;
                let buffer = self.card.export_own(self.memory(memory)?, range, hosts(names)?)?;
                self.exports(buffer)
            }
            ["map-own", memory, start, length, handle, offset, mode] => {
                let (range, handle) = (range(start, length)?, handle.parse()?);
                let (memory, mode) = (self.memory(memory)?, mode_of(mode)?);
                let made = self.card.map_own(memory, range, &handle, offset.parse()?, mode)?;
                self.maps(made)
            }
            ["take-back", number, offset] => {
                let (number, offset) = (number.parse()?, offset.parse::<usize>()?);
                let memory = self.memories.remove(&number).ok_or("there is no such memory")?;
                match memory.take_back::<Pages>() {
                    Ok(back) => Ok(json!({ "value": word(back.as_ref(), offset)? })),
                    Err(failed) => {
                        self.memories.insert(number, failed.back);
                        Err(failed.error.into())
                    }
                }
            }
            ["page-out", export] => {
                self.exported(export)?.page_out()?;
                Ok(json!({ "told": true }))
            }
            ["pages", export] => {
                let buffer = self.exported(export)?;
                pages(buffer.address(), buffer.len() as u64)
            }
            ["follow", export, count] => stream::follow(self.exported(export)?, count.parse()?),
            ["unexport", number] => {
                self.exports.remove(&number.parse()?).ok_or("there is no such export")?;
                Ok(json!({ "unexported": true }))
            }
            ["map", handle, offset, length, mode] => {
                let handle: Handle = handle.parse()?;
                let made = self.card.map(&handle, offset.parse()?, length.parse()?, mode_of(mode)?)?;
                self.maps(made)
            }
            ["forge", handle, key] => {
                let known: Handle = handle.parse()?;
                let forged = Handle::new(known.node, known.export, key.parse()?, known.length);
                Ok(json!({ "handle": forged.to_string() }))
            }
            ["unmap", number] => {
                self.mappings.remove(&number.parse()?).ok_or("there is no such mapping")?;
                Ok(json!({ "unmapped": true }))
            }
            ["load", export, offset] => {
                Ok(json!({ "value": self.exported(export)?.load_u32(offset.parse()?)? }))
            }
            ["wait", export, offset, value, ref seconds @ ..] => {
                let seconds = seconds.first().map(|seconds| seconds.parse().map(Duration::from_secs));
                let patience = seconds.transpose()?.unwrap_or(PATIENCE);
                let found = self.exported(export)?.wait_timeout(offset.parse()?, value.parse()?, patience)?;
                Ok(json!({ "value": found }))
            }
            ["check", export, offset, length, seed] => {
                let mut bytes = vec![0; length.parse()?];
                self.exported(export)?.read(offset.parse()?, &mut bytes)?;
                let arrived = find_difference(seed.parse()?, 0, &bytes).is_none();
                Ok(json!({ "arrived": arrived }))
            }
            [_, mapping, ..] => self.obey_about(self.mapped(mapping)?, &words),
            _ => Err(format!("what is {line:?}?").into()),
        }
    }

    fn obey_about(&self, mapping: &SendBuffer, words: &[&str]) -> Outcome<Value> {
        match *words {
            ["mode", _, mode] => {
                mapping.set_mode(mode_of(mode)?)?;
                Ok(json!({ "mode": mapping.mode().name() }))
            }
            ["store", _, offset, value] => {
                mapping.store_u32(offset.parse()?, value.parse()?)?;
                Ok(json!({ "stored": true }))
            }
            ["fill", _, offset, length, seed] => {
                let mut bytes = vec![0; length.parse()?];
                fill_pattern(seed.parse()?, 0, &mut bytes);
                mapping.write(offset.parse()?, &bytes)?;
                Ok(json!({ "filled": bytes.len() }))
            }
            ["send", _, offset, length] => {
                mapping.send(offset.parse()?, length.parse()?)?;
                mapping.wait_until_sent_timeout(PATIENCE)?;
                Ok(json!({ "sent": true }))
            }
            ["batter", _, rounds] => {
                let (length, rounds) = (mapping.len(), rounds.parse()?);
                for _ in 0..rounds {
                    mapping.send(0, length)?;
                }
                mapping.wait_until_sent_timeout(PATIENCE)?;
                Ok(json!({ "started": rounds * length.div_ceil(4096) }))
            }
            ["watch", _, rounds] => watch(mapping, rounds.parse()?),
            ["own", _, offset] => Ok(json!({ "value": mapping.load_u32(offset.parse()?)? })),
            ["state", _] => Ok(json!({ "state": state_name(mapping.state()?) })),
            ["stream", _, count] => stream::stream(mapping, count.parse()?),
            ["flood", _] => {
                print(&json!({ "flooding": true }))?;
                for value in 1.. {
                    mapping.store_u32(0, value)?;
                }
                Ok(Value::Null)
            }
            _ => Err(format!("what is {words:?}?").into()),
        }
    }

    fn exports(&mut self, buffer: ReceiveBuffer) -> Outcome<Value> {
        let handle = buffer.handle()?.to_string();
        self.made += 1;
        self.exports.insert(self.made, buffer);
        Ok(json!({ "export": self.made, "handle": handle }))
    }

    fn maps(&mut self, buffer: SendBuffer) -> Outcome<Value> {
        self.made += 1;
        self.mappings.insert(self.made, buffer);
        Ok(json!({ "mapping": self.made }))
    }

    fn memory(&self, number: &str) -> Outcome<&OwnMemory> {
        let found = self.memories.get(&number.parse()?);
        Ok(found.ok_or_else(|| format!("there is no memory {number}"))?)
    }

    fn exported(&self, number: &str) -> Outcome<&ReceiveBuffer> {
        let found = self.exports.get(&number.parse()?);
        Ok(found.ok_or_else(|| format!("there is no export {number}"))?)
    }

    fn mapped(&self, number: &str) -> Outcome<&SendBuffer> {
        let found = self.mappings.get(&number.parse()?);
        Ok(found.ok_or_else(|| format!("there is no mapping {number}"))?)
    }
}

fn hosts(names: &[&str]) -> Outcome<Vec<u32>> {
    Ok(names.iter().map(|host| host.parse()).collect::<Result<_, _>>()?)
}

fn range(start: &str, length: &str) -> Outcome<Range<usize>> {
    let start: usize = start.parse()?;
    Ok(start..start.checked_add(length.parse()?).ok_or("there is no such range")?)
}

/// Returns the 4 bytes at an offset.
fn word(bytes: &[u8], offset: usize) -> Outcome<u32> {
    let bytes = bytes.get(offset..).and_then(|bytes| bytes.first_chunk());
    Ok(bytes.copied().map(u32::from_le_bytes).ok_or("the memory has no such bytes")?)
}

/// Sends the first page, and polls the engine until it has read all of it.
fn watch(mapping: &SendBuffer, rounds: u32) -> Outcome<Value> {
    let mut left = BTreeSet::new();
    for _ in 0..rounds {
        mapping.send(0, 4096)?;
        let mut before = 1024;
        while let Some(underway) = mapping.underway(0)?.filter(|underway| underway.is_base) {
            if underway.words_left > before {
                return Err(format!("{} words are left, after {before}", underway.words_left).into());
            }
            before = underway.words_left;
            left.insert(before);
        }
    }
    mapping.wait_until_sent_timeout(PATIENCE)?;
    Ok(json!({ "left": left }))
}

fn mode_of(name: &str) -> Outcome<Mode> {
    let found = Mode::ALL.into_iter().find(|mode| mode.name() == name);
    Ok(found.ok_or_else(|| format!("there is no mode {name:?}"))?)
}

fn state_name(state: MappingState) -> &'static str {
    match state {
        MappingState::Mapped => "mapped",
        MappingState::TakenBack => "taken back",
        MappingState::Lost => "lost",
        _ => "unknown",
    }
}
