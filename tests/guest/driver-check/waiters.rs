//! Several waiters on one queue, each at its own entry. Arming for one entry must not take another
//! waiter's wake-up.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hamlyn_abi::uapi::{HamlynQueueWait, ULN_WAIT_FOREVER};
use rustix::event::PollFlags;

use crate::bench::{Bench, ENTRIES, poll_for};
use crate::checks::Checks;
use crate::common::Outcome;

/// Number of messages that a waiter sleeps for.
const ROUNDS: u32 = 200;
/// A waiter that wakes later than this has lost its wake-up.
const WATCHDOG: Duration = Duration::from_secs(60);
/// A time-out so short that its wait does little more than arm.
const BRIEF_NS: i64 = 50_000;

pub(crate) fn waiters(checks: &mut Checks, path: &Path) -> Outcome {
    let late = beside_one_that_arms(checks, &mut Bench::create(path)?)?;
    // A waiter that was not woken sleeps on, and would block this process.
    if late { Ok(()) } else { poll_beside_one_that_waits(checks, &mut Bench::create(path)?) }
}

/// Sleeps for each of many messages, while another thread arms for an entry far ahead. Returns
/// whether a wake-up was lost.
fn beside_one_that_arms(checks: &mut Checks, bench: &mut Bench) -> Outcome<bool> {
    let (over, woken) =
        (&*Box::leak(Box::new(AtomicBool::new(false))), &*Box::leak(Box::new(AtomicU32::new(0))));
    let (device, far) = (bench.device.clone(), bench.wait(ENTRIES - 1, 0));
    let arming = thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            let _ = device.queue_arm(&mut far.clone());
        }
    });
    let (device, near) = (bench.device.clone(), bench.wait(0, ULN_WAIT_FOREVER));
    let waiting = thread::spawn(move || {
        for cursor in 0..ROUNDS {
            device.queue_wait(&mut HamlynQueueWait { cursor, ..near })?;
            woken.store(cursor + 1, Ordering::Release);
        }
        Ok::<_, std::io::Error>(())
    });
    let mut lost = None;
    for cursor in 0..ROUNDS {
        // Time to fall asleep; nothing depends on it.
        thread::sleep(Duration::from_millis(2));
        bench.send(cursor);
        let sent = Instant::now();
        while woken.load(Ordering::Acquire) <= cursor && sent.elapsed() < WATCHDOG && !waiting.is_finished() {
            thread::sleep(Duration::from_micros(200));
        }
        if woken.load(Ordering::Acquire) <= cursor {
            lost = Some(cursor);
            break;
        }
    }
    over.store(true, Ordering::Relaxed);
    arming.join().map_err(|_| "the arming thread panicked")?;
    let found = format!("message {} did not wake its waiter", lost.unwrap_or(0));
    checks.note("each message wakes its waiter, while another thread arms", lost.is_none(), &found)?;
    if lost.is_none() {
        checks.done("all waits", waiting.join().map_err(|_| "the waiting thread panicked")?)?;
    }
    Ok(lost.is_some())
}

/// Polls for each of many messages, while another thread waits repeatedly for an entry far ahead.
fn poll_beside_one_that_waits(checks: &mut Checks, bench: &mut Bench) -> Outcome {
    let over = &*Box::leak(Box::new(AtomicBool::new(false)));
    let (device, far) = (bench.device.clone(), bench.wait(ENTRIES - 1, BRIEF_NS));
    let waiting = thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            let _ = device.queue_wait(&mut far.clone());
        }
    });
    let mut lost = None;
    for cursor in 0..ROUNDS {
        bench.device.queue_arm(&mut bench.wait(cursor, 0))?;
        let device = bench.device.clone();
        let polling = thread::spawn(move || poll_for(&device, WATCHDOG));
        thread::sleep(Duration::from_millis(2));
        bench.send(cursor);
        let sent = Instant::now();
        let events = polling.join().map_err(|_| "the polling thread panicked")??;
        // Poll checks once more when its time is over, and then finds a message that woke no
        // thread.
        if events != PollFlags::IN || sent.elapsed() >= WATCHDOG / 2 {
            lost = Some(cursor);
            break;
        }
    }
    over.store(true, Ordering::Relaxed);
    waiting.join().map_err(|_| "the waiting thread panicked")?;
    let found = format!("message {} did not wake its waiter", lost.unwrap_or(0));
    checks.note("each message wakes its poller, while another thread waits", lost.is_none(), &found)
}
