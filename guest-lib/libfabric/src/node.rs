//! Hosts of the fabric by the names that programs have for them.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use hamlyn::channel::Card;

/// How long the kernel may look for an address.
const LOOKUP: Duration = Duration::from_secs(1);

/// Returns the host that a number, an IP address or a name means. An address belongs to the network
/// device over the card.
pub(crate) fn host_of(node: &str, card: &Card) -> Option<u32> {
    if let Ok(host) = node.parse() {
        return Some(host);
    }
    let addresses = (node, 9).to_socket_addrs().ok()?;
    let mut found = addresses.filter_map(|address| match address.ip() {
        IpAddr::V4(ip) if UdpSocket::bind((ip, 0)).is_ok() => card.host().ok().flatten(),
        IpAddr::V4(ip) => card.host_at(ip, LOOKUP),
        IpAddr::V6(_) => None,
    });
    found.next()
}
