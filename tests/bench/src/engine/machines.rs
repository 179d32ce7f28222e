//! The two machines, with the card and the devices that are its alternatives.

use std::path::Path;

use anyhow::Context;
use hamlyn_host::catalogue::Model;
use hamlyn_lab::{Accel, Lab, Memory, Snoop, cores};

use crate::engine::exchange::{Exchange, words};
use crate::engine::processes::{Child, children};
use crate::engine::progress::Progress;
use crate::engine::site::Site;
use crate::engine::vsock::Daemon;

/// Which processes the cards and the switch run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `hamlyn fabric --cores 0,1`: all in one process. Each machine is pinned to one core together
    /// with the thread that serves it, whatever device it uses.
    Pinned,
    /// `hamlyn fabric`: all in one process.
    Fabric,
    /// `hamlyn card` for each card, and `hamlyn switch`.
    Separate,
}

impl Layout {
    /// Returns the layout's label.
    pub fn text(self) -> &'static str {
        match self {
            Layout::Pinned => "one fabric process, pinned",
            Layout::Fabric => "one fabric process",
            Layout::Separate => "cards and switch as separate processes",
        }
    }
}

/// Network of the far machine's address for the peers' sockets, from a range that is reserved for
/// documentation (RFC 5737). No other network uses it, and this one contains only the two machines.
const NETWORK: &str = "192.0.2";

/// The port that the peers' far ends listen on.
const PORT: u16 = 7000;

/// MTUs of the netdev to try. A frame must fit into a datagram of its socket, and the IP length
/// into 16 bits.
pub const MTUS: [u32; 4] = [1500, 9000, 30_000, 60_000];

/// Properties of two machines.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// Their cards' model.
    pub model: &'static Model,
    /// The accelerator that runs them.
    pub accel: Accel,
    /// Which processes the cards and the switch run in.
    pub layout: Layout,
    /// How stores reach cards that want to snoop them.
    pub snoop: Snoop,
    /// Arguments for their cards.
    pub card_args: &'a [String],
    /// Whether they have the other devices, too.
    pub peers: bool,
}

/// Two machines.
#[derive(Debug)]
pub struct Machines {
    /// The lab that contains them.
    pub lab: Lab,
    /// Its cards, switch and machines.
    pub processes: Vec<Child>,
    layout: Layout,
    peers: bool,
    vsock: Option<Daemon>,
}

impl Machines {
    /// Starts them.
    pub fn start(wish: Wish<'_>, progress: &Progress) -> anyhow::Result<Self> {
        let Wish { model, accel, layout, snoop, card_args, peers } = wish;
        progress.step("boot");
        let before = children()?;
        let mut builder = Lab::builder()
            .vms(2)
            .models(&[model])
            .accel(accel)
            .snoop(snoop)
            .memory(Memory::mib(384))
            .one_process(layout != Layout::Separate)
            .cores(if layout == Layout::Pinned { cores(2) } else { Vec::new() })
            .card_args(card_args.iter().cloned());
        let vsock = if peers { Daemon::start()? } else { None };
        if peers {
            let sockets = vsock.as_ref().map(|daemon| [0, 1].map(|index| daemon.socket(index)));
            builder = builder.qemu_args(move |index, directory| {
                let vsock = sockets.iter().flat_map(|sockets| vsock_device(&sockets[index]));
                devices(index, directory).into_iter().chain(vsock).collect()
            });
        }
        let lab = builder.start()?;
        let new = |child: &Child| !child.name.is_empty() && !before.contains(child);
        let processes = children()?.into_iter().filter(new).collect();
        let machines = Self { lab, processes, layout, peers, vsock };
        if peers {
            for (index, vm) in machines.lab.vms().iter().enumerate() {
                let script = format!(
                    "cd /lib/bench && for module in $(cat order); do insmod $module.ko || exit 1; done && \
                     ip addr add {NETWORK}.{}/24 dev eth0 && ip link set eth0 mtu {} up",
                    index + 1,
                    MTUS[0],
                );
                machines.as_root(index, &script).with_context(|| format!("{}: no network", vm.name()))?;
            }
        }
        Ok(machines)
    }

    /// Returns whether they have the other devices.
    pub fn peers(&self) -> bool {
        self.peers
    }

    /// Returns whether vsock is among them.
    pub fn has_vsock(&self) -> bool {
        self.vsock.is_some()
    }

    /// Returns which processes their cards and the switch run in.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Prepares an exchange between the two machines, with the processor time of all their
    /// processes.
    pub fn exchange(&self, near: &str, far: &str) -> Exchange<'_> {
        Exchange::between(self.near(), near, self.far(), far).watching(&self.processes)
    }

    /// Prepares the same exchange as root, which may lock any amount of memory.
    pub fn exchange_by_root(&self, near: &str, far: &str) -> Exchange<'_> {
        let [own, other] = [0, 1].map(|index| Site::Root(self.lab.vm(index)));
        Exchange::between(own, near, other, far).watching(&self.processes)
    }

    /// Prepares round trips between the two machines, by a pair of roles.
    pub fn round_trips(&self, role: &str, arguments: &str) -> Exchange<'_> {
        self.exchange(&format!("{role}-ping {arguments}"), &format!("{role}-echo {arguments}"))
    }

    /// Returns the measuring end.
    pub fn near(&self) -> Site<'_> {
        Site::Guest(self.lab.vm(0))
    }

    /// Returns the other end.
    pub fn far(&self) -> Site<'_> {
        Site::Guest(self.lab.vm(1))
    }

    /// Returns the address on which the far end's sockets listen.
    pub fn address(&self) -> String {
        format!("{NETWORK}.2:{PORT}")
    }

    /// Lets one user have all of a card: no part is for others, and none is reserved.
    pub fn share_all(&self) -> anyhow::Result<()> {
        let script = "cd /sys/module/hamlyn/parameters && echo 100 > share && echo 0 > reserve";
        (0..2).try_for_each(|index| self.as_root(index, script))
    }

    /// Sets the MTU of virtio-net in both machines.
    pub fn set_mtu(&self, mtu: u32) -> anyhow::Result<()> {
        (0..2).try_for_each(|index| self.as_root(index, &format!("ip link set eth0 mtu {mtu}")))
    }

    fn as_root(&self, index: usize, script: &str) -> anyhow::Result<()> {
        self.lab.vm(index).run_as(0, ["sh", "-c", script])?.finish_text().map(drop)
    }
}

/// Maximum bytes of a stream's places at each end. It is large because each lap has a fixed cost to
/// start it and to wake the receiver at the end.
const PLACES: u64 = 64 << 20;

/// Returns the number of messages in a stream's lap. Each has its own place, and all bytes are
/// checked after each lap.
fn places(size: u64, count: u64) -> u64 {
    (PLACES / size).clamp(1, count)
}

/// Returns the arguments of both ends of a stream of messages.
pub fn stream_arguments(size: u64, count: u64) -> String {
    let places = places(size, count);
    format!("--size {size} --places {places} --warmup {} --count {count}", places.min(1024))
}

fn vsock_device(socket: &Path) -> Vec<String> {
    let path = socket.to_string_lossy().replace(',', ",,");
    words(&format!("-chardev socket,id=vsock,path={path} -device vhost-user-vsock-pci,chardev=vsock"))
}

/// Returns QEMU's arguments for virtio-net over a pair of UNIX datagram sockets, and for memory
/// that both machines map.
fn devices(index: usize, directory: &Path) -> Vec<String> {
    let path = |name: &str| directory.join(name).to_string_lossy().replace(',', ",,");
    let (own, other) = (path(&format!("net{index}")), path(&format!("net{}", 1 - index)));
    [
        "-netdev",
        &format!("dgram,id=net,local.type=unix,local.path={own},remote.type=unix,remote.path={other}"),
        "-device",
        &format!("virtio-net-pci,netdev=net,mac=52:54:00:48:4d:{index:02x}"),
        "-object",
        &format!("memory-backend-file,id=ivshmem,size=8M,share=on,mem-path={}", path("ivshmem")),
        "-device",
        "ivshmem-plain,memdev=ivshmem",
    ]
    .map(str::to_owned)
    .to_vec()
}
