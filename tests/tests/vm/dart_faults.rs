//! Pages that DART's driver brings in for messages: with several processors, behind an IOMMU, in
//! bounded memory, and with bounded waits.

use std::path::Path;

use anyhow::{Result, ensure};
use hamlyn::dart::Operation;
use hamlyn_host::catalogue;
use hamlyn_lab::{Exit, Lab, Memory};
use serde_json::json;

use crate::dart::{end, nothing_is_left, pair};
use crate::dart_memory::{LENGTH, PART, page_out, put};
use crate::left::{log_is_clean, log_is_clean_but_for_kills};
use crate::shrimp_paging::shell;
use crate::turn::has_debug_kernel;
use crate::{Turn, eventually, if_long, lab_of, text};

/// Starts machines with two processors and swap space, whose cards are behind an IOMMU.
fn translated_lab(vms: usize) -> Result<Turn> {
    let model = catalogue::find("dart")?;
    let arguments = |_: usize, _: &Path| {
        ["-smp", "2", "-device", "intel-iommu,caching-mode=on"].map(str::to_owned).to_vec()
    };
    let lab = Lab::builder()
        .models(&[model])
        .vms(vms)
        .qemu_args(arguments)
        .kernel_args("intel_iommu=on iommu.strict=1");
    let lab = lab_of(lab);
    for vm in 0..vms {
        shell(&lab, vm, hamlyn_lab::SWAP)?;
        let group = shell(&lab, vm, "ls -d /sys/class/dart/dart0/device/iommu_group/")?;
        ensure!(group.contains("iommu_group"), "the card is not behind an IOMMU: {group}");
    }
    Ok(lab)
}

#[test]
fn pages_move_under_messages_behind_an_iommu() -> Result<()> {
    let lab = translated_lab(1)?;
    for _ in 0..if_long(10, 1) {
        let said = lab.vm(0).run(["dart-driver", "remap"])?.finish()?;
        let many =
            |name: &str, least: u64| said.first().is_some_and(|line| line[name].as_u64() >= Some(least));
        ensure!(said.len() == 1 && many("unmapped", 1) && many("moved", 40), "{said:?}");
    }
    nothing_is_left(&lab, 0)?;
    log_is_clean(&lab, 0)
}

#[test]
fn pages_leave_and_come_back_behind_an_iommu() -> Result<()> {
    let lab = translated_lab(2)?;
    let (mut one, mut two) = pair(&lab, 0, 1, LENGTH)?;
    for round in 0..u64::from(if_long(10, 1)) {
        page_out(&lab, 1, &mut two)?;
        two.desk.begin(&format!("churn {} 3000", two.endpoint))?;
        for pass in 0..4 {
            put(&mut one, round * 10 + pass)?;
        }
        one.settle()?;
        two.desk.answer()?;
        two.check(0, PART, round * 10 + 3)?;
    }
    drop((one, two));
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

/// Messages of two connections of one endpoint miss the same pages at the same time. The answer for
/// one connection replaces what the card was told for the other.
#[test]
fn connections_miss_the_same_pages_behind_an_iommu() -> Result<()> {
    let lab = translated_lab(2)?;
    let (mut one, mut two) = pair(&lab, 0, 1, LENGTH)?;
    let mut three = end(&lab, 0, 1, LENGTH)?;
    let opened = two.desk.ask(&format!("open 0 {} {} events={}", two.endpoint, two.bank, two.queue))?;
    let connected = json!({ "connected": true });
    two.desk.expect(&format!("connect {} {}", opened["connection"], three.address), &connected)?;
    three.desk.expect(&format!("connect {} {}", three.connection, text(&opened, "address")), &connected)?;
    for round in 0..u64::from(if_long(50, 8)) {
        page_out(&lab, 1, &mut two)?;
        let mut senders = [&mut one, &mut three];
        senders.iter_mut().try_for_each(|sender| sender.fill(0, PART, round))?;
        for at in (0..PART).step_by(16_384) {
            for sender in &mut senders {
                sender.send(&Operation::write_multiple(at), at, 16_384)?;
            }
        }
        senders.iter_mut().try_for_each(|sender| sender.settle())?;
        two.check(0, PART, round)?;
    }
    for sender in [&mut one, &mut three] {
        let status = sender.desk.ask(&format!("status {}", sender.connection))?;
        ensure!(status["traps"] == json!(0) && status["broken"].is_null(), "{status}");
    }
    drop((one, two, three));
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

/// Returns a value of a machine's `/proc/meminfo`, in kilobytes.
fn kilobytes(lab: &Lab, name: &str) -> Result<u64> {
    let text = lab.vm(0).read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    Ok(line.trim_start_matches(':').trim().trim_end_matches(" kB").parse()?)
}

#[test]
fn sparse_reads_take_bounded_memory() -> Result<()> {
    const GIB: u64 = 24;
    const MIB: u32 = 384;
    let model = catalogue::find("dart")?;
    let lab = lab_of(Lab::builder().models(&[model]).vms(1).memory(Memory::mib(MIB)));
    shell(&lab, 0, "echo 1 >/proc/sys/vm/overcommit_memory")?;
    let before = kilobytes(&lab, "Slab")?;
    let mut reader = lab.vm(0).run(["dart-driver", "sparse", &GIB.to_string()])?;
    let said = reader.answer()?;
    ensure!(said["asked"] == json!(GIB * 512) && said["traps"].as_u64() > Some(0), "{said}");
    // A page table for each page that was read would need twice as much. A debug kernel's objects
    // are larger.
    let (tables, slab) = (kilobytes(&lab, "PageTables")?, kilobytes(&lab, "Slab")?.saturating_sub(before));
    let most = u64::from(MIB) * 1024 / if has_debug_kernel() { 10 } else { 16 };
    ensure!(tables < most && slab < most / 4, "{tables} kB of page tables, {slab} kB more of slab");
    drop(reader);
    nothing_is_left(&lab, 0)?;
    log_is_clean(&lab, 0)?;
    let log = lab.vm(0).kernel_log();
    ensure!(!log.contains("Killed process"), "{log}");
    Ok(())
}

/// Page tables are charged to the reader's memory cgroup. The OOM killer ends only the reader whose
/// cgroup is full.
#[test]
fn sparse_reads_are_charged_to_reader() -> Result<()> {
    const MIB: u64 = 1 << 20;
    let model = catalogue::find("dart")?;
    let lab = lab_of(Lab::builder().models(&[model]).vms(1).memory(Memory::mib(384)));
    shell(
        &lab,
        0,
        "echo 1 >/proc/sys/vm/overcommit_memory; mount -t cgroup2 none /sys/fs/cgroup && \
        echo +memory >/sys/fs/cgroup/cgroup.subtree_control",
    )?;
    let reader_in = |group: &str, most: &str| {
        format!(
            "cd /sys/fs/cgroup && mkdir {group} && echo {most} >{group}/memory.max && echo $$ >{group}/cgroup.procs && \
             exec dart-driver sparse 24"
        )
    };
    let script = reader_in("large", "60M");
    let mut reader = lab.vm(0).run_as(0, ["sh", "-c", &script])?;
    reader.answer()?;
    let stat = lab.vm(0).read("/sys/fs/cgroup/large/memory.stat")?;
    let tables = stat.lines().find_map(|line| line.strip_prefix("pagetables ")).unwrap_or_default();
    ensure!(tables.parse::<u64>()? > 16 * MIB, "{stat}");
    let mut greedy = lab.vm(0).run_as(0, ["sh", "-c", &reader_in("small", "12M")])?;
    ensure!(greedy.wait()? == Exit::Signal(9), "a reader whose group has no more memory goes on");
    drop(greedy);
    // The other reader is not affected.
    reader.say("")?;
    shell(&lab, 0, "test -d /proc/$(cat /sys/fs/cgroup/large/cgroup.procs)")?;
    drop(reader);
    nothing_is_left(&lab, 0)?;
    log_is_clean_but_for_kills(&lab, 0)
}

/// Creates a file of two pages in its own file system, which can be frozen.
const FILE_SYSTEM: &str = "while read -r module; do insmod /lib/swap/$module.ko; done </lib/swap/order
    echo 16M >/sys/block/zram0/disksize && mke2fs -b 4096 /dev/zram0 && mkdir -p /tmp/disk && mount /dev/zram0 /tmp/disk &&
    dd if=/dev/zero of=/tmp/disk/file bs=4096 count=2 && sync";
/// Unbinds the card from its driver.
const UNBIND: &str = "card=$(readlink -f /sys/class/dart/dart0/device) &&
    timeout 600 sh -c \"echo $(basename $card) >$card/driver/unbind\" && echo unbound";

#[test]
fn unbind_does_not_wait_for_a_page() -> Result<()> {
    let model = catalogue::find("dart")?;
    let lab = lab_of(Lab::builder().models(&[model]).vms(1));
    shell(&lab, 0, FILE_SYSTEM)?;
    let mut writer = lab.vm(0).run_as(0, ["dart-driver", "frozen", "/tmp/disk/file"])?;
    ensure!(writer.answer()? == json!({ "written": 1 }));
    shell(&lab, 0, "fsfreeze --freeze /tmp/disk")?;
    writer.say("next")?;
    ensure!(writer.answer()? == json!({ "sent": 2 }));
    // The driver's thread waits for the file system.
    let stuck = "grep -l 'sb_start\\|percpu_rwsem' /proc/[0-9]*/stack 2>/dev/null | wc -l";
    eventually(|| Ok(shell(&lab, 0, stuck)?.trim() != "0"), "the page is waited for")?;
    let said = shell(&lab, 0, UNBIND)?;
    shell(&lab, 0, "fsfreeze --unfreeze /tmp/disk")?;
    ensure!(said.contains("unbound"), "unbind waits for the page: {said}");
    drop(writer);
    log_is_clean(&lab, 0)
}
