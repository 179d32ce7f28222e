//! What a connection is, and how its channel comes about.

use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;

use hamlyn::channel::{Channel, Listener, Opening};

use super::tcp::Connection;
use crate::environment;
use crate::link::ChannelLink;
use crate::stream::Stream;

/// Attempts to open a channel, or to be asked for one.
pub(super) const TRIES: u32 = 3;

#[derive(Debug)]
pub(super) struct State {
    pub(super) tcp: Connection,
    pub(super) stream: Stream<ChannelLink>,
    pub(super) offer: Offer,
    pub(super) receives: u32,
    pub(super) sends: u32,
    pub(super) calls: u32,
    pub(super) tries: u32,
    /// Bytes sent and received, for the report.
    pub(super) by_tcp: u64,
    pub(super) by_channel: u64,
    /// When the channel came.
    pub(super) attached: Option<Instant>,
    pub(super) is_express: bool,
    /// The switch was counted.
    pub(super) is_counted: bool,
    /// The program receives no more.
    pub(super) is_deaf: bool,
    /// TCP has ended, which says nothing of the channel.
    pub(super) hung_up: bool,
    /// The connection's end.
    pub(super) failed: Option<i32>,
}

/// How a channel may come about.
#[derive(Debug)]
pub(super) enum Offer {
    /// It will not, or is there.
    None,
    /// The connecting end waits for a request.
    Named(Listener),
    /// The accepting end opens one later, under this name.
    Later(String, SocketAddrV4),
    Opening(String, SocketAddrV4, Box<Opening>),
}

impl State {
    /// Looks whether the channel has come. Returns whether something has changed.
    pub(super) fn look(&mut self) -> bool {
        match std::mem::replace(&mut self.offer, Offer::None) {
            Offer::Named(listener) => match listener.try_accept() {
                Err(error) if error.is_would_block() => {
                    self.offer = Offer::Named(listener);
                    false
                }
                // One that asks in vain may be anyone's, and so may one that is accepted. A second
                // marker could not be told from data, so nothing is accepted after this.
                Ok(channel) => {
                    self.attach(channel);
                    true
                }
                Err(_) => {
                    self.tries += 1;
                    if self.tries < TRIES {
                        self.offer = Offer::Named(listener);
                    }
                    true
                }
            },
            Offer::Opening(name, peer, opening) => {
                let before = opening.as_fd().as_raw_fd();
                match opening.try_finish() {
                    Ok(Ok(channel)) => {
                        self.attach(channel);
                        true
                    }
                    Ok(Err(opening)) => {
                        let has_changed = opening.as_fd().as_raw_fd() != before;
                        self.offer = Offer::Opening(name, peer, Box::new(opening));
                        has_changed
                    }
                    Err(_) => {
                        self.tries += 1;
                        if self.tries < TRIES {
                            self.offer = Offer::Later(name, peer);
                        }
                        true
                    }
                }
            }
            other => {
                self.offer = other;
                false
            }
        }
    }

    /// What a thread that waits for bytes depends on.
    pub(super) fn way_in(&self) -> [bool; 3] {
        let stream = &self.stream;
        [stream.has_link(), stream.is_agreeing(), stream.receives_by_channel()]
    }

    /// Gives up a channel whose other end does not go on.
    pub(super) fn limit_agreement(&mut self) {
        let limit = environment::get().agreement;
        let is_over = self.attached.is_some_and(|attached| attached.elapsed() > limit);
        if self.stream.is_agreeing() && !self.stream.has_switched() && is_over {
            self.stream.take_link();
        }
    }

    fn attach(&mut self, channel: Channel) {
        self.attached = Some(Instant::now());
        let link = ChannelLink::new(channel);
        self.is_express = link.is_express();
        let (Ok(low), Ok(high)) = (hamlyn::random_key(), hamlyn::random_key()) else { return };
        let mut marker = [0; 16];
        marker[..8].copy_from_slice(&low.to_le_bytes());
        marker[8..].copy_from_slice(&high.to_le_bytes());
        // Not a byte of a text, which could be taken for the marker's beginning.
        marker[0] = 0xff;
        // A channel that fails at once leaves TCP.
        let _ = self.stream.attach(link, marker);
    }
}
