//! An exporter that unmaps its memory, by commands on standard input. It uses the driver directly,
//! because the library keeps exported memory mapped.
//!
//! | line | answer |
//! |---|---|
//! | `page-out` | `told`: advises the kernel to page out the exported pages |
//! | `pages` | the number of `present` and of `swapped` pages |
//! | `replace` | `replaced`: unmaps the memory, and maps other memory at its address |
//! | `is-own` | whether the memory at the address is `unchanged` since |

use std::io::BufRead;
use std::path::Path;

use hamlyn::shrimp::Handle;
use hamlyn_abi::shrimp::uapi::*;
use hamlyn_sys::{Device, Mapping};
use serde_json::{Value, json};

use crate::common::{Outcome, fill_pattern, find_difference, print};
use crate::pages::pages;

/// Bytes of the exported memory.
const LENGTH: usize = 4 * 4096;
/// Seed of the other memory's contents.
const SEED: u64 = 0x0f0f;

pub(crate) fn run(node: &Path, host: u32) -> Outcome {
    let device = Device::open(node)?;
    let mut memory = Mapping::anonymous(LENGTH)?;
    let mut export = ShrimpExport {
        address: memory.address(),
        length: LENGTH as u64,
        nodes: u64::MAX,
        policy: SHRIMP_POLICY_PAGED,
        ..ShrimpExport::default()
    };
    device.card_call::<SHRIMP_IOC_EXPORT, _>(&mut export, &[&memory])?;
    let handle = Handle::new(host, export.export, export.key, LENGTH as u64);
    print(&json!({ "handle": handle.to_string() }))?;
    for line in std::io::stdin().lock().lines() {
        let answer = obey(&line?, &mut memory).unwrap_or_else(|error| json!({ "error": error.to_string() }));
        print(&answer)?;
    }
    Ok(())
}

fn obey(line: &str, memory: &mut Mapping) -> Outcome<Value> {
    match line {
        "page-out" => {
            memory.page_out()?;
            Ok(json!({ "told": true }))
        }
        "pages" => pages(memory.address(), LENGTH as u64),
        "replace" => {
            let address = memory.address();
            *memory = replace(std::mem::replace(memory, Mapping::anonymous(4096)?))?;
            let mut bytes = vec![0; LENGTH];
            fill_pattern(SEED, 0, &mut bytes);
            memory.write(0, &bytes);
            Ok(json!({ "replaced": memory.address() == address }))
        }
        "is-own" => {
            let mut bytes = vec![0; LENGTH];
            memory.read(0, &mut bytes);
            Ok(json!({ "unchanged": find_difference(SEED, 0, &bytes).is_none() }))
        }
        _ => Err(format!("what is {line:?}?").into()),
    }
}

/// Unmaps memory, and maps other memory until some is at the same address.
fn replace(old: Mapping) -> Outcome<Mapping> {
    let address = old.address();
    drop(old);
    let mut elsewhere = Vec::new();
    for _ in 0..1000 {
        let found = Mapping::anonymous(LENGTH)?;
        if found.address() == address {
            return Ok(found);
        }
        elsewhere.push(found);
    }
    Err("the kernel gives no memory at the address".into())
}
