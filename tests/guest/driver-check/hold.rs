//! The state of a file after its card is reset or removed.

use std::path::Path;

use hamlyn_abi::hamlyn::window::HAMLYN_WINDOW_TAIL;
use hamlyn_abi::uapi::*;
use hamlyn_sys::{Access, Device, Mapping};
use rustix::event::PollFlags;
use rustix::io::Errno;
use serde_json::json;
use zerocopy::FromZeros;

use crate::bench::{Bench, PATIENCE, Terminus, WINDOW, object, poll_for, slot, wait_while};
use crate::checks::Checks;
use crate::common::{self, Outcome, print};

/// Closes a file with a large slot and a terminus as soon as it reports the card's reset.
pub(crate) fn close_on_reset(path: &Path, mib: usize) -> Outcome {
    let (device, area) = (Device::open(path)?, Mapping::anonymous(mib << 20)?);
    device.slot_create(&mut slot(&area), &area, None)?;
    device.terminus_create(&mut HamlynTerminusCreate::default())?;
    print(&json!({ "holding": true }))?;
    let events = poll_for(&device, PATIENCE)?;
    drop(device);
    if !events.contains(PollFlags::HUP) {
        return Err("the reset was not told".into());
    }
    print(&json!({ "closed": true }))
}

pub(crate) fn hold(checks: &mut Checks, path: &Path) -> Outcome {
    let bench = &mut Bench::create(path)?;
    bench.device.queue_arm(&mut bench.wait(0, 0))?;
    let woken = wait_while(bench, 0, |_, _| {
        print(&json!({ "holding": true }))?;
        common::read_line().map(drop)
    })?;
    checks.refused("the waiter", woken, Errno::NODEV)?;
    let events = poll_for(&bench.device, PATIENCE)?;
    checks.holds("poll", events == PollFlags::ERR | PollFlags::HUP)?;

    let (device, area) = (&bench.device, &bench.area);
    let terminus = bench.terminus.create.terminus;
    let mut buffer = HamlynSendBuffer { terminus, address: area.address(), length: 1, ..Default::default() };
    let results = [
        ("query", device.query(&mut UlnQuery::default())),
        ("statistics", device.statistics(&mut UlnStatistics::new_zeroed())),
        ("terminus", device.terminus_create(&mut HamlynTerminusCreate::default())),
        ("queue", device.queue_create(&mut HamlynQueueCreate { entries: 2, ..Default::default() })),
        ("slot", device.slot_create(&mut slot(area), area, None)),
        ("set send buffer", device.send_buffer_set(&mut buffer, area)),
        (
            "clear send buffer",
            device.send_buffer_clear(&mut HamlynSendBuffer { address: 0, length: 0, ..buffer }),
        ),
        ("wait", device.queue_wait(&mut bench.wait(0, 0))),
        ("arm", device.queue_arm(&mut bench.wait(0, 0))),
        ("destroy slot", device.slot_destroy(&mut object(bench.slot.slot))),
        ("destroy queue", device.queue_destroy(&mut object(bench.queue.queue))),
        ("destroy terminus", device.terminus_destroy(&mut object(terminus))),
        ("map", device.map(bench.terminus.create.window_offset, WINDOW, Access::ReadWrite).map(drop)),
    ];
    for (call, result) in results {
        checks.refused(call, result, Errno::NODEV)?;
    }
    bench.send(1);
    let Terminus { window, status, .. } = &bench.terminus;
    checks.holds("the old window is still there", window.load_u32(HAMLYN_WINDOW_TAIL as usize) == 1)?;
    checks.holds("but leads nowhere", status.load_u32(0) == 0 && bench.notifications.load_u64(0) == 0)
}
