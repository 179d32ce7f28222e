//! The memory type of window mappings follows what the card reports (docs/hamlyn.md, "How windows
//! are mapped").

use anyhow::{Context, Result, ensure};
use hamlyn_lab::Lab;

use crate::messages::ping_pong;
use crate::{Turn, lab_of};

/// A device whose BAR does not fit below 4 GiB. The firmware then puts all wide BARs above, where
/// its MTRRs allow caches.
const LARGE: [&str; 4] =
    ["-object", "memory-backend-ram,id=large,size=1G", "-device", "ivshmem-plain,memdev=large"];

/// Parses the start and the end of a memory range.
fn range(text: &str, separator: char) -> Option<(u64, u64)> {
    let (start, end) = text.split_once(separator)?;
    let number = |text: &str| u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok();
    Some((number(start)?, number(end)?))
}

/// Returns the memory type with which a machine's kernel has mapped the windows of its card.
fn memory_type(lab: &Lab, vm: usize) -> Result<String> {
    let resources = lab.vm(vm).read("/sys/bus/pci/devices/0000:00:10.0/resource")?;
    let windows = resources.lines().nth(2).context("no BAR 2")?;
    let (start, _) =
        range(&windows.split(' ').take(2).collect::<Vec<_>>().join(" "), ' ').context("no range")?;
    ensure!(start >= 1 << 32, "BAR 2 is at {start:#x}, where firmware allows no caches");
    let list = "mount -t debugfs none /sys/kernel/debug; cat /sys/kernel/debug/x86/pat_memtype_list";
    for line in lab.vm(vm).run_as(0, ["sh", "-c", list])?.finish_text()? {
        let parts = line.strip_prefix("PAT: [mem ").and_then(|rest| rest.split_once("] "));
        let Some((range, kind)) = parts.and_then(|(text, kind)| Some((range(text, '-')?, kind))) else {
            continue;
        };
        if range.0 <= start && start < range.1 {
            return Ok(kind.to_owned());
        }
    }
    anyhow::bail!("the windows at {start:#x} are not mapped")
}

fn lab_with_windows(coherent: &str) -> Result<Turn> {
    let large = |_: usize, _: &std::path::Path| LARGE.map(str::to_owned).to_vec();
    let builder = Lab::builder().vms(2).qemu_args(large).card_args(["--coherent-windows", coherent]);
    Ok(lab_of(builder))
}

#[test]
fn windows_are_cached_only_if_card_says_coherent() -> Result<()> {
    for (coherent, expected) in [("1", "write-back"), ("0", "uncached-minus")] {
        let lab = lab_with_windows(coherent)?;
        for vm in 0..2 {
            let found = memory_type(&lab, vm)?;
            ensure!(found == expected, "--coherent-windows {coherent}: {found}");
        }
        // Before and after a program has mapped them.
        ping_pong(&lab, 0, 1, 200)?;
        ensure!(memory_type(&lab, 0)? == expected);
    }
    Ok(())
}
