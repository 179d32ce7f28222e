//! A card with its machine's server: what a process that hosts one card has once, and one that hosts many has often.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use hamlyn_bus::{Server, ServerError};
use hamlyn_models::card::{BarKind, Card, Progress};
use hamlyn_models::hamlyn::HamlynCard;
use serde_json::{Map, Value, json};

use super::args::{CardOptions, Model};
use super::function::{CardFunction, description};
use super::uplink::Uplink;

/// Packets taken and sent before the descriptors are looked at again.
const BATCH: usize = 32;

/// A card between its machine and its link.
pub(crate) struct Station {
    server: Server,
    pub(super) function: CardFunction,
}

/// What came of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Packets were taken or sent.
    Worked,
    /// There is nothing to do.
    Idle,
    /// There is something to send and no room on the link.
    Full,
}

impl Station {
    /// A card that waits for its machine at `socket`.
    pub(crate) fn start(options: &CardOptions, socket: &Path, uplink: Uplink) -> anyhow::Result<Self> {
        let card: Box<dyn Card> = match options.model {
            Model::Hamlyn => Box::new(HamlynCard::new(options.hamlyn())?),
        };
        let bars = card.identity().bars;
        let window = bars.iter().find(|bar| matches!(bar.kind, BarKind::Window { .. }));
        let server = Server::bind(socket, description(card.as_ref()))?;
        let mut function = CardFunction::new(card, uplink);
        if let Some(pages) = window.and_then(|bar| server.bus().pages(bar.index.into())) {
            function.set_window(pages.clone());
        }
        Ok(Self { server, function })
    }

    /// Handles the messages of the machine. `true`: there were some.
    pub(crate) fn serve(&mut self) -> Result<bool, ServerError> {
        Ok(self.server.process(&mut self.function)? > 0)
    }

    /// Takes what has arrived before each packet that it sends (section 2.8), a bounded batch of either.
    pub(crate) fn turn(&mut self) -> Turn {
        let bus = self.server.bus();
        let mut turn = Turn::Idle;
        for _ in 0..BATCH {
            let received = (0..BATCH).take_while(|_| self.function.receive(bus)).count();
            let progress = self.function.transmit(bus);
            if received > 0 || progress == Progress::Worked {
                turn = Turn::Worked;
            } else if turn == Turn::Idle && progress == Progress::LinkFull {
                turn = Turn::Full;
            }
            if received == BATCH || progress != Progress::Worked {
                break;
            }
        }
        turn
    }

    /// Tells the machine that its card looks no more, and looks once more. `false`: there is something to do.
    pub(crate) fn sleep(&mut self) -> bool {
        self.function.sleep(self.server.bus())
    }

    /// Ticks if it is time. There may be something to send then: this comes before [`Station::turn`].
    pub(crate) fn tick(&mut self) {
        self.function.tick(self.server.bus());
    }

    /// How long it is until the next tick.
    pub(crate) fn alarm(&self) -> Option<Duration> {
        self.function.alarm()
    }

    /// The link is of no use any more.
    pub(crate) fn unlink(&mut self) {
        self.function.uplink.lose();
        if self.function.uplink.take_lost().is_some() {
            self.link_changed();
        }
    }

    pub(crate) fn link_changed(&mut self) {
        self.function.link_changed(self.server.bus());
    }

    pub(crate) fn counters(&self) -> Value {
        let named: Map<String, Value> =
            self.function.counters().into_iter().map(|(name, count)| (name.into(), count.into())).collect();
        let (refused, counters): (Map<_, _>, Map<_, _>) =
            named.into_iter().partition(|(name, _)| name.starts_with("refused_"));
        let refused: Map<_, _> = refused
            .into_iter()
            .map(|(name, count)| (name.trim_start_matches("refused_").into(), count))
            .collect();
        let messages: Map<String, Value> =
            self.server.counters().messages().map(|(name, count)| (name.to_string(), count.into())).collect();
        json!({
            "host": self.function.uplink.host(),
            "machine": self.server.has_client(),
            "enabled": self.function.is_enabled(),
            "card": counters,
            "refused": refused,
            "bus": messages,
        })
    }
}

impl AsFd for Station {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.server.as_fd()
    }
}
