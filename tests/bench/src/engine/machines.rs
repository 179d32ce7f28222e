//! The two machines, with the card and the devices that are its alternatives.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use anyhow::Context;
use hamlyn_host::catalogue::Model;
use hamlyn_lab::{Accel, Lab, Memory, Snoop, cores};

use crate::engine::exchange::words;
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

/// Network of both machines' addresses for the peers' sockets, from a range that is reserved for
/// documentation (RFC 5737). No other network uses it, and this one contains only the two machines.
const NETWORK: &str = "192.0.2";

/// Address on which the far machine's sockets listen.
pub const ADDRESS: &str = "192.0.2.2:7000";

/// MTUs of the netdev to try. A frame must fit into a datagram of its socket, and the IP length
/// into 16 bits.
pub const MTUS: [u32; 4] = [1500, 9000, 30_000, 60_000];

/// Two machines that run at the same time, or cards for programs of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The model of their cards. Those of the measured model also get the user's arguments.
    pub model: &'static str,
    /// Which processes the cards and the switch run in. Latencies use pinned machines. Bandwidth
    /// uses unpinned ones: a pinned sender would share its core with the thread that takes its
    /// data.
    pub layout: Layout,
    /// How stores reach cards that want to snoop them.
    pub snoop: Snoop,
    /// Arguments for their cards.
    pub card_args: &'static str,
    /// Whether they have the other devices, too.
    pub peers: bool,
    /// Whether one user may have all of a card: no part is for others, and none is reserved.
    pub share_all: bool,
    /// Whether their exchanges are left out if they cannot start.
    pub optional: bool,
    /// The number of cards for programs of the host, at the first two of which the programs run; 0
    /// for machines.
    pub host_cards: usize,
}

impl Pair {
    /// Returns two pinned machines without the alternatives to a card.
    pub const fn of(model: &'static str) -> Self {
        Self {
            model,
            layout: Layout::Pinned,
            snoop: Snoop::Auto,
            card_args: "",
            peers: false,
            share_all: false,
            optional: false,
            host_cards: 0,
        }
    }

    /// Returns the same machines, not pinned.
    pub const fn unpinned(self) -> Self {
        Self { layout: Layout::Fabric, ..self }
    }

    /// Returns machines of another model for comparison, whose stores go to window pages if the
    /// model has any.
    pub const fn other(model: &'static str) -> Self {
        Self { snoop: Snoop::No, ..Self::of(model) }
    }

    /// Returns the same machines with the other devices.
    pub const fn with_peers(self) -> Self {
        Self { peers: true, ..self }
    }
}

/// Two machines.
#[derive(Debug)]
pub struct Machines {
    /// The lab that contains them.
    pub lab: Lab,
    /// Its cards, switch and machines.
    pub processes: Vec<Child>,
    layout: Layout,
    /// The cards of the programs, if they are on the host.
    sockets: Vec<PathBuf>,
    vsock: Option<Daemon>,
    /// Whether its MTU is the fastest for TCP.
    pub(crate) is_tuned: Cell<bool>,
}

impl Machines {
    /// Starts them.
    pub fn start(
        pair: Pair,
        model: &'static Model,
        accel: Accel,
        card_args: &[String],
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let Pair { layout, snoop, peers, host_cards, .. } = pair;
        progress.step("boot");
        let before = children()?;
        let mut builder = Lab::builder()
            .vms(if host_cards == 0 { 2 } else { 0 })
            .spare_cards(host_cards)
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
        let sockets = (0..host_cards.min(2)).map(|card| Ok(lab.card_socket(card)?.to_owned()));
        let sockets = sockets.collect::<anyhow::Result<_>>()?;
        let machines = Self { lab, processes, layout, sockets, vsock, is_tuned: Cell::new(false) };
        if pair.share_all {
            let script = "cd /sys/module/hamlyn/parameters && echo 100 > share && echo 0 > reserve";
            (0..2).try_for_each(|index| machines.as_root(index, script))?;
        }
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

    /// Returns whether vsock is among their devices.
    pub fn has_vsock(&self) -> bool {
        self.vsock.is_some()
    }

    /// Returns which processes their cards and the switch run in.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the measuring end (0) or the other end (1).
    pub fn site(&self, index: usize) -> Site<'_> {
        match self.sockets.get(index) {
            Some(card) => Site::Host(Some(card.clone())),
            None => Site::Guest(self.lab.vm(index)),
        }
    }

    /// Returns the measuring end.
    pub fn near(&self) -> Site<'_> {
        self.site(0)
    }

    /// Returns the other end.
    pub fn far(&self) -> Site<'_> {
        self.site(1)
    }

    /// Gives the far machine swap space in compressed memory. The kernel swaps in only the
    /// requested page, without read-ahead.
    pub fn add_swap(&self) -> anyhow::Result<()> {
        const SWAP: &str = "echo 4 >/proc/sys/vm/drop_caches; \
            while read -r module; do insmod /lib/swap/$module.ko || exit 1; done </lib/swap/order && \
            echo 64M >/sys/block/zram0/disksize && mkswap /dev/zram0 && swapon /dev/zram0 && \
            echo 0 >/proc/sys/vm/page-cluster";
        self.as_root(1, SWAP).with_context(|| format!("{}: no swap space", self.lab.vm(1).name()))
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
