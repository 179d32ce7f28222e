//! Protocols of the attached cards. A card is refused at attach if the others would not understand
//! it, or if it needs packet order and the paths do not keep it. The user sees the reason. A packet
//! of another protocol that arrives nevertheless is discarded by the receiving card.

use hamlyn_fabric::{HostId, Protocol, Traffic};
use thiserror::Error;

use crate::bursts::Bursts;

/// Why a card's packets do not fit the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Misfit {
    /// Cards of another protocol are attached.
    #[error(
        "its packets are of protocol {wanted}, those of the card at port {port} of protocol {there}: one switch links cards of one protocol"
    )]
    Protocol {
        /// The new card's protocol.
        wanted: Protocol,
        /// The port of an attached card.
        port: HostId,
        /// The protocol of that card.
        there: Protocol,
    },
    /// Its packets would overtake each other.
    #[error("its packets must keep their order, and with {0} paths they would not (see --paths)")]
    Order(u16),
}

/// Protocols of the cards at the ports.
#[derive(Debug)]
pub struct Protocols {
    ports: Vec<Option<Protocol>>,
    paths: u16,
    /// Protocols whose packets stay in order on several paths.
    ordered: Vec<Protocol>,
}

impl Protocols {
    /// Starts without attached cards. On several paths the switch keeps the order of packets that
    /// can be cut.
    pub fn new(ports: u16, paths: u16, bursts: &[Bursts]) -> Protocols {
        let ordered = bursts.iter().map(|bursts| bursts.protocol).collect();
        Protocols { ports: vec![None; ports.into()], paths, ordered }
    }

    /// Checks whether a new card fits the attached ones.
    pub fn check(&self, traffic: Traffic) -> Result<(), Misfit> {
        if traffic.ordered && self.paths > 1 && !self.ordered.contains(&traffic.protocol) {
            return Err(Misfit::Order(self.paths));
        }
        let wanted = traffic.protocol;
        let others = (0..).map(HostId).zip(&self.ports);
        match others.filter_map(|(port, there)| Some((port, (*there)?))).find(|(_, there)| *there != wanted) {
            Some((port, there)) => Err(Misfit::Protocol { wanted, port, there }),
            None => Ok(()),
        }
    }

    /// Records that a card is attached to a port.
    pub fn attached(&mut self, host: HostId, traffic: Traffic) {
        self.set(host, Some(traffic.protocol));
    }

    /// Records that a port is free.
    pub fn left(&mut self, host: HostId) {
        self.set(host, None);
    }

    fn set(&mut self, host: HostId, protocol: Option<Protocol>) {
        if let Some(port) = self.ports.get_mut(host.index()) {
            *port = protocol;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(number: u8, ordered: bool) -> Traffic {
        Traffic { protocol: Protocol::parse(number).unwrap(), ordered }
    }

    #[test]
    fn protocol_is_fixed_until_the_last_card_leaves() {
        let mut protocols = Protocols::new(3, 1, &[]);
        for host in [2, 0] {
            protocols.check(traffic(7, true)).unwrap();
            protocols.attached(HostId(host), traffic(7, true));
        }
        let refused = protocols.check(traffic(9, false)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "its packets are of protocol 9, those of the card at port 0 of protocol 7: one switch links cards of one protocol"
        );
        protocols.left(HostId(0));
        assert!(protocols.check(traffic(9, false)).is_err());
        protocols.left(HostId(2));
        protocols.check(traffic(9, false)).unwrap();
    }

    #[test]
    fn paths_refuse_ordered_packets_that_cannot_be_cut() {
        let bursts = Bursts { protocol: Protocol::parse(2).unwrap(), cut: |_, _| None, join: |_, _, _| None };
        let protocols = Protocols::new(3, 4, &[bursts]);
        protocols.check(traffic(1, false)).unwrap();
        assert_eq!(protocols.check(traffic(1, true)), Err(Misfit::Order(4)));
        protocols.check(traffic(2, true)).unwrap();
    }
}
