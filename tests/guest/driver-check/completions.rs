//! Sleeping until requests are completed: wait and poll, and everything that ends them.

use std::path::Path;
use std::thread;
use std::time::Duration;

use hamlyn_abi::hamlyn::request::{
    HAMLYN_FAST_MODE, HAMLYN_FETCH_ADD, HAMLYN_REQUEST_FETCH, HamlynFetch, HamlynRequest,
};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::uapi::{HamlynTerminusWait, ULN_WAIT_FOREVER};
use hamlyn_sys::Device;
use rustix::event::PollFlags;
use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::bench::{A_MOMENT, Bench, NO_OBJECT, PATIENCE, object, poll_for};
use crate::checks::{Checks, Spoil, spoilt};
use crate::common::Outcome;
use crate::sleep::counter;

/// An absent host: a fetch-and-op on it completes when the card gives up, after ten seconds.
const ABSENT: u32 = 60_000;

pub(crate) fn completions(checks: &mut Checks, path: &Path) -> Outcome {
    let bench = &mut Bench::create(path)?;
    let other = Device::open(path)?;
    arguments(checks, bench, &other)?;
    let device = bench.device.clone();
    checks.done("look, when nothing is wanted", device.terminus_wait(&mut bench.until(0, 0)))?;
    checks.refused(
        "look for what is not posted",
        device.terminus_wait(&mut bench.until(1, 0)),
        Errno::TIMEDOUT,
    )?;
    let brief = device.terminus_wait(&mut bench.until(1, 20_000_000));
    checks.refused("wait for it for 20 ms", brief, Errno::TIMEDOUT)?;
    checks.holds("poll of what is not armed", poll_for(&device, Duration::ZERO)?.is_empty())?;
    two_sleep(checks, bench)?;
    poll_wakes(checks, bench)?;
    let destroyed = while_it_waits(bench, bench.terminus.tail + 1, |bench| {
        Ok(bench.device.terminus_destroy(&mut object(bench.terminus.create.terminus))?)
    })?;
    checks.refused("wait while the terminus is destroyed", destroyed, Errno::NOENT)?;
    checks.holds("poll without a terminus", poll_for(&device, Duration::ZERO)?.is_empty())
}

fn arguments(checks: &mut Checks, bench: &Bench, other: &Device) -> Outcome {
    let device = &bench.device;
    let ways: [Spoil<HamlynTerminusWait>; 5] = [
        ("ready", |wait| wait.ready = 1, Errno::INVAL),
        ("reserved0", |wait| wait.reserved0 = 1, Errno::INVAL),
        ("reserved1", |wait| wait.reserved1 = 1, Errno::INVAL),
        ("no such terminus", |wait| wait.terminus = NO_OBJECT, Errno::NOENT),
        ("time-out -2", |wait| wait.timeout_ns = -2, Errno::INVAL),
    ];
    spoilt(checks, "wait", &bench.until(0, 0), &ways, |wait| device.terminus_wait(wait))?;
    spoilt(checks, "arm", &bench.until(0, 0), &ways, |wait| device.terminus_arm(wait))?;
    checks.refused("arm, with a time-out", device.terminus_arm(&mut bench.until(0, 1)), Errno::INVAL)?;
    let foreign = other.terminus_wait(&mut bench.until(0, 0));
    checks.refused("wait for another file's terminus", foreign, Errno::NOENT)?;
    let foreign = other.terminus_arm(&mut bench.until(0, 0));
    checks.refused("arm another file's terminus", foreign, Errno::NOENT)
}

/// Two threads sleep on one terminus. The later one waits for fewer requests, and must wake no
/// later than when these are completed.
fn two_sleep(checks: &mut Checks, bench: &mut Bench) -> Outcome {
    let interrupts = counter(&bench.device, Statistic::Interrupts)?;
    let unanswered = counter(&bench.device, Statistic::RefusedUnanswered)?;
    bench.ask_absent();
    bench.send(0);
    let (device, mut second) = (bench.device.clone(), bench.until(2, ULN_WAIT_FOREVER));
    let sleeper = thread::spawn(move || device.terminus_wait(&mut second));
    thread::sleep(A_MOMENT);
    let mut asleep = false;
    let first = while_it_waits(bench, 1, |_| {
        asleep = !sleeper.is_finished();
        Ok(())
    })?;
    checks.holds("a waiter for an absent host sleeps", asleep)?;
    checks.done("and is woken when the card gives it up", first)?;
    checks.done("so is the next waiter", sleeper.join().map_err(|_| "the sleeper panicked")?)?;
    let given_up = counter(&bench.device, Statistic::RefusedUnanswered)? - unanswered;
    checks.note("it was given up", given_up == 1, &format!("{given_up} were"))?;
    let grown = counter(&bench.device, Statistic::Interrupts)? - interrupts;
    checks.note("by one interrupt, or two", (1..=2).contains(&grown), &format!("by {grown}"))
}

fn poll_wakes(checks: &mut Checks, bench: &mut Bench) -> Outcome {
    bench.ask_absent();
    let mut wait = bench.until(bench.terminus.tail, 0);
    checks.done("arm", bench.device.terminus_arm(&mut wait))?;
    let asleep = wait.ready == 0 && poll_for(&bench.device, Duration::from_millis(1))?.is_empty();
    checks.holds("armed, and it is not finished", asleep)?;
    checks.holds("its end wakes poll", poll_for(&bench.device, PATIENCE)? == PollFlags::IN)?;
    bench.device.terminus_arm(&mut wait)?;
    checks.holds("arm says that it is finished", wait.ready == 1)
}

/// Waits in another thread until `completed` requests are completed, while `meanwhile` runs in this
/// one.
fn while_it_waits(
    bench: &mut Bench,
    completed: u32,
    meanwhile: impl FnOnce(&mut Bench) -> Outcome,
) -> Outcome<std::io::Result<()>> {
    let (device, mut wait) = (bench.device.clone(), bench.until(completed, ULN_WAIT_FOREVER));
    let waiter = thread::spawn(move || device.terminus_wait(&mut wait));
    thread::sleep(A_MOMENT);
    meanwhile(bench)?;
    waiter.join().map_err(|_| "the waiting thread panicked".into())
}

impl Bench {
    /// Returns the argument of a wait until `completed` requests of its terminus are completed.
    fn until(&self, completed: u32, timeout_ns: i64) -> HamlynTerminusWait {
        let terminus = self.terminus.create.terminus;
        HamlynTerminusWait { terminus, completed, timeout_ns, ..Default::default() }
    }

    /// Posts a fetch-and-op that no host answers.
    fn ask_absent(&mut self) {
        let request = HamlynRequest {
            destination: ABSENT,
            flags: HAMLYN_REQUEST_FETCH,
            operation: HAMLYN_FETCH_ADD,
            length: size_of::<HamlynFetch>() as u32,
            metadata_index: HAMLYN_FAST_MODE,
            ..Default::default()
        };
        self.terminus.post(&request, HamlynFetch { operand: 1, compare: 0 }.as_bytes());
    }
}
