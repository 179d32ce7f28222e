//! Programs of Debian's packages, which have never heard of these cards, over the network device.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Builder, Kit, Lab, Memory, Packages, System, Vm};
use serde_json::Value;

use crate::left::log_is_clean;
use crate::network::{network, root, wait_for_answer, wait_until};
use crate::python;
use crate::turn::{LIMIT, lab_of};

/// Describes two machines with the packages of `tests/packages`.
fn machines(model: &str) -> Result<Builder> {
    let packages = Packages::of_lines(include_str!("../../packages"))?;
    let system = System::of_packages(&Kit::find()?, &packages)?;
    Ok(network(model, 2)?.system(Some(system)).memory(Memory::mib(512)))
}

/// Starts what the other machine asks.
fn serve(server: &Vm) -> Result<()> {
    let start = "set -e
        iperf3 -s -D
        redis-server --bind 0.0.0.0 --protected-mode no --save '' --daemonize yes
        nginx
        mkdir -p /run/sshd; ssh-keygen -A; /usr/sbin/sshd -o AuthorizedKeysFile=/run/sshd/keys
        head -c 5000000 /dev/urandom > /var/www/html/file
        (cd /var/www/html && python3 -m http.server 8000 >/dev/null 2>&1 &)";
    root(server, start)?;
    [5201, 6379, 80, 22, 8000]
        .into_iter()
        .try_for_each(|port: u16| wait_until(server, &format!("nc -z 127.0.0.1 {port}")))
}

/// Fails if a run ends with an error, or nothing was received.
fn iperf3(client: &Vm, options: &str) -> Result<()> {
    let said = root(client, &format!("iperf3 -c vm1 -t 1 -J {options}"))?;
    let said: Value = serde_json::from_str(&said).with_context(|| said.clone())?;
    let end = &said["end"];
    // TCP has the first, UDP the second.
    let rates = ["sum_received", "sum"].map(|sum| end[sum]["bits_per_second"].as_f64());
    let rate = rates.into_iter().flatten().next();
    ensure!(rate.is_some_and(|rate| rate > 0.0), "iperf3 {options}: {said}");
    Ok(())
}

fn redis(client: &Vm) -> Result<()> {
    let said = root(
        client,
        "redis-cli -h vm1 set name value
        redis-cli -h vm1 get name
        redis-benchmark -h vm1 -t set,get -n 500 -c 5 --csv",
    )?;
    let lines: Vec<&str> = said.lines().collect();
    ensure!(lines[..2] == ["OK", "value"], "{said}");
    let rates =
        ["SET", "GET"].map(|what| lines.iter().any(|line| line.starts_with(&format!("\"{what}\",\""))));
    ensure!(rates == [true, true], "{said}");
    Ok(())
}

/// A copy by ssh and by HTTP has the bytes of the file.
fn copies(client: &Vm, server: &Vm) -> Result<()> {
    let key = root(client, "ssh-keygen -q -t ed25519 -N '' -f /tmp/key && cat /tmp/key.pub")?;
    root(server, &format!("echo '{key}' > /run/sshd/keys"))?;
    let sum = root(server, "md5sum < /var/www/html/file")?;
    let said = root(
        client,
        "set -e
        options='-q -i /tmp/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null'
        scp $options vm1:/var/www/html/file /tmp/by-ssh
        ssh $options vm1 hostname
        md5sum < /tmp/by-ssh
        for port in 80 8000; do curl -sS http://vm1:$port/file | md5sum; done",
    )?;
    ensure!(said.ends_with(&format!("vm1\n{sum}\n{sum}\n{sum}")), "{said}, the file: {sum}");
    Ok(())
}

/// Fails unless `ethtool` names the driver, and counts packets as the kernel does.
fn ethtool(client: &Vm, model: &str) -> Result<()> {
    let said = root(client, "ethtool -i uln0")?;
    let lines = ["driver: hamlyn-net".to_owned(), format!("firmware-version: {model}")];
    ensure!(lines.iter().all(|line| said.lines().any(|said| said == line)), "{said}");
    let said = root(
        client,
        "counted() { cat /sys/class/net/uln0/statistics/rx_packets; }
        counted; ethtool -S uln0 | sed -n 's/ *rx_packets: //p'; counted",
    )?;
    let counts =
        said.lines().map(str::parse).collect::<Result<Vec<u64>, _>>().with_context(|| said.clone())?;
    ensure!(counts.len() == 3 && counts[0] > 0 && counts.is_sorted(), "{counts:?}");
    Ok(())
}

/// A VLAN over the device: pings of one packet and of several, and a file. Its packets have the tag
/// at the other machine.
fn vlan(client: &Vm, server: &Vm) -> Result<()> {
    for (vm, address) in [(client, "10.8.0.1/24"), (server, "10.8.0.2/24")] {
        let make = format!(
            "set -e
            modprobe 8021q; ip link add link uln0 name uln0.7 type vlan id 7
            ip addr add {address} dev uln0.7; ip link set uln0.7 up"
        );
        root(vm, &make)?;
    }
    let tcpdump =
        format!("timeout {LIMIT} tcpdump -l -e -n -c 1 -i uln0 'vlan 7 and icmp[icmptype] = icmp-echo' 2>&1");
    let mut capture = server.run_as(0, ["sh", "-c", &tcpdump])?;
    capture.line()?;
    wait_for_answer(client, "10.8.0.2")?;
    let captured = capture.finish_text()?.join("\n");
    ensure!(captured.contains("vlan 7,") && captured.contains("10.8.0.1 > 10.8.0.2"), "{captured}");
    reaches(client, server, ["10.8.0.2", "10.8.0.2"])
}

/// Addresses of IPv6: one that the kernel makes of the device's, and one that is set.
fn ipv6(client: &Vm, server: &Vm) -> Result<()> {
    for (vm, address) in [(client, "fd00::1/64"), (server, "fd00::2/64")] {
        root(vm, &format!("ip addr add {address} dev uln0 nodad"))?;
    }
    wait_for_answer(client, "fd00::2")?;
    reaches(client, server, ["fd00::2", "[fd00::2]"])?;
    // Of 02:75:6c:6e:00:01.
    wait_for_answer(client, "fe80::75:6cff:fe6e:1%uln0")?;
    let neighbours = root(client, "ip -6 neigh show dev uln0")?;
    for address in ["fd00::2 ", "fe80::75:6cff:fe6e:1 "] {
        let is_known = |line: &str| line.starts_with(address) && line.contains("lladdr 02:75:6c:6e:00:01");
        ensure!(neighbours.lines().any(is_known), "{address}: {neighbours}");
    }
    Ok(())
}

/// Pings an address with one packet and with several, and gets the server's file from it. The
/// address is written as for `ping`, and as in a URL.
fn reaches(client: &Vm, server: &Vm, [address, host]: [&str; 2]) -> Result<()> {
    for size in [56, 1472, 1473, 20_000] {
        // One at a time: of several, `ping` does not wait for a late answer to the last.
        for _ in 0..2 {
            let said = root(client, &format!("ping -c 1 -W 60 -s {size} {address}"))?;
            ensure!(said.contains(" 1 received"), "{size} bytes: {said}");
        }
    }
    let sum = root(server, "md5sum < /var/www/html/file")?;
    let got = root(client, &format!("curl -gsS 'http://{host}/file' | md5sum"))?;
    ensure!(got == sum, "{address}: {got}, the file: {sum}");
    Ok(())
}

/// A namespace behind a bridge reaches the other machine, and a capture shows its packets.
fn bridge(client: &Vm, server: &Vm) -> Result<()> {
    let make = "set -e
        ip link add br0 type bridge; ip link set br0 up
        ip netns add inner
        ip link add outside type veth peer name inside netns inner
        ip link set outside master br0 up
        ip link set uln0 master br0
        ip addr flush dev uln0; ip addr add 10.7.0.2/24 dev br0
        ip -n inner addr add 10.7.0.77/24 dev inside; ip -n inner link set inside up";
    root(server, make)?;
    wait_for_answer(client, "10.7.0.77")?;
    let capture = format!(
        "timeout {LIMIT} tcpdump -c 2 -n -i uln0 icmp > /tmp/captured 2> /tmp/complaints &
        until grep -q 'listening on' /tmp/complaints; do kill -0 $! || exit; sleep 0.1; done
        while kill -0 $! 2>/dev/null; do ping -c 1 -W 1 10.7.0.77 > /dev/null; done
        wait; cat /tmp/captured"
    );
    let said = root(client, &capture)?;
    ensure!(said.contains("10.7.0.1 > 10.7.0.77: ICMP echo request"), "{said}");
    wait_for_answer(client, "vm1")
}

/// Exports a folder. The grace period after a start has the shortest length, and ends as soon as
/// `nfsdcld`'s known clients are back.
pub(crate) const EXPORT: &str = "set -e
    mkdir -p /export/tree /run/rpc_pipefs
    echo '/export *(rw,fsid=0,no_root_squash,no_subtree_check)' > /etc/exports
    mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
    modprobe nfsd; mount -t nfsd nfsd /proc/fs/nfsd
    nfsdcld; exportfs -a; rpc.nfsd -G 10 -L 10 -N 3 2; rpc.mountd";

/// A tree is copied and compared, and files are checked that were written while the server
/// rebooted.
fn nfs(client: &Vm, server: &Vm) -> Result<()> {
    root(server, EXPORT)?;
    root(client, "mkdir -p /mnt/nfs && mount -t nfs4 vm1:/ /mnt/nfs")?;
    root(client, "cp -r /var/lib/dpkg/info /mnt/nfs/tree/ && diff -r /var/lib/dpkg/info /mnt/nfs/tree/info")?;
    let mut fio = client.run_as(
        0,
        ["sh", "-c", "echo begun; fio --name=x --directory=/mnt/nfs --size=4M --rw=randwrite --bs=16k --verify=crc32c --verify_fatal=1 --end_fsync=1 --rate=1m --output=/tmp/fio"],
    )?;
    fio.line()?;
    wait_until(client, "[ -s /mnt/nfs/x.0.0 ]")?;
    server.reboot()?;
    root(server, EXPORT)?;
    fio.finish_text().with_context(|| root(client, "cat /tmp/fio").unwrap_or_default())?;
    root(client, "umount /mnt/nfs").map(drop)
}

/// Ends what [`serve`] has started.
fn end(server: &Vm) -> Result<()> {
    root(server, "pkill -x 'iperf3|redis-server|nginx|sshd'; pkill -f '[h]ttp.server'; true")?;
    wait_until(server, "! pgrep -x 'iperf3|redis-server|nginx|sshd|python3' > /dev/null")
}

/// Runs most programs over the network of two machines with the test's packages.
pub(crate) fn most_programs(lab: &Lab, model: &str) -> Result<()> {
    let (client, server) = (lab.vm(0), lab.vm(1));
    serve(server)?;
    wait_for_answer(client, "vm1")?;
    for options in ["", "-R", "-P 4", "-u -b 20M"] {
        iperf3(client, options)?;
    }
    redis(client)?;
    copies(client, server)?;
    vlan(client, server)?;
    ipv6(client, server)?;
    ethtool(client, model)?;
    end(server)
}

/// Of the other models see `sockets`.
#[test]
fn debians_programs_run_over_hamlyn_cards() -> Result<()> {
    let lab = lab_of(machines("hamlyn")?);
    most_programs(&lab, "hamlyn")?;
    python::channels(lab.vm(0), lab.vm(1))?;
    (0..2).try_for_each(|vm| log_is_clean(&lab, vm))
}

#[test]
fn nfs_client_goes_on_after_servers_reboot() -> Result<()> {
    let lab = lab_of(machines("hamlyn")?.reboots(true));
    let (client, server) = (lab.vm(0), lab.vm(1));
    wait_for_answer(client, "vm1")?;
    nfs(client, server)?;
    bridge(client, server)?;
    (0..2).try_for_each(|vm| log_is_clean(&lab, vm))
}
