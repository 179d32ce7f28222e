//! A network between two machines in addition to the cards, to compare both.

use std::path::Path;

use super::qemu::escape;

/// Part of a range that is reserved for documentation (RFC 5737). No other network uses it, and
/// this network ends at the two machines.
const NETWORK: &str = "192.0.2";

/// Returns the address of a machine, which its image assigns to the device.
pub(super) fn address(index: usize) -> String {
    format!("{NETWORK}.{}", index + 1)
}

/// Returns QEMU's arguments for a machine's device. Packets go from QEMU to QEMU, as datagrams
/// between sockets in the lab's directory.
pub(super) fn device(index: usize, run: &Path) -> Vec<String> {
    let path = |index: usize| escape(&run.join(format!("net{index}")).to_string_lossy());
    let (own, other) = (path(index), path(1 - index));
    [
        "-netdev".to_owned(),
        format!("dgram,id=net,local.type=unix,local.path={own},remote.type=unix,remote.path={other}"),
        "-device".to_owned(),
        format!("virtio-net-pci,netdev=net,mac=52:54:00:48:4d:{index:02x}"),
    ]
    .to_vec()
}
