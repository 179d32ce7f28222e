//! Hosts of the fabric by the IP addresses of their network devices over cards.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::core::waiting::Deadline;

/// First bytes of the Ethernet address of a network device over a card. The last two are the host.
const DEVICE: &str = "02:75:6c:6e:";
/// Interval in which the kernel is asked for an Ethernet address that it is asking for itself.
const PAUSE: Duration = Duration::from_millis(20);

/// Returns the host with this address, by the kernel's table of neighbours. Blocks for at most
/// `timeout` while the kernel looks for it.
pub(super) fn host_at(ip: Ipv4Addr, timeout: Duration) -> Option<u32> {
    let deadline = Deadline::new(Some(timeout));
    let known = || of_table(&fs::read_to_string("/proc/net/arp").ok()?, ip);
    if let Some(host) = known() {
        return Some(host);
    }
    let mut asked = false;
    while deadline.left().is_some_and(|left| !left.is_zero()) {
        if !asked {
            // The kernel looks up the Ethernet address to send this.
            asked = UdpSocket::bind("0.0.0.0:0").ok()?.send_to(&[], (ip, 9)).is_ok();
        }
        thread::sleep(PAUSE);
        if let Some(host) = known() {
            return Some(host);
        }
    }
    None
}

/// Returns whether this is a network device over a card.
#[must_use]
pub fn is_device_of_card(name: &str) -> bool {
    let address = fs::read_to_string(format!("/sys/class/net/{name}/address"));
    address.is_ok_and(|address| address.starts_with(DEVICE))
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
