//! The driver's guarantees: every call, every sleep, and no leftovers of processes that die or lose
//! their card.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Exit, Lab, Run};
use serde_json::Value;

use crate::left::log_has_none;
use crate::{eventually, lab, lab_of, shared};

/// Runs checks to their end. All must pass, and there must be at least `least` of them.
pub(crate) fn check(mut run: Run, least: u64) -> Result<()> {
    let mut failed = Vec::new();
    let sum = loop {
        let line = run.answer()?;
        if line["passed"] == false {
            failed.push(line);
        } else if line["check"].is_null() {
            break line;
        }
    };
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(sum["checks"].as_u64() >= Some(least), "{sum}");
    run.finish()?;
    Ok(())
}

/// Unloads the module and loads it again. It must have no users.
fn reload(lab: &Lab) -> Result<()> {
    lab.vm(0).run_as(0, ["rmmod", "hamlyn"])?.finish_text()?;
    lab.vm(0).run_as(0, ["insmod", "/lib/hamlyn.ko"])?.finish_text()?;
    lab.vm(0).run_as(0, ["self-test"])?.finish()?;
    Ok(())
}

/// Returns how many pages have been pinned and unpinned since the machine started.
fn pins(lab: &Lab) -> Result<(u64, u64)> {
    let text = lab.vm(0).read("/proc/vmstat")?;
    let count = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).context("a counter of pins")?;
        line.trim().parse::<u64>().context("a number")
    };
    Ok((count("nr_foll_pin_acquired ")?, count("nr_foll_pin_released ")?))
}

/// Checks that more pages were pinned than `first` and that none is pinned now. Then checks that
/// every object number of the card is available, and that the module has no users.
fn nothing_is_left(lab: &Lab, first: u64) -> Result<()> {
    let (pinned, _) = pins(lab)?;
    assert!(pinned > first, "nothing was pinned");
    eventually(|| pins(lab).map(|(acquired, released)| acquired == released), "all pages are unpinned")?;
    check(lab.vm(0).run_as(0, ["driver-check", "tables"])?, 15)?;
    eventually(|| pins(lab).map(|(acquired, released)| acquired == released), "all pages are unpinned")?;
    reload(lab)?;
    complaints(lab)
}

/// Checks that the kernel log reports no error of the driver.
pub(crate) fn complaints(lab: &Lab) -> Result<()> {
    log_has_none(lab, 0, &["nonexistent resource", "the card is stopped"])
}

#[test]
fn the_kernel_is_the_requested_one() -> Result<()> {
    let lab = shared();
    let release = lab.vm(0).read("/proc/sys/kernel/osrelease")?;
    let kernel = std::env::var("HAMLYN_KERNEL").unwrap_or_default();
    assert_eq!(release.starts_with("6.12."), kernel == "stable", "{release}");
    assert_eq!(release.trim().ends_with("-hamlyn-debug"), kernel == "debug", "{release}");
    println!("the guest's kernel is {}", release.trim());
    reload(&lab)
}

#[test]
fn every_call_works_and_refuses_invalid_arguments() -> Result<()> {
    let lab = shared();
    let (first, _) = pins(&lab)?;
    check(lab.vm(0).run(["driver-check", "calls"])?, 100)?;
    nothing_is_left(&lab, first)
}

#[test]
fn sleepers_are_woken_by_every_wake_source() -> Result<()> {
    let lab = shared();
    let (first, _) = pins(&lab)?;
    check(lab.vm(0).run(["driver-check", "sleep"])?, 82)?;
    nothing_is_left(&lab, first)
}

#[test]
fn wait_for_completions_wakes_when_requests_finish() -> Result<()> {
    let lab = shared();
    let (first, _) = pins(&lab)?;
    check(lab.vm(0).run(["driver-check", "completions"])?, 28)?;
    nothing_is_left(&lab, first)
}

#[test]
fn self_test_fails_with_bounce_buffers() -> Result<()> {
    let lab = lab_of(Lab::builder().vms(1).kernel_args("swiotlb=4096,force"));
    let program = lab.vm(0).run(["driver-check", "calls"])?.finish();
    ensure!(program.is_err(), "a program can run");
    let mut test = lab.vm(0).run_as(0, ["self-test"])?;
    let answer = test.answer()?;
    ensure!(answer["passed"] == false, "{answer}");
    let why = answer["dma"].as_str().unwrap_or_default();
    ensure!(why.contains("bounce buffers"), "{answer}");
    Ok(())
}

/// Returns the interrupts of the card's queues on each of two processors.
fn interrupts_by_processor(lab: &Lab) -> Result<[u64; 2]> {
    let mut sums = [0; 2];
    for line in lab.vm(0).read("/proc/interrupts")?.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Vector 0 is for the link.
        if words.last().is_some_and(|name| name.starts_with("hamlyn0-") && *name != "hamlyn0-0") {
            for (sum, word) in sums.iter_mut().zip(&words[1..]) {
                *sum += word.parse::<u64>()?;
            }
        }
    }
    Ok(sums)
}

#[test]
fn interrupt_arrives_on_the_waiters_processor() -> Result<()> {
    let two = |_: usize, _: &std::path::Path| ["-smp", "2"].map(str::to_owned).to_vec();
    let lab = lab_of(Lab::builder().vms(1).qemu_args(two));
    let (first, _) = pins(&lab)?;
    for (here, there) in [(0, 1), (1, 0), (0, 1)] {
        let before = interrupts_by_processor(&lab)?;
        let pinned = ["taskset", "-c", &here.to_string(), "driver-check", "waiters"].map(str::to_owned);
        check(lab.vm(0).run(pinned)?, 3)?;
        let after = interrupts_by_processor(&lab)?;
        let come = [after[here] - before[here], after[there] - before[there]];
        ensure!(come[0] > 0 && come[1] == 0, "on processor {here} and elsewhere: {come:?}");
    }
    nothing_is_left(&lab, first)
}

#[test]
fn sleepers_on_one_queue_steal_no_wake_ups() -> Result<()> {
    let lab = shared();
    let (first, _) = pins(&lab)?;
    check(lab.vm(0).run(["driver-check", "waiters"])?, 3)?;
    nothing_is_left(&lab, first)
}

#[test]
fn processes_killed_during_random_calls_leave_nothing() -> Result<()> {
    let lab = shared();
    let (first, _) = pins(&lab)?;
    for _ in 0..5 {
        let mut runs = Vec::new();
        for user in [1001, 1002] {
            let mut run = lab.vm(0).run_as(user, ["driver-check", "stress", "--seconds", "600"])?;
            run.answer()?;
            runs.push(run);
        }
        std::thread::sleep(std::time::Duration::from_secs(1));
        for mut run in runs {
            run.kill(9)?;
            assert_eq!(run.wait()?, Exit::Signal(9), "{}", run.stderr());
        }
    }
    nothing_is_left(&lab, first)?;
    check(lab.vm(0).run(["driver-check", "calls"])?, 100)
}

#[test]
fn reset_or_rebind_fails_old_files_only() -> Result<()> {
    let lab = lab(1);
    let (first, _) = pins(&lab)?;
    let find = lab.vm(0).run_as(0, ["sh", "-c", "cd /sys/bus/pci/drivers/hamlyn && ls -d 0000:*"])?;
    let address = { find }.finish_text()?.pop().context("the driver has a device")?;
    let driver = "/sys/bus/pci/drivers/hamlyn";
    let ways = [
        format!("echo 1 > {driver}/{address}/reset"),
        format!("echo {address} > {driver}/unbind; echo {address} > {driver}/bind"),
    ];
    for way in ways {
        let mut hold = lab.vm(0).run(["driver-check", "hold"])?;
        assert_eq!(hold.answer()?["holding"], Value::Bool(true));
        // A second process is in the middle of calls. Each program runs as a different user,
        // because pages that are pinned or still mapped count towards the user's limit.
        let mut stress = lab.vm(0).run_as(1002, ["driver-check", "stress", "--seconds", "600"])?;
        stress.answer()?;
        lab.vm(0).run_as(0, ["sh", "-c", &way])?.finish_text()?;
        check(lab.vm(0).run_as(1003, ["driver-check", "calls"])?, 100)?;
        hold.say("gone")?;
        check(hold, 17)?;
        stress.kill(9)?;
        assert_eq!(stress.wait()?, Exit::Signal(9), "{way}: {}", stress.stderr());
    }
    nothing_is_left(&lab, first)
}
