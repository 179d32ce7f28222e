//! Hosts of the fabric by the names that programs have for them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs, UdpSocket};
use std::thread;
use std::time::Duration;

use hamlyn::channel::Card;

/// First bytes of the Ethernet address of a network device over a card. The last two are the host.
const DEVICE: &str = "02:75:6c:6e:";
/// How often, and in which interval, the kernel is asked for an Ethernet address that it is asking
/// for itself.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Returns the host that a number, an IP address or a name means. An address belongs to the network
/// device over the card.
pub(crate) fn host_of(node: &str, card: &Card) -> Option<u32> {
    if let Ok(host) = node.parse() {
        return Some(host);
    }
    let addresses = (node, 9).to_socket_addrs().ok()?;
    let mut found = addresses.filter_map(|address| match address.ip() {
        IpAddr::V4(ip) if UdpSocket::bind((ip, 0)).is_ok() => card.host().ok().flatten(),
        IpAddr::V4(ip) => neighbour(ip),
        IpAddr::V6(_) => None,
    });
    found.next()
}

/// The host with this address, by the kernel's table of neighbours.
fn neighbour(ip: Ipv4Addr) -> Option<u32> {
    let known = || of_table(&fs::read_to_string("/proc/net/arp").ok()?, ip);
    known().or_else(|| {
        // The kernel looks up the Ethernet address to send this.
        UdpSocket::bind("0.0.0.0:0").ok()?.send_to(&[], (ip, 9)).ok()?;
        (0..TRIES).find_map(|_| {
            thread::sleep(PAUSE);
            known()
        })
    })
}

fn of_table(table: &str, ip: Ipv4Addr) -> Option<u32> {
    let ip = ip.to_string();
    let line = table.lines().find(|line| line.split_whitespace().next() == Some(ip.as_str()))?;
    let (high, low) = line.split_whitespace().nth(3)?.strip_prefix(DEVICE)?.split_once(':')?;
    let byte = |digits| u32::from_str_radix(digits, 16).ok();
    Some(byte(high)? << 8 | byte(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_ethernet_address_has_its_host() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
            10.7.0.2         0x1         0x2         02:75:6c:6e:00:01     *        uln0\n\
            10.7.0.33        0x1         0x2         02:75:6c:6e:01:0a     *        uln0\n\
            10.7.0.4         0x1         0x0         00:00:00:00:00:00     *        uln0\n";
        let host = |ip: &str| of_table(table, ip.parse().expect("an address"));
        assert_eq!(
            ["10.7.0.2", "10.7.0.33", "10.7.0.4", "10.7.0.3"].map(host),
            [Some(1), Some(266), None, None]
        );
    }
}
