//! Location of the pages of this process' memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

use serde_json::{Value, json};

use crate::Outcome;

const PAGE: u64 = 4096;
/// Bits of a word in a process' page map.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// The page's frame number, which only root can read.
const FRAME: u64 = (1 << 55) - 1;

/// Returns the page map's words for the pages of these bytes.
fn words(address: u64, length: u64) -> Outcome<Vec<u64>> {
    let map = File::open("/proc/self/pagemap")?;
    let word = |page: u64| {
        let mut word = [0; 8];
        map.read_exact_at(&mut word, page * 8)?;
        Ok(u64::from_le_bytes(word))
    };
    (address / PAGE..(address + length).div_ceil(PAGE)).map(word).collect()
}

/// Counts the `present` and the `swapped` pages of these bytes.
pub fn pages(address: u64, length: u64) -> Outcome<Value> {
    let words = words(address, length)?;
    let having = |bit: u64| words.iter().filter(|word| **word & bit != 0).count();
    Ok(json!({ "present": having(PRESENT), "swapped": having(SWAPPED) }))
}

/// Returns the frames of the present pages; 0 for the others.
#[allow(dead_code, reason = "not all that include this ask for it")]
pub fn frames(address: u64, length: u64) -> Outcome<Vec<u64>> {
    let frame = |word: u64| if word & PRESENT == 0 { 0 } else { word & FRAME };
    Ok(words(address, length)?.into_iter().map(frame).collect())
}
