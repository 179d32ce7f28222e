//! Accesses the card's BARs as an operating system that follows no rules could.
//!
//! The program reads and writes the BARs as `root` through the files in `/sys`. It covers every
//! byte of express memory. Of the BARs that the card answers by itself, it covers as many places as
//! time allows, or all of them with `--all`. The kernel must be started with `iomem=relaxed`, or
//! the card must have no driver.

use std::error::Error;
use std::fs::{self, File};
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn_abi::family::express::ULN_PCI_EXPRESS_CLASS;
use hamlyn_abi::family::identity::{ULN_PCI_CLASS, ULN_PCI_DOORBELL_CLASS, ULN_PCI_VENDOR};
use hamlyn_examples as common;
use hamlyn_sys::{Access, Mapping};
use serde_json::json;

/// The classes of a card's functions.
const CLASSES: [u32; 3] = [ULN_PCI_CLASS, ULN_PCI_DOORBELL_CLASS, ULN_PCI_EXPRESS_CLASS];
/// The resource flag in `/sys` of a BAR that is memory.
const IS_MEMORY: u64 = 0x200;
/// Configuration space: offset of the capability pointer, and the id of the MSI-X capability.
const CAPABILITIES: usize = 0x34;
const MSIX: u8 = 0x11;
/// Maximum number of accesses to a BAR that the card answers by itself, as these are slow. They are
/// evenly spaced; `--all` lifts the limit.
const MOST_SLOW: usize = 1 << 15;

/// Reads and writes the BARs of this machine's card: every byte of express memory, and many places
/// of the others
#[derive(Debug, Parser)]
struct Options {
    /// Accesses every byte of all BARs, which takes minutes
    #[arg(long, global = true)]
    all: bool,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Counts how often each of these words is in the BARs
    Search {
        /// Words of 8 bytes
        words: Vec<u64>,
    },
    /// Writes a word everywhere in the function with express memory
    Fill {
        /// The word
        word: u64,
    },
    /// Writes a word everywhere in the other functions, except for the BARs with interrupt tables.
    /// The card is unusable afterwards
    Wreck {
        /// The word
        word: u64,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let Options { role, all } = Options::parse();
        let bars = bars(all)?;
        match role {
            Role::Search { words } => search(&bars, &words),
            Role::Fill { word } => fill(bars.iter().filter(|bar| bar.is_express), word),
            Role::Wreck { word } => {
                fill(bars.iter().filter(|bar| !bar.is_express && !bar.has_interrupts), word)
            }
        }
    })
}

/// A BAR of one of the card's functions.
struct Bar {
    file: PathBuf,
    is_express: bool,
    has_interrupts: bool,
    /// Whether every word is accessed.
    whole: bool,
    memory: Mapping,
}

fn bars(all: bool) -> Outcome<Vec<Bar>> {
    let mut bars = Vec::new();
    for function in fs::read_dir("/sys/bus/pci/devices")? {
        let function = function?.path();
        let id = |name: &str| Ok::<_, Box<dyn Error>>(number(&fs::read_to_string(function.join(name))?)?);
        let class = id("class")? as u32;
        if id("vendor")? != u64::from(ULN_PCI_VENDOR) || !CLASSES.contains(&class) {
            continue;
        }
        let is_express = class == ULN_PCI_EXPRESS_CLASS;
        // Makes the function decode its addresses. A driver, if bound, has done this already.
        if !function.join("driver").exists() {
            fs::write(function.join("enable"), "1")?;
        }
        let interrupts = bar_of_interrupts(&fs::read(function.join("config"))?);
        for (index, line) in fs::read_to_string(function.join("resource"))?.lines().take(6).enumerate() {
            let fields = line.split(' ').map(number).collect::<Result<Vec<_>, _>>()?;
            let [start, end, flags] = fields[..] else { return Err(format!("what is {line:?}?").into()) };
            if flags & IS_MEMORY == 0 || end == 0 {
                continue;
            }
            let file = function.join(format!("resource{index}"));
            let memory = map(&file, (end + 1 - start) as usize)?;
            let has_interrupts = interrupts == Some(index);
            bars.push(Bar { file, is_express, has_interrupts, whole: all || is_express, memory });
        }
    }
    Ok(bars)
}

/// Parses a number in the format of `/sys`.
fn number(text: &str) -> Result<u64, ParseIntError> {
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16)
}

fn map(file: &Path, length: usize) -> Outcome<Mapping> {
    let open = File::options().read(true).write(true).open(file)?;
    let mapped = Mapping::of_file(&open, 0, length, Access::ReadWrite);
    Ok(mapped.map_err(|error| format!("{} cannot be mapped: {error}", file.display()))?)
}

/// Returns the BAR with the MSI-X table.
fn bar_of_interrupts(config: &[u8]) -> Option<usize> {
    let byte = |at: usize| config.get(at).copied();
    let mut at = usize::from(byte(CAPABILITIES)?);
    for _ in 0..48 {
        if at == 0 {
            return None;
        }
        if byte(at)? == MSIX {
            return Some(usize::from(byte(at + 4)? & 7));
        }
        at = usize::from(byte(at + 1)?);
    }
    None
}

impl Bar {
    /// Returns the offsets to access: all of them in express memory, and as many of the others as
    /// time allows.
    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let length = self.memory.length();
        let step = if self.whole { 8 } else { (length / MOST_SLOW).next_power_of_two().max(8) };
        (0..length).step_by(step)
    }
}

fn search(bars: &[Bar], words: &[u64]) -> Outcome {
    let mut counts = vec![0_u64; words.len()];
    for bar in bars {
        let mut seen = 0_u64;
        for place in bar.places() {
            let found = bar.memory.load_u64(place);
            seen += 1;
            for (word, count) in words.iter().zip(&mut counts) {
                *count += u64::from(found == *word);
            }
        }
        let (file, bytes) = (&bar.file, bar.memory.length());
        print(&json!({ "bar": file, "bytes": bytes, "express": bar.is_express, "read": seen }))?;
    }
    print(&json!({ "found": counts }))
}

fn fill<'a>(bars: impl Iterator<Item = &'a Bar>, word: u64) -> Outcome {
    for bar in bars {
        let mut stored = 0_u64;
        for place in bar.places() {
            bar.memory.store_u64(place, word);
            stored += 1;
        }
        print(&json!({ "bar": bar.file, "bytes": bar.memory.length(), "stored": stored }))?;
    }
    print(&json!({ "done": true }))
}
