//! The machines.

use crate::engine::exchange::{Exchange, words};
use crate::engine::machines::{Layout, Machines};
use crate::engine::run::Run;

/// Bytes that the two hosts share: half of it is each one's to receive in. ivshmem has as much.
const PART: &str = "8M";

/// Two pinned machines with express memory, and with what people would use instead. No card's
/// thread is on the way of a message, so each processor has its core to itself.
pub(crate) fn express(run: &Run<'_>) -> anyhow::Result<Machines> {
    let arguments = words(&format!("--express shared --express-part {PART}"));
    let machines = run.machines(Layout::Pinned, &arguments, true)?;
    machines.share_all()?;
    Ok(machines)
}

/// Two ends by the library's channel.
pub(crate) fn by_channel<'a>(
    machines: &'a Machines,
    [near, far]: [&str; 2],
    arguments: &str,
) -> Exchange<'a> {
    machines.exchange(&format!("{near} {arguments}"), &format!("{far} {arguments}"))
}

/// Two ends by the same ring in ivshmem's memory, which is root's to map.
pub(crate) fn by_ivshmem<'a>(
    machines: &'a Machines,
    [near, far]: [&str; 2],
    arguments: &str,
) -> Exchange<'a> {
    let line = |role: &str| format!("{role} --through ivshmem {arguments}");
    machines.exchange_by_root(&line(near), &line(far))
}
