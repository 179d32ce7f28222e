//! Scheduling of tests, and the lab that each test gets.
//!
//! Booting two machines would take most of the time of a short test. Tests that restore everything
//! share a lab of their kind, which waits idle for its next test. Tests that kill, restart or
//! reset parts of a lab, or count from zero, have labs of their own. Tests take turns, because a
//! machine without hardware virtualisation needs a core.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{panicking, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hamlyn_host::catalogue;
use hamlyn_lab::{Builder, Lab, Vm, without_foreign_races};
use serde_json::Value;

use crate::eventually;

/// A shared lab, as the last test left it, and when that was. Holding the lock is the turn.
type Place = Mutex<Option<(Instant, Lab)>>;

/// The place of each kind of shared lab.
static SHARED: Mutex<BTreeMap<&'static str, &'static Place>> = Mutex::new(BTreeMap::new());

/// Maximum number of idle shared labs. A machine that waits takes 1.5 % of a core.
const IDLE_LABS: usize = 3;

/// Maximum number of machines at a time in all labs that belong to single tests. Such tests wait
/// more than they compute.
const MACHINES: usize = 5;

/// Time after which a machine or a program in it counts as hung. It is longer than the [`LIMIT`] of
/// a command, so that a command which hangs is reported as it reports itself.
const PATIENCE: Duration = Duration::from_secs(900);

/// Seconds after which a command in a machine counts as hung, far more than it takes on a loaded
/// host: `timeout {LIMIT} ...`.
pub(crate) const LIMIT: u32 = 600;

/// Number of machines in those labs now.
static OWN: Mutex<usize> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

/// Permission to run this many machines. Dropping it gives them back.
pub(crate) struct Right(usize);

impl Drop for Right {
    fn drop(&mut self) {
        *OWN.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        GIVEN_BACK.notify_all();
    }
}

/// A lab, and this test's turn.
pub(crate) struct Turn {
    /// `None` only while it is dropped.
    lab: Option<Lab>,
    // Dropped last.
    kind: Kind,
}

enum Kind {
    Own {
        _right: Right,
    },
    Shared {
        place: MutexGuard<'static, Option<(Instant, Lab)>>,
        /// The cards' counters when this turn began.
        before: Vec<Value>,
    },
}

/// Starts a lab of `vms` machines for one test.
pub(crate) fn lab(vms: usize) -> Turn {
    lab_of(Lab::builder().vms(vms))
}

/// Starts a lab for one test, as `builder` describes.
pub(crate) fn lab_of(builder: Builder) -> Turn {
    let _right = turn(builder.machines());
    Turn { lab: Some(start(builder)), kind: Kind::Own { _right } }
}

/// Returns the shared lab of two machines with Hamlyn cards.
pub(crate) fn shared() -> Turn {
    shared_as("hamlyn", Lab::builder().vms(2))
}

/// Returns the shared lab of two machines with a model's cards.
pub(crate) fn shared_of(model: &'static str) -> Result<Turn> {
    Ok(shared_as(model, Lab::builder().models(&[catalogue::find(model)?]).vms(2)))
}

/// Returns the shared lab of two machines whose switch has several paths, so that packets overtake
/// each other.
pub(crate) fn shared_reordering() -> Turn {
    shared_as("reordering", Lab::builder().vms(2).switch_args(["--paths", "4"]))
}

/// Returns the shared lab of three machines with Hamlyn cards.
pub(crate) fn shared_three() -> Turn {
    shared_as("three", Lab::builder().vms(3))
}

/// Returns the shared lab of a kind, which `builder` describes. A test must have returned
/// everything soon after it drops the lab. Otherwise the next test gets a fresh lab.
pub(crate) fn shared_as(kind: &'static str, builder: Builder) -> Turn {
    let place = *SHARED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(kind)
        .or_insert_with(|| Box::leak(Box::default()));
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = place.take().map(|(_, lab)| lab).filter(|lab| lab.check().is_ok());
    let lab = lab.unwrap_or_else(|| start(builder));
    let before: Result<_> = (0..lab.vms().len()).map(|card| lab.card_counters(card)).collect();
    let before = before.unwrap_or_else(|error| panic!("no counters: {error:#}"));
    Turn { lab: Some(lab), kind: Kind::Shared { place, before } }
}

/// Ends the shared labs that have waited longest, beyond the number that may wait. The caller's own
/// place is locked, so its lab stays.
fn end_idle_labs() {
    let places: Vec<&Place> =
        SHARED.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect();
    let idle = places.iter().filter_map(|place| place.try_lock().ok().filter(|place| place.is_some()));
    let mut idle: Vec<_> = idle.collect();
    idle.sort_by_key(|place| place.as_ref().map(|(since, _)| *since));
    let more = idle.len().saturating_sub(IDLE_LABS - 1);
    idle.iter_mut().take(more).for_each(|place| drop(place.take()));
}

/// Waits for permission to start a separate lab.
pub(crate) fn turn(machines: usize) -> Right {
    let machines = machines.min(MACHINES);
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let own = GIVEN_BACK.wait_while(own, |own| *own + machines > MACHINES);
    *own.unwrap_or_else(PoisonError::into_inner) += machines;
    Right(machines)
}

fn start(builder: Builder) -> Lab {
    let lab = builder.patience(PATIENCE).start().unwrap_or_else(|error| panic!("no lab: {error:#}"));
    if has_debug_kernel() {
        for vm in lab.vms().iter().filter(|vm| vm.is_running()) {
            // A machine with its own image has no agent.
            let _ = vm.run_as(0, ["sh", "-c", TELL_ALL]).and_then(|mut run| run.finish_text());
        }
    }
    lab
}

/// Makes the kernel report every wrong use of DMA, not only the first.
const TELL_ALL: &str = r#"
mount -t debugfs none /sys/kernel/debug
echo 1 > /sys/kernel/debug/dma-api/all_errors
"#;

impl Turn {
    /// Returns a card's counters when this turn began, in the shared lab.
    fn before(&self, card: usize) -> Option<&Value> {
        match &self.kind {
            Kind::Own { .. } => None,
            Kind::Shared { before, .. } => before.get(card),
        }
    }

    /// Like the lab's method, but counts from the start of this turn.
    pub(crate) fn card_counters(&self, card: usize) -> Result<Value> {
        let mut counters = Lab::card_counters(self, card)?;
        let before = self.before(card).map(|before| &before["card"]);
        for (name, count) in counters["card"].as_object_mut().into_iter().flatten() {
            let before = before.and_then(|before| before[name].as_u64()).unwrap_or(0);
            if let Some(now) = count.as_u64() {
                *count = now.saturating_sub(before).into();
            }
        }
        Ok(counters)
    }

    /// Like the lab's method, but counts from the start of this turn.
    pub(crate) fn refused(&self, card: usize) -> Result<u64> {
        let before = self.before(card).map_or(0, refusals);
        Ok(Lab::refused(self, card)? - before)
    }
}

impl Turn {
    /// Lets other processes start programs in the machines.
    pub(crate) fn open_door(&mut self) -> Result<()> {
        self.lab.as_mut().context("the lab is gone")?.open_door()
    }
}

impl Deref for Turn {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        self.lab.as_ref().expect("a turn has a lab until it is dropped")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // The lab ends before the turn.
        let Some(lab) = self.lab.take() else { return };
        // A failed test may have left anything behind.
        if panicking() {
            return;
        }
        if has_debug_kernel() {
            kernels_are_content(&lab);
        }
        let Kind::Shared { place, .. } = &mut self.kind else { return };
        match is_as_it_was(&lab) {
            Ok(()) => {
                **place = Some((Instant::now(), lab));
                end_idle_labs();
            }
            Err(error) => println!("this lab is not as it was, and no other test gets it: {error:#}"),
        }
    }
}

/// Returns whether the tests run with a kernel that looks for errors (`./scripts/test --kernel
/// debug`, or `kcsan`).
pub(crate) fn has_debug_kernel() -> bool {
    std::env::var_os("HAMLYN_KERNEL").is_some_and(|kernel| kernel == "debug" || kernel == "kcsan")
}

/// Prints the kernel's log without a false report of debug kernels. If two threads map the same
/// page, its address occurs twice, and the check of one mapping may be recorded for the other. A
/// comment in the kernel's `debug_dma_mapping_error` describes this.
pub(crate) const KERNEL_LOG: &str =
    "dmesg | awk '/failed to check map error/ { skip = 1 } !skip; /end trace/ { skip = 0 }'";

/// Words of a debug kernel's report of an error.
const REPORTS: [&str; 5] = ["BUG", "WARNING", "Oops", "UBSAN", "ODEBUG"];

/// Prints unreferenced memory of the driver, if kmemleak is on. A scan takes long.
const LEAKS: &str = r#"
echo scan 2>/dev/null > /sys/kernel/debug/kmemleak || exit 0
awk '/^unreferenced object/ { if (leak ~ /\[hamlyn\]/) print leak; leak = "" } { leak = leak $0 "\n" }
    END { if (leak ~ /\[hamlyn\]/) print leak }' /sys/kernel/debug/kmemleak
"#;

/// Returns the errors that a machine's debug kernel has found.
fn found(vm: &Vm) -> Result<Vec<String>> {
    let script = |script| vm.run_as(0, ["sh", "-c", script])?.finish_text();
    let log = without_foreign_races(script(KERNEL_LOG)?);
    let first = log.iter().position(|line| REPORTS.iter().any(|word| line.contains(word)));
    let shown = first.map(|at| log[at.saturating_sub(3)..log.len().min(at + 40)].iter().cloned());
    Ok(shown.into_iter().flatten().chain(script(LEAKS)?).collect())
}

/// Fails the test if a kernel has found an error. A machine that the test has ended is not checked.
fn kernels_are_content(lab: &Lab) {
    for vm in lab.vms().iter().filter(|vm| vm.is_running()) {
        // Memory that is being freed may look like a leak once. A machine that the test has damaged
        // may not answer.
        let is_content = |vm| found(vm).map_or(true, |lines| lines.is_empty());
        if !is_content(vm) && !is_content(vm) {
            panic!("{}: {}", vm.name(), found(vm).unwrap_or_default().join("\n"));
        }
    }
}

/// Returns the sum of the refusals, as the lab's `refused` does.
fn refusals(counters: &Value) -> u64 {
    let all = counters["card"].as_object().into_iter().flatten();
    all.filter(|(name, _)| name.starts_with("refused_")).filter_map(|(_, count)| count.as_u64()).sum()
}

/// Prints every difference to a freshly started machine: processes that have the card open or hold
/// its objects, running programs of users, and kernel complaints. Clears the kernel's log, so that
/// the next test does not see complaints of this one, and restores the time-out that tests change.
const LOOK: &str = r#"
echo 8000 > /sys/module/hamlyn/parameters/peer_timeout
users=$(cat /sys/module/hamlyn/refcnt)
[ "$users" = 0 ] || echo "the card is open $users times"
for holders in /sys/class/*/*/holders; do sed 1d $holders; done
ps -o user,args | sed 1d | grep -v '^root '
dmesg | grep -E 'BUG|WARNING|Oops|Call Trace|hung_task|lockup|Bad page|is stopped'
dmesg -c >/dev/null
"#;

/// Returns what is left in a machine.
fn left(vm: &Vm) -> Result<Vec<String>> {
    vm.run_as(0, ["sh", "-c", LOOK])?.finish_text()
}

fn is_as_it_was(lab: &Lab) -> Result<()> {
    lab.check()?;
    for vm in lab.vms() {
        let clean = eventually(|| Ok(left(vm)?.is_empty()), "nothing is left");
        ensure!(clean.is_ok(), "{}: {:#?}", vm.name(), left(vm)?);
    }
    eventually(|| is_still(lab), "no card sends anything")
}

/// Operating systems may still have to report ended connections to each other. They resend after
/// 250 ms until the peer has acknowledged.
pub(crate) fn is_still(lab: &Lab) -> Result<bool> {
    let sent = || -> Result<Vec<Value>> {
        let of = |card| Ok(Lab::card_counters(lab, card)?["card"]["packets_sent"].clone());
        (0..lab.vms().len()).map(of).collect()
    };
    let before = sent()?;
    sleep(Duration::from_millis(300));
    Ok(sent()? == before)
}

#[test]
fn leftovers_in_a_shared_lab_are_detected() -> Result<()> {
    let lab = shared();
    let vm = lab.vm(0);
    assert!(left(vm)?.is_empty(), "{:?}", left(vm)?);
    let mut user = vm.run(["intrude", "watch"])?;
    user.answer()?;
    let found = left(vm)?.join("\n");
    for part in ["the card is open ", "1001 ", "user1 ", "intrude watch"] {
        ensure!(found.contains(part), "{part}: {found}");
    }
    user.kill(9)?;
    user.wait()?;
    is_as_it_was(&lab)?;
    vm.run_as(0, ["sh", "-c", "echo BUG: none, but a test > /dev/kmsg"])?.finish_text()?;
    let found = left(vm)?;
    ensure!(found.len() == 1 && found[0].contains("BUG: none, but a test"), "{found:?}");
    vm.run_as(0, ["rmmod", "hamlyn"])?.finish_text()?;
    ensure!(!left(vm)?.is_empty(), "there is no module");
    vm.run_as(0, ["insmod", "/lib/hamlyn.ko"])?.finish_text()?;
    is_as_it_was(&lab)
}
