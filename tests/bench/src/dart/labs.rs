//! The machines with DART cards.

use anyhow::Context;

use crate::engine::exchange::words;
use crate::engine::machines::{Layout, Machines};
use crate::engine::run::Run;

/// Starts machines with DART cards.
pub(crate) fn dart(run: &Run<'_>, layout: Layout) -> anyhow::Result<Machines> {
    run.machines(layout, &[], false)
}

/// Starts machines with DART cards whose connections allow more cells in flight.
pub(crate) fn wide(run: &Run<'_>, layout: Layout) -> anyhow::Result<Machines> {
    run.machines(layout, &words(&format!("--window {WIDE}")), false)
}

/// Cells that a connection of those machines may have in flight: the maximum.
pub(crate) const WIDE: u32 = 65536;

/// Gives the far machine swap space in compressed memory. The kernel swaps in only the requested
/// page, without read-ahead.
pub(crate) fn add_swap(machines: &Machines) -> anyhow::Result<()> {
    const SWAP: &str = "echo 4 >/proc/sys/vm/drop_caches; \
        while read -r module; do insmod /lib/swap/$module.ko || exit 1; done </lib/swap/order && \
        echo 64M >/sys/block/zram0/disksize && mkswap /dev/zram0 && swapon /dev/zram0 && echo 0 >/proc/sys/vm/page-cluster";
    let far = machines.lab.vm(1);
    far.run_as(0, ["sh", "-c", SWAP])?
        .finish_text()
        .map(drop)
        .with_context(|| format!("{}: no swap space", far.name()))
}
