//! The echo card has mailboxes only. It is the tutorial card; `docs/new-card.md` builds it.
//!
//! ```no_run
//! use hamlyn::echo::{Address, Card};
//!
//! let card = Card::open(0)?;
//! let mut mailbox = card.open_mailbox(64)?;
//! mailbox.send(Address { host: 1, mailbox: 0 }, b"hello")?;
//! let answer = mailbox.recv()?;
//! println!("{:?} says {}", answer.from, String::from_utf8_lossy(&answer.data));
//! # Ok::<(), hamlyn::Error>(())
//! ```

mod channel;
mod mailbox;

use std::path::Path;
use std::sync::Arc;

use hamlyn_abi::echo::identity::{ECHO_ABI_VERSION, ECHO_MODEL};
use hamlyn_abi::echo::uapi::EchoQuery;

use crate::core::attach::CardAttachment;
use crate::core::card;
use crate::core::device::Node;
use crate::core::model::{Model, Shared};
use crate::error::Result;

pub use self::mailbox::{Address, Mailbox, Message};

/// Model of the echo card.
#[derive(Debug)]
pub enum Echo {}

impl Model for Echo {
    const NUMBER: u32 = ECHO_MODEL;
    const NAME: &'static str = "echo";
    const VERSION: u32 = ECHO_ABI_VERSION;
    const SHARED: &'static [Shared] = &[Shared {
        object: "mailboxes",
        remedy: "close some, or give the card more (hamlyn card --mailboxes)",
        limit: |card| card.of_card::<EchoQuery>().map_or(0, |own| own.mailboxes),
    }];
}

/// An open echo card. Objects created from it belong to this process and are closed with it.
pub type Card = card::Card<Node<Echo>>;

impl Card {
    /// Opens `/dev/echoN`.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::OtherModel`] if that is another model's card.
    pub fn open(number: u32) -> Result<Self> {
        Ok(Self::attached(Arc::new(Node::open_number(number)?)))
    }

    /// Opens the card with this device node.
    ///
    /// # Errors
    /// Same as [`Card::open`].
    pub fn open_path(node: &Path) -> Result<Self> {
        Ok(Self::attached(Arc::new(Node::open(node)?)))
    }

    /// Returns the card's host id; `None` while its link is down.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn host(&self) -> Result<Option<u32>> {
        let host = self.attachment().query()?.host;
        Ok((host != hamlyn_abi::family::link::ULN_NO_HOST).then_some(host))
    }

    /// Opens a mailbox whose inbox has `records` entries: 4 to 1,024, a power of two.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Exhausted`] or [`crate::Error::Quota`] if none is
    /// left.
    pub fn open_mailbox(&self, records: u32) -> Result<Mailbox> {
        Mailbox::open(self.attachment(), records)
    }
}
