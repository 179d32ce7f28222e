//! The machines.

use crate::engine::exchange::{Exchange, words};
use crate::engine::machines::{Layout, Machines};
use crate::engine::run::Run;

/// Bytes that the two hosts share: each one receives in half of it. ivshmem has the same size.
const PART: &str = "8M";

/// Starts two pinned machines with express memory, and with the alternatives to a card. No card's
/// thread takes part in a message, so each processor has its core to itself.
pub(crate) fn express(run: &Run<'_>) -> anyhow::Result<Machines> {
    let arguments = words(&format!("--express shared --express-part {PART}"));
    let machines = run.machines(Layout::Pinned, &arguments, true)?;
    machines.share_all()?;
    Ok(machines)
}

/// Two ends that use the library's channel.
pub(crate) fn by_channel<'a>(
    machines: &'a Machines,
    [near, far]: [&str; 2],
    arguments: &str,
) -> Exchange<'a> {
    machines.exchange(&format!("{near} {arguments}"), &format!("{far} {arguments}"))
}

/// Two ends that use the same ring in ivshmem's memory, which only root may map.
pub(crate) fn by_ivshmem<'a>(
    machines: &'a Machines,
    [near, far]: [&str; 2],
    arguments: &str,
) -> Exchange<'a> {
    let line = |role: &str| format!("{role} --through ivshmem {arguments}");
    machines.exchange_by_root(&line(near), &line(far))
}
