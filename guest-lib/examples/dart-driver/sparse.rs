//! Reads of memory that nothing is in, a page in each 2 MiB: each costs the kernel a page table,
//! and the process nothing that it is known by.

use std::io::Read;
use std::path::Path;

use hamlyn_sys::{Device, Mapping};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::way::{Way, open_endpoint};

const STEP: usize = 2 << 20;

pub(crate) fn run(path: &Path, gibibytes: usize) -> Outcome {
    let device = Device::open(path)?;
    let target = Mapping::anonymous(gibibytes << 30)?;
    let way = Way::open(&device, open_endpoint(&device, &target)?)?;
    let places: Vec<u64> = (0..target.length()).step_by(STEP).map(|at| at as u64).collect();
    // No more at a time than have room.
    for (round, some) in (0..).zip(places.chunks(16)) {
        some.iter().for_each(|place| way.read(*place));
        way.settle(round)?;
    }
    print(&json!({ "asked": places.len(), "traps": way.traps() }))?;
    // The memory stays until the other end of standard input has looked.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
