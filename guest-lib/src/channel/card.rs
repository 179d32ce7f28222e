//! A card of any model.

use std::fs;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::neighbour;
use crate::core::carrier::Carrier;
use crate::core::connection::{Connecting, Found, Listener};
use crate::core::device::Node;
use crate::core::model::Model;
use crate::error::{Error, Result};
use crate::hamlyn::channel::HamlynCarrier;
use crate::hamlyn::device::Hamlyn;
use crate::{clan, dart, echo, shrimp};

/// An open card of any model that has channels. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Card(pub(super) Arc<dyn Carrier>);

/// A model with channels: its name, its number, and how to open a card's node.
struct Opened(&'static str, u32, fn(&Path) -> Result<Card>);

/// Models, in the order in which nodes are searched.
const MODELS: [Opened; 5] = [
    Opened(Hamlyn::NAME, Hamlyn::NUMBER, |node| Ok(crate::Card::open(&node.display().to_string())?.into())),
    Opened(shrimp::Shrimp::NAME, shrimp::Shrimp::NUMBER, |node| {
        Ok(shrimp::Card::attached(open(node)?).into())
    }),
    Opened(clan::Clan::NAME, clan::Clan::NUMBER, |node| Ok(clan::Card::open_path(node)?.into())),
    Opened(dart::Dart::NAME, dart::Dart::NUMBER, |node| Ok(dart::Card::open_path(node)?.into())),
    Opened(echo::Echo::NAME, echo::Echo::NUMBER, |node| Ok(echo::Card::open_path(node)?.into())),
];

impl Card {
    /// Opens the card that `HAMLYN_CARD`, `SHRIMP_CARD`, `CLAN_CARD`, `DART_CARD` or `ECHO_CARD`
    /// names, in that order. Otherwise opens the first node in `/dev`, ordered by model and number.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no card; those of [`Card::open`].
    pub fn open_any() -> Result<Self> {
        let variable = |model: &Opened| format!("{}_CARD", model.0.to_uppercase());
        let named = MODELS.iter().find_map(|model| std::env::var_os(variable(model)).map(PathBuf::from));
        match named.or_else(first_node) {
            Some(node) => Self::open(&node),
            None => Err(Error::Unsupported("this machine has no card: is the driver loaded?")),
        }
    }

    /// Opens the card at `node`.
    ///
    /// # Errors
    /// [`Error::System`] if it cannot be opened; [`Error::OtherModel`] if the card's model has no
    /// channels.
    pub fn open(node: &Path) -> Result<Self> {
        match MODELS[0].2(node) {
            Err(Error::OtherModel { model, .. }) => {
                let known = MODELS.iter().find(|known| known.1 == model);
                known.unwrap_or(&MODELS[0]).2(node)
            }
            opened => opened,
        }
    }

    /// Returns the model's name: "hamlyn", "shrimp", "clan", "dart" or "echo".
    #[must_use]
    pub fn model(&self) -> &'static str {
        self.0.model().0
    }

    /// Returns the length of the longest message that a channel of this card can carry, in bytes:
    /// [`Options::for_messages`](super::Options::for_messages) of it is valid.
    #[must_use]
    pub fn longest_message(&self) -> u64 {
        self.0.largest_ring() / 2 - 16
    }

    /// Returns the model's number.
    pub(super) fn number(&self) -> u32 {
        self.0.model().1
    }

    /// Returns the card's host id; `None` while its link is down.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn host(&self) -> Result<Option<u32>> {
        self.0.card().host()
    }

    /// Returns the range of possible host ids.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn hosts(&self) -> Result<Range<u32>> {
        self.0.card().hosts()
    }

    /// Returns the host whose network device over a card has this address. Blocks for at most
    /// `timeout` while the kernel looks for the address.
    #[must_use]
    pub fn host_at(&self, ip: Ipv4Addr, timeout: Duration) -> Option<u32> {
        neighbour::host_at(ip, timeout).filter(|host| self.hosts().is_ok_and(|hosts| hosts.contains(host)))
    }

    /// Returns the hosts that have a listener of this name. Blocks until each host has answered. An
    /// absent host never answers: the operating system gives it up after 8 s.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the name is too long; [`Error::System`].
    pub fn find(&self, name: &str) -> Result<Found> {
        self.find_within(name, None)
    }

    /// As [`Card::find`], but waits for answers for at most `timeout`.
    ///
    /// # Errors
    /// Those of [`Card::find`]. The end of `timeout` is not an error.
    pub fn find_timeout(&self, name: &str, timeout: Duration) -> Result<Found> {
        self.find_within(name, Some(timeout))
    }

    pub(super) fn find_within(&self, name: &str, timeout: Option<Duration>) -> Result<Found> {
        self.0.card().find_within(name, timeout)
    }

    pub(super) fn listen(&self, name: &str) -> Result<Listener> {
        self.0.card().listen(name)
    }

    pub(super) fn listen_as_socket(&self, name: &str, socket: BorrowedFd<'_>) -> Result<Listener> {
        self.0.card().listen_as_socket(name, socket)
    }

    pub(super) fn begin_connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Connecting> {
        self.0.card().begin_connect(host, name, private)
    }
}

macro_rules! from_cards {
    ($($card:ty => $carrier:expr;)*) => {$(
        impl From<$card> for Card {
            fn from(card: $card) -> Self {
                Self(Arc::new($carrier(card)))
            }
        }
    )*};
}

from_cards! {
    crate::Card => HamlynCarrier::new;
    shrimp::Card => std::convert::identity;
    clan::Card => std::convert::identity;
    dart::Card => std::convert::identity;
    echo::Card => std::convert::identity;
}

fn open<M: Model>(node: &Path) -> Result<Arc<Node<M>>> {
    Node::open(node).map(Arc::new)
}

fn first_node() -> Option<PathBuf> {
    let names = fs::read_dir("/dev").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    first_among(names).map(|name| Path::new("/dev").join(name))
}

fn first_among(names: impl Iterator<Item = String>) -> Option<String> {
    let rank = |name: &str| {
        MODELS.iter().enumerate().find_map(|(model, Opened(prefix, ..))| {
            let number: u32 = name.strip_prefix(*prefix)?.parse().ok()?;
            Some((model, number))
        })
    };
    names.filter_map(|name| Some((rank(&name)?, name))).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_node_is_by_model_and_number() {
        let first = |names: &[&str]| first_among(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(first(&["dart0", "clan10", "clan2", "tty1", "hamlynx"]).as_deref(), Some("clan2"));
        assert_eq!(first(&["shrimp1", "hamlyn3"]).as_deref(), Some("hamlyn3"));
        assert_eq!(first(&["echo0", "dart1"]).as_deref(), Some("dart1"));
        assert_eq!(first(&["null", "clan"]), None);
    }
}
