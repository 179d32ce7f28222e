//! Reads of unpopulated memory, one page in each 2 MiB. Each read costs the kernel a page table
//! that is not accounted to the process.

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
    // At most as many at a time as the queue has room for.
    for (round, some) in (0..).zip(places.chunks(16)) {
        some.iter().for_each(|place| way.read(*place));
        way.settle(round)?;
    }
    print(&json!({ "asked": places.len(), "traps": way.traps() }))?;
    // The memory stays mapped until the other end of standard input has inspected it.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
