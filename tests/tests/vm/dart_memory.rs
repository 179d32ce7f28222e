//! Virtual memory under DART's messages (section 3) on machines that really page: no memory is
//! pinned, and no stale page is accessed.

use anyhow::{Result, ensure};
use hamlyn::dart::Operation;
use hamlyn_host::catalogue;
use hamlyn_lab::{Lab, Run, SWAP};
use serde_json::{Value, json};

use crate::dart::{End, connect, dart_lab, end, end_of, nothing_is_left, pair};
use crate::desk::Desk;
use crate::left::log_is_clean;
use crate::shrimp_paging::{DROP, shell};
use crate::{Turn, eventually, if_long, lab_of, shared_of};

/// Bytes of an endpoint, and of the part of it that is written and read.
pub(crate) const LENGTH: usize = 40 * 4096;
pub(crate) const PART: u64 = 32 * 4096;

/// Starts two machines, each with swap space.
fn paging_lab() -> Result<Turn> {
    let lab = dart_lab(2)?;
    for vm in [0, 1] {
        shell(&lab, vm, SWAP)?;
    }
    Ok(lab)
}

/// Sends the whole part, in messages of 4 pages.
pub(crate) fn put(one: &mut End, seed: u64) -> Result<()> {
    one.fill(0, PART, seed)?;
    for at in (0..PART).step_by(16_384) {
        one.send(&Operation::write_multiple(at), at, 16_384)?;
    }
    // Waits until the messages have left, because a question needs room in this endpoint.
    one.desk.expect(&format!("left {}", one.connection), &json!({ "left": true }))
}

/// Makes a machine swap out all touched pages of an endpoint.
pub(crate) fn page_out(lab: &Lab, vm: usize, end: &mut End) -> Result<()> {
    let (told, pages) = (format!("page-out {}", end.endpoint), format!("pages {}", end.endpoint));
    shell(lab, vm, DROP)?;
    let is_out = |end: &mut End| -> Result<bool> {
        end.desk.expect(&told, &json!({ "told": true }))?;
        Ok(end.desk.ask(&pages)?["present"] == json!(0))
    };
    eventually(|| is_out(end), "all pages are swapped out")
}

#[test]
fn messages_bring_in_swapped_pages_at_both_ends() -> Result<()> {
    let lab = paging_lab()?;
    let (mut one, mut two) = pair(&lab, 0, 1, LENGTH)?;
    for round in 0..if_long(20, 3) {
        let seed = u64::from(round) * 2;
        put(&mut one, seed)?;
        one.settle()?;
        two.check(0, PART, seed)?;
        // A write from pages that are swapped out to pages that are swapped out.
        page_out(&lab, 1, &mut two)?;
        one.fill(0, PART, seed + 1)?;
        page_out(&lab, 0, &mut one)?;
        for at in (0..PART).step_by(16_384) {
            one.send(&Operation::write_multiple(at), at, 16_384)?;
        }
        one.desk.expect(&format!("left {}", one.connection), &json!({ "left": true }))?;
        one.settle()?;
        two.check(0, PART, seed + 1)?;
        // A read.
        page_out(&lab, 1, &mut two)?;
        let read = Operation::read_multiple(4096);
        one.ask(&read, &Operation::write_multiple(PART).tell(), 16_384)?;
        let told = one.record()?;
        ensure!(told["length"] == json!(16_384), "{told}");
        let (theirs, ours) = (two.own(4096 + 8)?, one.own(PART + 8)?);
        ensure!(theirs == ours && theirs != json!(0), "{theirs} there, {ours} here");
    }
    drop((one, two));
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

#[test]
fn no_data_is_lost_while_pages_are_swapped() -> Result<()> {
    let lab = paging_lab()?;
    let (mut one, mut two) = pair(&lab, 0, 1, LENGTH)?;
    for round in 1..=if_long(10, 2) {
        two.desk.begin(&format!("churn {} 4000", two.endpoint))?;
        for pass in 0..4 {
            put(&mut one, u64::from(round) * 10 + pass)?;
        }
        one.settle()?;
        let churned = two.desk.answer()?;
        ensure!(churned["churned"].as_u64() > Some(0), "{churned}");
        two.check(0, PART, u64::from(round) * 10 + 3)?;
    }
    // Discarded pages are replaced by new ones, which are zero until a message arrives.
    two.desk.expect(&format!("discard {}", two.endpoint), &json!({ "discarded": true }))?;
    ensure!(two.own(0)? == json!(0));
    put(&mut one, 77)?;
    one.settle()?;
    two.check(0, PART, 77)?;
    Ok(())
}

/// Puts a machine's kernel under memory pressure for as long as it runs. Most of the memory goes to
/// a file that cannot be swapped out, so the kernel soon scans all the rest. Then a file that can
/// be swapped out grows until 16 MiB have left. The script reads it from end to end, again and
/// again, which brings its pages back in place of others. Neither file grows further, so the OOM
/// killer does not run. Both consist of zeros, which take no space in swap.
const PRESSES: &str = r#"mkdir /tmp/kept /tmp/press && mount -t ramfs none /tmp/kept && mount -t tmpfs -o size=100% none /tmp/press
    free() { sed -n "s/^$1: *\([0-9]*\) kB/\1/p" /proc/meminfo; }
    dd if=/dev/zero of=/tmp/kept/much bs=1M count=$(($(free MemAvailable) / 1024 - 48)) && cd /tmp/press || exit
    while [ $(free SwapFree) -gt 49152 ]; do dd if=/dev/zero bs=1M count=4 >>much || exit; done
    while cat much >/dev/null; do :; done"#;

/// Waits until a machine's kernel has evicted at least half of an endpoint, without any advice to
/// do so.
fn is_taken(end: &mut End, pages: u64) -> Result<()> {
    let question = format!("pages {}", end.endpoint);
    let mut is_half =
        || -> Result<bool> { Ok(end.desk.ask(&question)?["swapped"].as_u64() >= Some(pages / 2)) };
    eventually(&mut is_half, "the kernel evicts pages of an unused endpoint")
}

#[test]
fn no_data_is_lost_under_memory_pressure() -> Result<()> {
    const MUCH: u64 = 4 << 20;
    const CHUNK: u64 = 1 << 20;
    let lab = paging_lab()?;
    let (mut one, mut two) = pair(&lab, 0, 1, MUCH as usize + 4096)?;
    for at in (0..MUCH).step_by(CHUNK as usize) {
        two.fill(at, CHUNK, 99)?;
    }
    let presses = [0, 1].map(|vm| lab.vm(vm).run_as(0, ["sh", "-c", PRESSES]));
    for round in 0..u64::from(if_long(10, 1)) {
        let chunks = || (0..MUCH).step_by(CHUNK as usize).zip(round * 100..);
        for (at, seed) in chunks() {
            one.fill(at, CHUNK, seed)?;
        }
        for end in [&mut one, &mut two] {
            is_taken(end, MUCH / 4096)?;
        }
        for at in (0..MUCH).step_by(32_768) {
            one.send(&Operation::write_multiple(at), at, 32_768)?;
        }
        one.desk.expect(&format!("left {}", one.connection), &json!({ "left": true }))?;
        one.settle()?;
        for (at, seed) in chunks() {
            two.check(at, CHUNK, seed)?;
        }
    }
    for press in presses {
        press?.kill(9)?;
    }
    drop((one, two));
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
        // There was always enough memory in the end.
        let log = lab.vm(vm).kernel_log();
        ensure!(!log.contains("Killed process"), "{log}");
    }
    Ok(())
}

/// Makes a machine's kernel move these page frames elsewhere, as it does with a frame that begins
/// to fail.
fn move_away(lab: &Lab, vm: usize, frames: &[u64]) -> Result<Run> {
    let places: Vec<String> = frames.iter().map(|frame| (frame * 4096).to_string()).collect();
    let file = "/sys/devices/system/memory/soft_offline_page";
    let script = format!("for place in {}; do echo $place >{file}; done", places.join(" "));
    lab.vm(vm).run_as(0, ["sh", "-c", &script])
}

#[test]
fn writes_follow_pages_that_the_kernel_migrates() -> Result<()> {
    let lab = shared_of("dart")?;
    // Only root can read where pages are.
    let root = Desk(lab.vm(1).run_as(0, ["dart-driver", "desk"])?);
    let (mut one, mut two) = (end(&lab, 0, 1, LENGTH)?, end_of(root, 0, LENGTH)?);
    connect(&mut one, &mut two)?;
    let question = format!("frames {}", two.endpoint);
    let frames = |two: &mut End| -> Result<Vec<u64>> {
        let answer = two.desk.ask(&question)?;
        Ok(answer["frames"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect())
    };
    for round in 1..=if_long(20, 3) {
        put(&mut one, u64::from(round) * 10)?;
        one.settle()?;
        let before = frames(&mut two)?;
        let mut moving = move_away(&lab, 1, &before[..PART as usize / 4096])?;
        for pass in 1..4 {
            put(&mut one, u64::from(round) * 10 + pass)?;
        }
        let told = moving.finish_text()?;
        put(&mut one, u64::from(round) * 10 + 4)?;
        one.settle()?;
        two.check(0, PART, u64::from(round) * 10 + 4)?;
        let after = frames(&mut two)?;
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        ensure!(
            moved > 0 && after.len() == before.len(),
            "the kernel has moved nothing ({told:?}): {before:?}, {after:?}"
        );
    }
    drop((one, two));
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

#[test]
fn forked_child_keeps_its_copy_of_the_memory() -> Result<()> {
    let lab = shared_of("dart")?;
    let (mut one, mut two) = pair(&lab, 0, 1, LENGTH)?;
    put(&mut one, 5)?;
    one.settle()?;
    for seed in [6, 7] {
        two.desk.expect(&format!("fork {}", two.endpoint), &json!({ "forked": true }))?;
        put(&mut one, seed)?;
        one.settle()?;
        two.check(0, PART, seed)?;
        let line = format!("forked {} 0 {PART} {}", two.endpoint, seed - 1);
        two.desk.expect(&line, &json!({ "kept": true }))?;
    }
    // A page that has only been read is the kernel's zero page, which must not be written.
    let (mut one, mut two) = pair(&lab, 0, 1, LENGTH)?;
    one.ask(&Operation::read(8192), &Operation::registers(1).tell(), 32)?;
    ensure!(one.record()?["words"] == json!([0, 0, 0, 0]));
    one.fill(0, 32, 9)?;
    one.send(&Operation::write(8192).tell(), 0, 32)?;
    two.record()?;
    two.check(8192, 32, 9)?;
    ensure!(two.own(4096)? == json!(0) && two.own(12_288)? == json!(0));
    Ok(())
}

#[test]
fn writes_follow_memory_that_is_unmapped_or_moved() -> Result<()> {
    let lab = dart_lab(1)?;
    let said = lab.vm(0).run(["dart-driver", "remap"])?.finish()?;
    let many = |name: &str, least: u64| said.first().is_some_and(|line| line[name].as_u64() >= Some(least));
    ensure!(said.len() == 1 && many("unmapped", 1) && many("moved", 40), "{said:?}");
    ensure!(many("found_again", 1), "other memory was never where it had been: {said:?}");
    nothing_is_left(&lab, 0)?;
    log_is_clean(&lab, 0)
}

#[test]
fn memory_remapped_during_a_page_fault_is_found() -> Result<()> {
    let lab = dart_lab(1)?;
    let said = lab.vm(0).run_as(0, ["dart-driver", "reappear"])?.finish()?;
    let many = |name: &str| said.first().is_some_and(|line| line[name].as_u64() >= Some(100));
    ensure!(said.len() == 1 && many("found_again") && many("missed"), "{said:?}");
    nothing_is_left(&lab, 0)?;
    log_is_clean(&lab, 0)
}

#[test]
fn card_with_one_tlb_entry_works() -> Result<()> {
    let model = catalogue::find("dart")?;
    let lab = lab_of(Lab::builder().models(&[model]).vms(2).card_args(["--tlb", "1"]));
    let (mut one, mut two) = pair(&lab, 0, 1, LENGTH)?;
    for seed in [5, 6] {
        put(&mut one, seed)?;
        one.settle()?;
        two.check(0, PART, seed)?;
    }
    // Every page misses, every time.
    let misses = two.desk.ask("counter misses")?;
    ensure!(misses["value"].as_u64() >= Some(64), "{misses}");
    Ok(())
}

#[test]
fn card_follows_the_tlb_replacement_policy() -> Result<()> {
    let model = catalogue::find("dart")?;
    // Either the least recently used entry is replaced, or each entry in turn. In the second case
    // the first page misses once more.
    for (policy, expected) in [("0", 3), ("1", 4)] {
        let arguments = ["--tlb", "2", "--tlb-policy", policy];
        let lab = lab_of(Lab::builder().models(&[model]).vms(1).card_args(arguments));
        let (mut one, mut two) = pair(&lab, 0, 0, LENGTH)?;
        let mut counted = |name: &str| -> Result<u64> {
            Ok(two.desk.ask(&format!("counter {name}"))?["value"].as_u64().unwrap_or_default())
        };
        let (misses, executed) = (counted("misses")?, counted("executed")?);
        for page in [0, 1, 0, 2, 0] {
            one.send(&Operation::write(page * 4096), 0, 0)?;
        }
        eventually(|| Ok(counted("executed")? >= executed + 5), "all are executed")?;
        let found = counted("misses")? - misses;
        ensure!(found == expected, "policy {policy}: {found} misses, not {expected}");
    }
    Ok(())
}
