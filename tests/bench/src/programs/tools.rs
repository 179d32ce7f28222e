//! Debian's programs that measure a network, and what they print.

use anyhow::{Context, Result};
use hamlyn_lab::Vm;
use serde_json::Value;

/// What is measured with one of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quantity {
    /// What it is called in the report.
    pub what: &'static str,
    pub unit: &'static str,
    /// Whether more of it is better: a rate, and not a time.
    pub is_rate: bool,
    /// Whether the devices have their largest MTU meanwhile, and not Ethernet's.
    pub large_mtu: bool,
    /// The command, which `ADDRESS` of the other machine is added to.
    command: &'static str,
    parse: fn(&str) -> Option<f64>,
}

/// A time.
const TIME: Quantity =
    Quantity { what: "", unit: "us", is_rate: false, large_mtu: false, command: "", parse: |_| None };

/// A rate.
const RATE: Quantity = Quantity { unit: "MB/s", is_rate: true, ..TIME };

/// Name of the round trips that have a goal, and of the stream.
pub(super) const TCP_RR: &str = "TCP round trip, 64 bytes";
pub(super) const TCP_STREAM: &str = "TCP stream";

/// Names of what two MPI processes measure, which have goals.
pub(super) const MPI_LATENCY: &str = "MPI latency (HPCC), 8 bytes one way";
pub(super) const MPI_BANDWIDTH: &str = "MPI bandwidth (HPCC), 2 MB";

/// Names of what redis does past the kernel, which have goals.
pub(super) const REDIS_1: &str = "redis GET, 1 client, hamlyn-run, express memory";
pub(super) const REDIS_50: &str = "redis GET, 50 clients, hamlyn-run, express memory";

/// `fio` in a folder of the other machine, without this one's cache. The client would use one
/// connection for both addresses of a server that is mounted twice.
macro_rules! fio {
    () => {
        "mkdir -p /mnt/nfs && mount -t nfs4 ADDRESS:/ /mnt/nfs && trap 'umount /mnt/nfs' EXIT && \
            fio --name=fio --directory=/mnt/nfs --size=4M --direct=1 --thread --group_reporting --time_based --runtime=2 \
            --output-format=json "
    };
}

pub(super) const QUANTITIES: [Quantity; 17] = [
    Quantity {
        what: "ping, 56 bytes",
        command: "ping -q -c 300 -i 0.002 ADDRESS",
        parse: |said| {
            Some(1e3 * after(said, "rtt min/avg/max/mdev = ")?.split('/').nth(1)?.parse::<f64>().ok()?)
        },
        ..TIME
    },
    Quantity {
        what: "UDP round trip, 64 bytes",
        command: "sockperf ping-pong -t 2 -m 64 -p 11111 -i ADDRESS",
        parse: sockperf,
        ..TIME
    },
    Quantity {
        what: TCP_RR,
        command: "sockperf ping-pong --tcp -t 2 -m 64 -p 11112 -i ADDRESS",
        parse: sockperf,
        ..TIME
    },
    Quantity { what: TCP_STREAM, command: "iperf3 -J -t 2 -c ADDRESS", parse: iperf3, ..RATE },
    Quantity {
        what: "TCP stream, largest MTU",
        command: "iperf3 -J -t 2 -c ADDRESS",
        parse: iperf3,
        large_mtu: true,
        ..RATE
    },
    Quantity {
        what: "TCP stream, writes of 1 KiB",
        command: "iperf3 -J -t 2 -l 1K -c ADDRESS",
        parse: iperf3,
        ..RATE
    },
    Quantity {
        what: "TCP stream, four at once",
        command: "iperf3 -J -t 2 -P 4 -c ADDRESS",
        parse: iperf3,
        ..RATE
    },
    Quantity {
        what: "redis GET, 1 client",
        unit: "/s",
        command: "redis-benchmark -t get -n 3000 -c 1 --csv -h ADDRESS",
        parse: redis,
        ..RATE
    },
    Quantity {
        what: "redis GET, 50 clients",
        unit: "/s",
        command: "redis-benchmark -t get -n 10000 -c 50 --csv -h ADDRESS",
        parse: redis,
        ..RATE
    },
    Quantity {
        what: "TCP round trip, 64 bytes, hamlyn-run",
        command: "RUN sockperf ping-pong --tcp -t 2 -m 64 -p 11113 -i ADDRESS",
        parse: sockperf,
        ..TIME
    },
    Quantity {
        what: "TCP stream, hamlyn-run",
        command: "RUN iperf3 -J -t 2 -p 5202 -c ADDRESS",
        parse: iperf3,
        ..RATE
    },
    Quantity {
        what: "redis GET, 1 client, hamlyn-run",
        unit: "/s",
        command: "RUN redis-benchmark -t get -n 20000 -c 1 --csv -p 6380 -h ADDRESS",
        parse: redis,
        ..RATE
    },
    Quantity {
        what: "redis GET, 50 clients, hamlyn-run",
        unit: "/s",
        command: "RUN redis-benchmark -t get -n 20000 -c 50 --csv -p 6380 -h ADDRESS",
        parse: redis,
        ..RATE
    },
    Quantity {
        what: REDIS_1,
        unit: "/s",
        command: "EXPRESS redis-benchmark -t get -n 20000 -c 1 --csv -p 6380 -h ADDRESS",
        parse: redis,
        ..RATE
    },
    Quantity {
        what: REDIS_50,
        unit: "/s",
        command: "EXPRESS redis-benchmark -t get -n 20000 -c 50 --csv -p 6380 -h ADDRESS",
        parse: redis,
        ..RATE
    },
    Quantity {
        what: MPI_LATENCY,
        command: "cd /root; rm -f hpccoutf.txt; mpirun --allow-run-as-root --host vm0,ADDRESS MPI hpcc && \
            cp hpccoutf.txt /tmp/hpcc-ADDRESS && cat hpccoutf.txt",
        parse: |said| value(said, "MaxPingPongLatency_usec"),
        ..TIME
    },
    // Of the same run.
    Quantity {
        what: MPI_BANDWIDTH,
        command: "cat /tmp/hpcc-ADDRESS",
        parse: |said| Some(1e3 * value(said, "MinPingPongBandwidth_GBytes")?),
        ..RATE
    },
];

/// Files of the other machine.
pub(super) const NFS: [Quantity; 8] = [
    nfs("64 KiB in sequence, read, 1 job", concat!(fio!(), "--rw=read --bs=64k --numjobs=1")),
    nfs("64 KiB in sequence, read, 16 jobs", concat!(fio!(), "--rw=read --bs=64k --numjobs=16")),
    nfs("64 KiB in sequence, written, 1 job", concat!(fio!(), "--rw=write --bs=64k --numjobs=1")),
    nfs("64 KiB in sequence, written, 16 jobs", concat!(fio!(), "--rw=write --bs=64k --numjobs=16")),
    nfs_at_random("4 KiB at random, read, 1 job", concat!(fio!(), "--rw=randread --bs=4k --numjobs=1")),
    nfs_at_random("4 KiB at random, read, 16 jobs", concat!(fio!(), "--rw=randread --bs=4k --numjobs=16")),
    nfs_at_random("4 KiB at random, written, 1 job", concat!(fio!(), "--rw=randwrite --bs=4k --numjobs=1")),
    nfs_at_random(
        "4 KiB at random, written, 16 jobs",
        concat!(fio!(), "--rw=randwrite --bs=4k --numjobs=16"),
    ),
];

/// What `fio` moves in blocks, in MB/s.
const fn nfs(what: &'static str, command: &'static str) -> Quantity {
    Quantity { what, command, parse: |said| fio(said, "bw_bytes", 1e-6), ..RATE }
}

/// What `fio` does with small blocks, per second.
const fn nfs_at_random(what: &'static str, command: &'static str) -> Quantity {
    Quantity { unit: "/s", parse: |said| fio(said, "iops", 1.0), ..nfs(what, command) }
}

/// How programs reach the other machine: MPI over the cards not by IP, but by the provider for
/// libfabric; and what starts those of sockets. Both go by card, but for what is said to go over
/// express memory.
const WAYS: [(&str, &str, &str); 2] = [
    (
        "10.7.0.2",
        "hamlyn-run",
        "-x FI_HAMLYN_EXPRESS=no --mca pml cm --mca mtl ofi --mca opal_common_ofi_provider_include hamlyn",
    ),
    ("192.0.2.2", "", "--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include eth0"),
];

/// What the other machine runs.
pub(super) const SERVE: &str = "iperf3 -s -D
    redis-server --bind 0.0.0.0 --protected-mode no --save '' --daemonize yes
    (sockperf server -p 11111 & sockperf server --tcp -p 11112 &) >/tmp/sockperf 2>&1
    (hamlyn-run sockperf server --tcp -p 11113 &) >/tmp/sockperf-run 2>&1
    hamlyn-run iperf3 -s -D -p 5202
    hamlyn-run redis-server --bind 0.0.0.0 --port 6380 --protected-mode no --save '' --daemonize yes
    mkdir -p /run/sshd; ssh-keygen -A; /usr/sbin/sshd
    mkdir -p /export /run/rpc_pipefs
    mount -t tmpfs tmpfs /export && chmod 777 /export
    echo '/export *(rw,fsid=0,no_root_squash,no_subtree_check)' > /etc/exports
    mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
    modprobe nfsd && mount -t nfsd nfsd /proc/fs/nfsd
    nfsdcld; exportfs -a; rpc.nfsd -G 10 -L 10 -N 3 4; rpc.mountd
    sleep 1";

/// The machine that asks makes a key for ssh, prints it, and has HPCC's input.
pub(super) const PREPARE: &str = concat!(
    "ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519 && cat /root/.ssh/id_ed25519.pub
    printf 'Host *\\n StrictHostKeyChecking no\\n UserKnownHostsFile /dev/null\\n LogLevel ERROR\\n' > /root/.ssh/config
    cat > /root/hpccinf.txt <<'END'\n",
    include_str!("../../../tests/vm/mpi/hpccinf.txt"),
    "\nEND"
);

impl Quantity {
    /// Measures once, from a machine to an address.
    pub(super) fn measure(&self, from: &Vm, address: &str) -> Result<f64> {
        let way = WAYS.iter().find(|way| way.0 == address);
        let (run, mpi) = way.map_or(("", ""), |(_, run, mpi)| (run, mpi));
        let by_card = if run.is_empty() { String::new() } else { format!("{run} --by-card") };
        let command = self.command.replace("ADDRESS", address).replace("EXPRESS", run);
        let command = command.replace("RUN", &by_card).replace("MPI", mpi);
        let said = from.run_as(0, ["sh", "-c", &command])?.finish_text()?.join("\n");
        (self.parse)(&said).with_context(|| format!("cannot read the result of {command}: {said:?}"))
    }
}

fn after<'a>(said: &'a str, words: &str) -> Option<&'a str> {
    said.split_once(words).map(|(_, rest)| rest)
}

/// Returns a round trip in microseconds: sockperf prints half of it.
fn sockperf(said: &str) -> Option<f64> {
    let half = after(said, "Summary: Latency is ")?.split_whitespace().next()?;
    Some(2.0 * half.parse::<f64>().ok()?)
}

/// Returns what was received, in MB/s.
fn iperf3(said: &str) -> Option<f64> {
    let said: Value = serde_json::from_str(said).ok()?;
    Some(said["end"]["sum_received"]["bits_per_second"].as_f64()? / 8e6)
}

/// Returns the number of a line `NAME=1.5`.
fn value(said: &str, name: &str) -> Option<f64> {
    said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// Returns requests per second from the line `"GET","2450.98",...`.
fn redis(said: &str) -> Option<f64> {
    after(said, "\"GET\",\"")?.split('"').next()?.parse().ok()
}

/// Returns a value of all jobs in one direction, the one in which they move anything.
fn fio(said: &str, name: &str, factor: f64) -> Option<f64> {
    // Notes may precede it.
    let said: Value = serde_json::from_str(&said[said.find('{')?..]).ok()?;
    let values = ["read", "write"].map(|way| said["jobs"][0][way][name].as_f64());
    values.into_iter().flatten().find(|value| *value > 0.0).map(|value| factor * value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read() {
        let parse = |index: usize, said: &str| (QUANTITIES[index].parse)(said);
        let ping = "3 packets transmitted\nrtt min/avg/max/mdev = 0.706/1.250/5.967/1.037 ms";
        assert_eq!(parse(0, ping), Some(1250.0));
        assert_eq!(parse(1, "sockperf: Summary: Latency is 98.500 usec\nsockperf: Total"), Some(197.0));
        assert_eq!(parse(3, r#"{"end":{"sum_received":{"bits_per_second":8e8}}}"#), Some(100.0));
        assert_eq!(parse(7, "\"test\",\"rps\"\n\"GET\",\"2450.98\",\"0.382\""), Some(2450.98));
        let hpcc = "sizeof=8\nMaxPingPongLatency_usec=14.6\nMinPingPongBandwidth_GBytes=1.5\n";
        assert_eq!([15, 16].map(|index| parse(index, hpcc)), [Some(14.6), Some(1500.0)]);
        let fio =
            r#"note {"jobs":[{"read":{"bw_bytes":0,"iops":0.0},"write":{"bw_bytes":5000000,"iops":9.5}}]}"#;
        assert_eq!([0, 4].map(|index| (NFS[index].parse)(fio)), [Some(5.0), Some(9.5)]);
        assert!(QUANTITIES.iter().chain(&NFS).all(|quantity| (quantity.parse)("error").is_none()));
    }
}
