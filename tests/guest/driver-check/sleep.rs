//! Sleeping: wait and poll, and everything that ends them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::uapi::*;
use hamlyn_sys::Device;
use rustix::event::PollFlags;
use rustix::io::Errno;
use zerocopy::FromZeros;

use crate::bench::{Bench, ENTRIES, PATIENCE, object, poll_for, wait_as, wait_while};
use crate::checks::Checks;
use crate::common::Outcome;

/// Longer than the period of the card's handshake timer, unless the timer is restarted.
const LONG_NS: i64 = 10_000_000_000;

pub(crate) fn counter(device: &Device, which: Statistic) -> Outcome<u64> {
    let mut statistics = UlnStatistics::new_zeroed();
    device.statistics(&mut statistics)?;
    Ok(statistics.values[which as usize])
}

pub(crate) fn sleep(checks: &mut Checks, path: &Path) -> Outcome {
    let bench = &mut Bench::create(path)?;
    let device = bench.device.clone();
    checks.refused("look at an empty queue", device.queue_wait(&mut bench.wait(0, 0)), Errno::TIMEDOUT)?;
    checks.refused("wait for 20 ms", device.queue_wait(&mut bench.wait(0, 20_000_000)), Errno::TIMEDOUT)?;
    checks.holds("poll of what is not armed", poll_for(&device, Duration::ZERO)?.is_empty())?;
    poll_wakes(checks, bench, 0)?;
    checks.done("look at what is there", device.queue_wait(&mut bench.wait(0, 0)))?;
    checks.done("wait for what is there", device.queue_wait(&mut bench.wait(0, ULN_WAIT_FOREVER)))?;

    let before = counter(&device, Statistic::Interrupts)?;
    for cursor in 1..=20 {
        let woken = wait_while(bench, cursor, |bench, _| {
            bench.send(cursor);
            Ok(())
        })?;
        checks.done("a message wakes its waiter", woken)?;
    }
    checks.holds("by interrupts", counter(&device, Statistic::Interrupts)? > before)?;
    (21..=40).try_for_each(|cursor| poll_wakes(checks, bench, cursor))?;
    second_pass(checks, &mut Bench::create(path)?)?;
    handshake(checks, bench)?;
    crowd(checks, path)?;

    stopped(checks, bench)?;
    let destroyed = wait_while(bench, 42, |bench, _| {
        bench.device.slot_destroy(&mut object(bench.slot.slot))?;
        Ok(bench.device.queue_destroy(&mut object(bench.queue.queue))?)
    })?;
    checks.refused("wait while the queue is destroyed", destroyed, Errno::NOENT)?;
    checks.holds("poll without a queue", poll_for(&device, Duration::ZERO)?.is_empty())
}

/// A stopped process continues a wait without a time-out. A wait with a time-out returns, so that
/// the caller can compute the rest.
fn stopped(checks: &mut Checks, bench: &mut Bench) -> Outcome {
    let stop_me =
        || Command::new("sh").args(["-c", "kill -STOP $PPID; sleep 1; kill -CONT $PPID"]).status().map(drop);
    let timed = bench.wait(41, PATIENCE.as_nanos() as i64);
    let told = wait_as(bench, timed, |_, over| {
        while !over() {
            stop_me()?;
        }
        Ok(())
    })?;
    checks.refused("wait with a time-out, and be stopped", told, Errno::INTR)?;
    let mut went_on = false;
    let woken = wait_while(bench, 41, |bench, over| {
        stop_me()?;
        went_on = !over();
        bench.send(41);
        Ok(())
    })?;
    checks.holds("wait, and be stopped: it goes on", went_on)?;
    checks.done("a message wakes it then", woken)
}

/// The flag changes in the second pass. A waiter for the first pass must not wait forever.
fn second_pass(checks: &mut Checks, bench: &mut Bench) -> Outcome {
    for cursor in 0..ENTRIES {
        bench.send(cursor);
        if !bench.terminus.settles() {
            return Err(format!("message {cursor} of {ENTRIES} is not sent").into());
        }
    }
    let mut last = bench.wait(ENTRIES - 1, PATIENCE.as_nanos() as i64);
    checks.done("wait for the last entry", bench.device.queue_wait(&mut last))?;
    bench.pass = 1;
    (0..3).try_for_each(|cursor| poll_wakes(checks, bench, cursor))?;
    checks.refused(
        "look for what is to come in the second pass",
        bench.device.queue_wait(&mut bench.wait(3, 0)),
        Errno::TIMEDOUT,
    )?;
    bench.pass = 0;
    checks.done("look for what was overwritten", bench.device.queue_wait(&mut bench.wait(0, 0)))?;
    checks.done("look for what was not", bench.device.queue_wait(&mut bench.wait(3, 0)))
}

/// More sleepers on a vector than an interrupt handler checks: the driver has a thread for the
/// rest.
fn crowd(checks: &mut Checks, path: &Path) -> Outcome {
    const QUEUES: usize = 100;
    let bench = &mut Bench::create(path)?;
    for _ in 0..QUEUES {
        let mut queue = HamlynQueueCreate { entries: 2, ..Default::default() };
        bench.device.queue_create(&mut queue)?;
        bench.device.queue_arm(&mut HamlynQueueWait { queue: queue.queue, ..Default::default() })?;
    }
    // Armed after all others.
    (0..3).try_for_each(|cursor| poll_wakes(checks, bench, cursor))
}

/// While all processes sleep, the driver keeps the card participating (section 2.8).
fn handshake(checks: &mut Checks, bench: &mut Bench) -> Outcome {
    let before = counter(&bench.device, Statistic::HandshakeLapses)?;
    let long = bench.device.queue_wait(&mut bench.wait(41, LONG_NS));
    checks.refused("wait for long", long, Errno::TIMEDOUT)?;
    let lapses = counter(&bench.device, Statistic::HandshakeLapses)? - before;
    checks.note("the handshake timer never ran out", lapses == 0, &format!("it did {lapses} times"))
}

/// Arms for entry `cursor`, sends a message, and polls.
fn poll_wakes(checks: &mut Checks, bench: &mut Bench, cursor: u32) -> Outcome {
    let mut wait = bench.wait(cursor, 0);
    checks.done("arm", bench.device.queue_arm(&mut wait))?;
    let asleep = wait.ready == 0 && poll_for(&bench.device, Duration::from_millis(1))?.is_empty();
    checks.holds("armed, and nothing is there", asleep)?;
    bench.send(cursor);
    checks.holds("a message wakes poll", poll_for(&bench.device, PATIENCE)? == PollFlags::IN)?;
    bench.device.queue_arm(&mut wait)?;
    checks.holds("arm says that it is there", wait.ready == 1)
}
