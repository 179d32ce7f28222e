//! A network between two machines beside the card, for those who compare the two.

use std::path::Path;

use super::qemu::escape;

/// Of a range that is kept for documentation (RFC 5737): it is in no other network, and this one
/// ends at the two machines.
const NETWORK: &str = "192.0.2";

/// The address of a machine, which its image gives to the device.
pub(super) fn address(index: usize) -> String {
    format!("{NETWORK}.{}", index + 1)
}

/// QEMU's arguments for a machine's device. Packets go from QEMU to QEMU, in datagrams between
/// sockets of the lab's directory.
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
