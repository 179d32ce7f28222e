//! Memory that is mapped again at an unmapped address while the driver still handles its absence. A
//! message sent after the mapping must find the memory.
//!
//! The driver works in two steps: it finds that there is no page, then reports it. Between the two
//! steps, memory may be mapped there and a message may arrive that finds it. The driver must not
//! report a missing page for that message.
//!
//! On the machine's one processor, this program runs before the driver's threads. It interrupts
//! them at any point. If they hold a lock that mapping memory needs, it interrupts them as soon as
//! they release it. It then maps the memory, sends, and lets the threads continue once the message
//! is where it waits for pages.

use std::path::Path;
use std::time::{Duration, Instant};

use hamlyn_sys::{Device, Mapping, urgency};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::way::{LENGTH, Way, check, open_endpoint};

const ROUNDS: u64 = 100;
/// Connections whose messages arrive while there is no memory.
const OTHERS: usize = 8;
/// All send the same pattern, because the other messages may arrive late, too.
const PATTERN: u64 = 5;
/// The longest time, in microseconds, that the driver's threads run before they are interrupted.
const LONGEST: u64 = 1000;
/// The longest time in which a sent message reaches the place where it waits for pages, if the host
/// is not too busy.
const ON_THE_WAY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(path: &Path) -> Outcome {
    urgency::run_first()?;
    let device = Device::open(path)?;
    let mut target = Mapping::anonymous(LENGTH)?;
    let at = target.address();
    let endpoint = open_endpoint(&device, &target)?;
    let way = Way::open(&device, endpoint)?;
    let others = (0..OTHERS).map(|_| Way::open(&device, endpoint)).collect::<Outcome<Vec<_>>>()?;
    others.iter().chain([&way]).for_each(|way| way.fill(PATTERN));
    let missed = || others.iter().map(Way::traps).sum::<u32>();
    for round in 0..ROUNDS {
        drop(target);
        let (before, begun) = (missed(), Instant::now());
        others.iter().for_each(Way::send_all);
        while missed() == before {
            if begun.elapsed() > PATIENCE {
                return Err(format!("round {round}: memory is missing, and no exception reports it").into());
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        std::thread::sleep(Duration::from_micros(round * 37 % LONGEST));
        target = Mapping::anonymous(LENGTH)?;
        if target.address() != at {
            return Err("other memory is not where it had been".into());
        }
        let (before, begun) = (way.left(), Instant::now());
        way.send_all();
        // No other thread runs here before the message is where it waits.
        while way.left() == before && begun.elapsed() < PATIENCE {}
        let left = Instant::now();
        while left.elapsed() < ON_THE_WAY {}
        way.settle(round)?;
        if way.traps() != 0 {
            return Err(format!("round {round}: there is memory, and a message found none").into());
        }
        check(&target, PATTERN, "in memory that is there again")?;
        others.iter().try_for_each(|other| other.settle(round))?;
    }
    print(&json!({ "found_again": ROUNDS, "missed": missed() }))
}
