//! A process unmaps and moves its memory while messages for it arrive. A message accesses what is
//! mapped at its address when it is executed, and never a page that was mapped there before.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use hamlyn::Pages;
use hamlyn::dart::Operation;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::trap::DART_TRAP_NO_MEMORY;
use hamlyn_sys::{Access, Device, Mapping};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::way::{LENGTH, Way, check, open_endpoint};

const ROUNDS: u64 = 40;

pub(crate) fn run(path: &Path) -> Outcome {
    let (unmapped, found_again) = unmap(path)?;
    let moved = move_under_traffic(path)?;
    print(&json!({ "unmapped": unmapped, "found_again": found_again, "moved": moved }))
}

/// Unmaps memory and maps other memory at its address. Returns how often it was unmapped, and how
/// often it was found again.
fn unmap(path: &Path) -> Outcome<(u64, u64)> {
    let device = Device::open(path)?;
    let mut target = Mapping::anonymous(LENGTH)?;
    let at = target.address();
    let way = Way::open(&device, open_endpoint(&device, &target)?)?;
    let (mut unmapped, mut found_again) = (0, 0);
    for round in 0..ROUNDS {
        way.put(round)?;
        check(&target, round, "before it is unmapped")?;
        drop(target);
        let traps = way.traps();
        way.put(round + 100)?;
        let trap = way.state.load_u32(DART_STATE_TRAP as usize);
        if (way.traps(), trap) != (traps + 1, DART_TRAP_NO_MEMORY) {
            return Err(format!("round {round}: {} traps, the last {trap}", way.traps()).into());
        }
        unmapped += 1;
        target = Mapping::anonymous(LENGTH)?;
        if target.address() != at {
            break;
        }
        found_again += 1;
    }
    Ok((unmapped, found_again))
}

/// Moves memory away, maps a file's pages there, and moves it back, while messages arrive. Returns
/// the number of rounds.
fn move_under_traffic(path: &Path) -> Outcome<u64> {
    let device = Device::open(path)?;
    let mut target = Mapping::over(Pages::new(LENGTH));
    let way = Way::open(&device, open_endpoint(&device, &target)?)?;
    for round in 0..ROUNDS {
        let file = memfd_create("moved", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, LENGTH as u64)?;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| storm(&way, &done));
            let shared = target.share(&file);
            done.store(true, Ordering::Release);
            shared
        })?;
        way.put(round)?;
        check(&target, round, "in a file's pages")?;
        let other = Mapping::of_file(&file, 0, LENGTH, Access::Read)?;
        check(&other, round, "in the file")?;
        // Once taken back, the bytes are in private memory again, at the same addresses.
        let owner = target.take_back::<Pages>().map_err(|_| "the memory is not given back")?;
        target = Mapping::over(owner);
        way.put(round + 100)?;
        check(&target, round + 100, "in private memory")?;
        check(&other, round, "in the file, which is out of reach")?;
    }
    if way.traps() == 0 { Ok(ROUNDS) } else { Err(format!("{} traps", way.traps()).into()) }
}

/// Writes all over the target while there is room in the queue.
fn storm(way: &Way, done: &AtomicBool) {
    let mut sent = way.state.load_u32_acquire(DART_STATE_LEFT as usize);
    while !done.load(Ordering::Acquire) {
        if sent.wrapping_sub(way.state.load_u32_acquire(DART_STATE_LEFT as usize)) < DART_MAX_SENDS / 2 {
            let place = (sent as usize % (LENGTH / 32)) * 32;
            way.send(&Operation::write(place as u64), 0, 32);
            sent = sent.wrapping_add(1);
        }
    }
}
