//! TCP between two machines, with the fastest MTU.

use crate::engine::exchange::Exchange;
use crate::engine::machines::{MTUS, Machines, stream_arguments};
use crate::engine::progress::Progress;

/// A stream of `mib` MiB by TCP.
pub(crate) fn stream(machines: &Machines, mib: u64) -> Exchange<'_> {
    let arguments = format!("--address {} {}", machines.address(), stream_arguments(64 << 10, mib * 16));
    machines.exchange(&format!("tcp-send {arguments}"), &format!("tcp-sink {arguments}"))
}

/// Sets virtio-net between two machines to the fastest MTU for TCP.
pub(crate) fn tune(machines: &Machines, progress: &Progress) -> anyhow::Result<()> {
    let best = best_mtu(machines, stream(machines, 4), progress)?;
    progress.note(&format!("virtio-net's best MTU for TCP is {best}"));
    Ok(())
}

/// Sets the MTU with which a TCP stream is fastest.
fn best_mtu(machines: &Machines, stream: Exchange<'_>, progress: &Progress) -> anyhow::Result<u32> {
    let mut best = (MTUS[0], 0.0);
    for mtu in MTUS {
        progress.step(&format!("virtio-net, TCP stream at MTU {mtu}"));
        machines.set_mtu(mtu)?;
        match stream.run() {
            Ok(outcome) if outcome.rate() > best.1 => best = (mtu, outcome.rate()),
            Ok(_) => {}
            Err(error) => progress.note(&format!("TCP at MTU {mtu}: {error:#}")),
        }
    }
    machines.set_mtu(best.0)?;
    Ok(best.0)
}
