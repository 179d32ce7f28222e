//! A server whose process has no descriptor left. This test has its own process, because the limit
//! applies to a process.

#[allow(dead_code, reason = "made for the protocol's tests")]
#[path = "protocol/harness.rs"]
mod harness;

use std::os::fd::AsFd;

use harness::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const PAGE: u64 = 4096;
const READ_WRITE: u32 = 3;

#[test]
fn descriptor_limit_is_reported_as_emfile() {
    let mut harness = Harness::ready();
    let memory = memfd(PAGE);
    setrlimit(Resource::Nofile, Rlimit { current: Some(128), ..getrlimit(Resource::Nofile) }).unwrap();
    let mut copies: Vec<_> = std::iter::from_fn(|| memory.try_clone().ok()).collect();
    let refused = harness.map(READ_WRITE, 0, 0, PAGE, &[memory.as_fd()]);
    assert_eq!(refused.errno(), libc::EMFILE as u32);
    // After some descriptors are freed, the map succeeds.
    copies.clear();
    harness.map(READ_WRITE, 0, 0, PAGE, &[memory.as_fd()]).ok();
    assert_eq!(harness.server.bus().dma.map_count(), 1);
}
