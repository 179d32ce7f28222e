//! The two machines, with the card and the devices that people would use instead.

use std::path::Path;

use anyhow::Context;
use hamlyn_cli::lab::{Accel, Lab, Memory};

use crate::progress::Progress;
use crate::site::Site;

/// The far machine's address for the peers' sockets, of a range that is kept for documentation (RFC 5737): it is in no
/// other network, and this one ends at the two machines.
const NETWORK: &str = "192.0.2";

/// The port that the peers' far ends listen on.
const PORT: u16 = 7000;

/// The largest MTU of the netdev: a frame must fit a datagram of its socket, and the IP length its 16 bits.
pub const MTUS: [u32; 4] = [1500, 9000, 30_000, 60_000];

/// Two machines.
#[derive(Debug)]
pub struct Machines {
    /// The lab that they are in.
    pub lab: Lab,
    peers: bool,
}

impl Machines {
    /// Starts them, with these arguments for their cards. With `peers` they have the other devices too.
    pub fn start(
        accel: Accel,
        card_args: &[String],
        peers: bool,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        progress.step("boot");
        let mut builder =
            Lab::builder().vms(2).accel(accel).memory(Memory::mib(384)).card_args(card_args.iter().cloned());
        if peers {
            builder = builder.qemu_args(devices);
        }
        let machines = Self { lab: builder.start()?, peers };
        if peers {
            for (index, vm) in machines.lab.vms().iter().enumerate() {
                let script = format!(
                    "cd /lib/bench && insmod failover.ko && insmod net_failover.ko && insmod virtio_net.ko && \
                     ip addr add {NETWORK}.{}/24 dev eth0 && ip link set eth0 mtu {} up",
                    index + 1,
                    MTUS[0],
                );
                machines.as_root(index, &script).with_context(|| format!("{}: no network", vm.name()))?;
            }
        }
        Ok(machines)
    }

    /// Whether they have the other devices.
    pub fn peers(&self) -> bool {
        self.peers
    }

    /// The measuring end.
    pub fn near(&self) -> Site<'_> {
        Site::Guest(self.lab.vm(0))
    }

    /// The other end.
    pub fn far(&self) -> Site<'_> {
        Site::Guest(self.lab.vm(1))
    }

    /// Where the far end's sockets listen.
    pub fn address(&self) -> String {
        format!("{NETWORK}.2:{PORT}")
    }

    /// Sets the MTU of virtio-net in both.
    pub fn set_mtu(&self, mtu: u32) -> anyhow::Result<()> {
        (0..2).try_for_each(|index| self.as_root(index, &format!("ip link set eth0 mtu {mtu}")))
    }

    fn as_root(&self, index: usize, script: &str) -> anyhow::Result<()> {
        self.lab.vm(index).run_as(0, ["sh", "-c", script])?.finish_text().map(drop)
    }
}

/// virtio-net over a pair of UNIX datagram sockets, and memory that both machines map.
fn devices(index: usize, directory: &Path) -> Vec<String> {
    let path = |name: &str| directory.join(name).to_string_lossy().replace(',', ",,");
    let (own, other) = (path(&format!("net{index}")), path(&format!("net{}", 1 - index)));
    [
        "-netdev",
        &format!("dgram,id=net,local.type=unix,local.path={own},remote.type=unix,remote.path={other}"),
        "-device",
        &format!("virtio-net-pci,netdev=net,mac=52:54:00:48:4d:{index:02x}"),
        "-object",
        &format!("memory-backend-file,id=ivshmem,size=1M,share=on,mem-path={}", path("ivshmem")),
        "-device",
        "ivshmem-plain,memdev=ivshmem",
    ]
    .map(str::to_owned)
    .to_vec()
}
