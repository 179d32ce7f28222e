//! Addresses for the machines' network over the cards.

use std::fmt::{self, Display, Formatter};
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A range of IPv4 addresses, of which machine `n` has the address `n + 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    first: Ipv4Addr,
    prefix: u8,
}

impl Subnet {
    /// Limits of the prefix's length: 65,534 addresses, and 2.
    const PREFIX: std::ops::RangeInclusive<u8> = 16..=30;

    /// Returns how many machines can have an address.
    pub fn machines(self) -> usize {
        (1 << (32 - self.prefix)) - 2
    }

    fn address(self, index: usize) -> Ipv4Addr {
        // The range ends before the largest number.
        Ipv4Addr::from_bits(self.first.to_bits() + index as u32 + 1)
    }

    /// Returns the words for a machine's kernel command line: its own address, and all machines'
    /// names.
    pub(super) fn words(self, index: usize, names: &[&str]) -> String {
        let with_address = |(index, name): (usize, &&str)| format!("{name}={}", self.address(index));
        let names: Vec<_> = names.iter().enumerate().map(with_address).collect();
        format!("hamlyn.ip={}/{} hamlyn.hosts={}", self.address(index), self.prefix, names.join(","))
    }
}

impl Display for Subnet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Subnet, String> {
        let parts = text
            .split_once('/')
            .and_then(|(first, prefix)| Some((first.parse::<Ipv4Addr>().ok()?, prefix.parse::<u8>().ok()?)));
        let (first, prefix) = parts.ok_or_else(|| format!("{text:?} is not a range such as 10.7.0.0/24"))?;
        let limits = Subnet::PREFIX;
        if !limits.contains(&prefix) {
            let (least, most) = limits.into_inner();
            return Err(format!("{text}: the prefix has {prefix} bits (limits {least} and {most})"));
        }
        let mask = u32::MAX << (32 - prefix);
        if first.to_bits() & !mask != 0 {
            let start = Ipv4Addr::from_bits(first.to_bits() & mask);
            return Err(format!("{text} does not begin at a range's first address, {start}/{prefix}"));
        }
        Ok(Subnet { first, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_addresses_of_the_range() {
        let subnet: Subnet = "10.7.0.0/24".parse().unwrap();
        assert_eq!(subnet.machines(), 254);
        assert_eq!(subnet.words(1, &["a", "b"]), "hamlyn.ip=10.7.0.2/24 hamlyn.hosts=a=10.7.0.1,b=10.7.0.2");
        assert_eq!("192.168.255.252/30".parse::<Subnet>().unwrap().machines(), 2);
    }

    #[test]
    fn wrong_ranges_are_refused() {
        let error = |text: &str| text.parse::<Subnet>().unwrap_err();
        assert_eq!(error("10.7.0.0"), "\"10.7.0.0\" is not a range such as 10.7.0.0/24");
        assert_eq!(error("10.7.0.0/31"), "10.7.0.0/31: the prefix has 31 bits (limits 16 and 30)");
        assert_eq!(
            error("10.7.0.5/24"),
            "10.7.0.5/24 does not begin at a range's first address, 10.7.0.0/24"
        );
    }
}
