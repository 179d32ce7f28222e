//! One process with many objects, and another that uses the card while those of the first are
//! released.

use std::path::Path;

use hamlyn_abi::uapi::UlnStatistics;
use hamlyn_sys::{Device, Mapping};
use serde_json::json;
use zerocopy::FromZeros;

use crate::bench::{PAGE, slot};
use crate::common::{self, Outcome, print};

/// Pages at the beginning and the end of a release that are excluded, because the kernel counts
/// late.
const EDGE: u64 = 50_000;

pub(crate) fn hoard(path: &Path, slots: u32, pages: usize) -> Outcome {
    let (device, area) = (Device::open(path)?, Mapping::anonymous(pages * PAGE)?);
    for _ in 0..slots {
        device.slot_create(&mut slot(&area), &area, None)?;
    }
    print(&json!({ "slots": slots }))?;
    common::read_line().map(drop)
}

fn unpinned() -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/vmstat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("nr_foll_pin_released "));
    Ok(line.ok_or("no count of unpinned pages")?.trim().parse()?)
}

/// Counts the calls that began after some of the pages were unpinned and ended before all were.
pub(crate) fn beside(path: &Path, pages: u64) -> Outcome {
    let device = Device::open(path)?;
    let before = unpinned()?;
    let (begun, over) = (before + EDGE, before + pages - EDGE);
    print(&json!({ "watching": before }))?;
    let (mut calls, mut now) = (0, before);
    while now < over {
        let start = now;
        device.statistics(&mut UlnStatistics::new_zeroed())?;
        now = unpinned()?;
        calls += u32::from(start > begun && now < over);
    }
    print(&json!({ "calls": calls }))
}
