//! Files of single objects: what they report, and when they are refused.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use hamlyn_abi::uapi::{HamlynQueueCreate, HamlynQueueWait, UlnObjectFile};
use hamlyn_sys::Device;
use rustix::event::PollFlags;
use rustix::io::Errno;

use crate::bench::{Bench, ENTRIES, PATIENCE, object, poll_for};
use crate::checks::Checks;
use crate::common::Outcome;

pub(crate) fn object_files(checks: &mut Checks, path: &Path) -> Outcome {
    let bench = &mut Bench::create(path)?;
    let (device, other) = (bench.device.clone(), Device::open(path)?);
    let offset = bench.queue.offset;
    let open = |device: &Device, offset, what| device.object_file(&mut UlnObjectFile { offset, what });
    checks.refused("file of no object", open(&device, 0x7fff_f000, 0), Errno::NOENT)?;
    checks.refused("file of another file's queue", open(&other, offset, 0), Errno::NOENT)?;
    checks.refused("file of a queue, with bits", open(&device, offset, 1), Errno::INVAL)?;
    let terminus = bench.terminus.create.window_offset;
    checks.refused("file of a terminus", open(&device, terminus, 0), Errno::OPNOTSUPP)?;

    let file = open(&device, offset, 0)?;
    for cursor in 0..3 {
        let mut wait = bench.wait(cursor, 0);
        checks.done("arm", device.queue_arm(&mut wait))?;
        let asleep = wait.ready == 0 && poll_for(&file, Duration::from_millis(1))?.is_empty();
        checks.holds("the queue's file is not readable", asleep)?;
        bench.send(cursor);
        checks.holds("a message makes it readable", poll_for(&file, PATIENCE)? == PollFlags::IN)?;
        let card = poll_for(&device, Duration::ZERO)?;
        checks.holds("and not the card's file", card.is_empty())?;
    }

    let mut queue = HamlynQueueCreate { entries: ENTRIES, ..Default::default() };
    device.queue_create(&mut queue)?;
    let second = open(&device, queue.offset, 0)?;
    device.queue_arm(&mut HamlynQueueWait { queue: queue.queue, ..Default::default() })?;
    checks.holds("another queue's file is not readable", poll_for(&second, Duration::ZERO)?.is_empty())?;
    device.queue_destroy(&mut object(queue.queue))?;
    let gone = poll_for(&second.as_fd(), PATIENCE)?;
    checks.holds("a destroyed queue's file hangs up", gone.contains(PollFlags::HUP))
}
