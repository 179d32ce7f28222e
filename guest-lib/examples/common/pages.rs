//! Where pages of this process' memory are.

use std::fs::File;
use std::os::unix::fs::FileExt;

use serde_json::{Value, json};

use crate::common::Outcome;

const PAGE: u64 = 4096;
/// In a word of a process' page map.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;

/// How many are `present`, and how many `swapped`, of those that these bytes are in.
pub(crate) fn pages(address: u64, length: u64) -> Outcome<Value> {
    let map = File::open("/proc/self/pagemap")?;
    let first = address / PAGE;
    let (mut present, mut swapped) = (0, 0);
    for page in first..(address + length).div_ceil(PAGE) {
        let mut word = [0; 8];
        map.read_exact_at(&mut word, page * 8)?;
        let word = u64::from_le_bytes(word);
        present += u32::from(word & PRESENT != 0);
        swapped += u32::from(word & SWAPPED != 0);
    }
    Ok(json!({ "present": present, "swapped": swapped }))
}
