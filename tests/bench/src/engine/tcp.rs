//! TCP between two machines, with the fastest MTU.

use crate::engine::exchange::Exchange;
use crate::engine::machines::{ADDRESS, MTUS, Machines, stream_arguments};
use crate::engine::progress::Progress;

/// Returns the arguments of both ends of a stream of `mib` MiB by TCP.
pub(crate) fn arguments(mib: u64) -> String {
    format!("--address {ADDRESS} {}", stream_arguments(64 << 10, mib * 16))
}

/// Sets virtio-net between two machines to the fastest MTU for TCP, once.
pub(crate) fn tune(machines: &Machines, progress: &Progress) -> anyhow::Result<()> {
    if machines.is_tuned.replace(true) {
        return Ok(());
    }
    let [send, sink] = ["send", "sink"].map(|end| format!("tcp-{end} {}", arguments(4)));
    let stream = Exchange::between(machines.near(), &send, machines.far(), &sink);
    let best = progress.part("TCP's best MTU", || best_mtu(machines, stream, progress))?;
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
