//! Messages to a file's pages, one of which cannot be read in because its file system is frozen
//! meanwhile.

use std::fs::OpenOptions;
use std::io::BufRead;
use std::path::Path;
use std::time::{Duration, Instant};

use hamlyn::dart::Operation;
use hamlyn_sys::{Access, Device, Mapping};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::way::{PAGE, Way, open_endpoint};

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(path: &Path, file: &Path) -> Outcome {
    let device = Device::open(path)?;
    let file = OpenOptions::new().read(true).write(true).open(file)?;
    let target = Mapping::of_file(&file, 0, 2 * PAGE, Access::ReadWrite)?;
    let way = Way::open(&device, open_endpoint(&device, &target)?)?;
    way.send(&Operation::write(0), 0, 32);
    way.settle(0)?;
    print(&json!({ "written": 1 }))?;
    let mut lines = std::io::stdin().lock().lines();
    lines.next().transpose()?;
    let (before, begun) = (way.left(), Instant::now());
    way.send(&Operation::write(PAGE as u64), 0, 32);
    while way.left() == before {
        if begun.elapsed() > PATIENCE {
            return Err("the message does not leave".into());
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    print(&json!({ "sent": 2 }))?;
    // Waits until it is killed.
    lines.next().transpose()?;
    Ok(())
}
