//! Sleeps in the driver's own calls. The library checks again within 100 ms, which would hide a
//! lost wake-up.

use std::path::Path;
use std::sync::mpsc;

use hamlyn::dart::Operation;
use hamlyn_abi::dart::uapi::*;
use hamlyn_sys::{Device, Mapping};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::way::{LENGTH, Way, open_endpoint};

/// Number of messages to sleep for in each way, one after the other.
const ROUNDS: u32 = 500;
/// Room for the records of all messages.
const RECORDS: u32 = 1024;
/// Timeout that means a lost wake-up.
const LOST_NS: i64 = 60_000_000_000;

/// One thread sends to this process' own memory. Another sleeps until each message has its effect:
/// a record, room after a message has left, an exception that no queue takes.
pub(crate) fn run(path: &Path) -> Outcome {
    let device = Device::open(path)?;
    let target = Mapping::anonymous(LENGTH)?;
    let mut queue = DartQueue { records: RECORDS, ..DartQueue::default() };
    device.card_call::<DART_IOC_QUEUE_OPEN, _>(&mut queue, &[])?;
    let way = Way::telling(&device, open_endpoint(&device, &target)?, queue.queue)?;
    let [sender, receiver] = way.ends;
    let (next, operations) = mpsc::sync_channel::<Operation>(0);
    let way = &way;
    std::thread::scope(|scope| {
        scope.spawn(move || operations.iter().for_each(|operation| way.send(&operation, 0, 0)));
        for round in 0..ROUNDS {
            next.send(Operation::registers(round.into()).tell())?;
            let mut wait = DartQueueWait { timeout_ns: LOST_NS, queue: queue.queue, taken: round };
            device.card_call::<DART_IOC_QUEUE_WAIT, _>(&mut wait, &[])?;
            let left = way.left();
            next.send(Operation::registers(0))?;
            let mut wait = DartLeftWait { timeout_ns: LOST_NS, connection: sender, left };
            device.card_call::<DART_IOC_LEFT_WAIT, _>(&mut wait, &[])?;
            // Past the target's end.
            next.send(Operation::write(2 * LENGTH as u64))?;
            let mut wait = DartExceptionWait { timeout_ns: LOST_NS, connection: receiver, exceptions: round };
            device.card_call::<DART_IOC_EXCEPTION_WAIT, _>(&mut wait, &[])?;
        }
        drop(next);
        Outcome::Ok(())
    })?;
    print(&json!({ "rounds": ROUNDS }))
}
