//! The peer of a tool: a host's server by its name, or any server by its ticket; and the
//! conversation with it.

use std::str::FromStr;
use std::time::Duration;

use hamlyn::attach::Card;
use hamlyn::{Connection, Ticket};

use crate::Outcome;
use crate::end::{Address, DEPTH, End, Hello, Wait, Wish, read};
use crate::word;

/// How a tool's user identifies a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The server that listens on this host.
    Host(u32),
    /// The server that has printed these tickets, one for each pair.
    Tickets(Vec<Ticket>),
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("hamlyn") {
            let tickets: Result<Vec<Ticket>, _> = text.split(',').map(str::parse).collect();
            return tickets.map(Peer::Tickets).map_err(|error: hamlyn::TicketError| error.to_string());
        }
        text.parse().map(Peer::Host).map_err(|_| format!("'{text}' is neither a host id nor a ticket"))
    }
}

/// How client and server find each other.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Meeting {
    /// Host id of the peer, or the ticket that it printed with --ticket
    pub(crate) peer: Option<Peer>,
    /// Name under which the peer listens and is found, instead of the tool's own name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// As the answering side: print a ticket for the other side, instead of listening under a name
    #[arg(long, conflicts_with_all = ["peer", "name"])]
    pub(crate) ticket: bool,
    /// Use a channel over memory that the two hosts share, with no card on the path. Both sides
    /// need this option
    #[arg(long, conflicts_with = "ticket")]
    pub(crate) express: bool,
}

impl Meeting {
    /// Returns the name to meet under; `tools` is the default. Channels have their own default
    /// name, so that they only meet channels.
    pub(crate) fn name(&self, tools: &str) -> String {
        let own = || if self.express { format!("{tools}-express") } else { tools.to_owned() };
        self.name.clone().unwrap_or_else(own)
    }

    /// Refuses tickets if the model has none.
    pub(crate) fn check<E: End>(&self) -> Outcome {
        let wanted = self.ticket || matches!(self.peer, Some(Peer::Tickets(_)));
        if wanted && !E::HAS_TICKETS {
            let model = E::MODEL;
            return Err(format!("a {model} card has no tickets: name the host, where a peer listens").into());
        }
        Ok(())
    }
}

/// A client's conversation with a server.
pub(crate) struct Session<E: End> {
    pub(crate) end: E,
    address: E::Address,
    /// Reports the server's end.
    connection: Option<Connection>,
    timeout: Duration,
    /// How the client waits, and asks the server to wait.
    wait: Wait,
    /// Size of each message, in bytes.
    size: usize,
    /// Number of messages that each end may have in flight.
    depth: u8,
}

impl<E: End> Session<E> {
    /// Connects to the server for one of possibly several pairs, and makes room for messages of up
    /// to `size` bytes.
    pub(crate) fn open(
        card: &Card<E::Attachment>,
        (peer, pair, name): (&Peer, usize, &str),
        size: usize,
        wait: Wait,
        timeout: Duration,
    ) -> Outcome<Self> {
        let (end, address, connection) = match peer {
            Peer::Tickets(tickets) => {
                let limit = tickets.len();
                let ticket = tickets.get(pair).ok_or_else(|| {
                    format!("pair {pair} has no ticket (limit {limit}): give the server as many with -q")
                })?;
                let address: E::Address = read(&ticket.to_bytes())?;
                (E::create(card, Some(address.host()), size)?, address, None)
            }
            Peer::Host(host) => E::connect(card, *host, name, size)?,
        };
        Ok(Self { end, address, connection, timeout, wait, size, depth: DEPTH as u8 })
    }

    /// Returns the session with another depth.
    pub(crate) fn with_depth(self, depth: u8) -> Self {
        Self { depth, ..self }
    }

    /// Returns the number of messages that may be in flight.
    pub(crate) fn depth(&self) -> u64 {
        self.depth.into()
    }

    /// Returns the server's host id.
    pub(crate) fn host(&self) -> u32 {
        self.address.host()
    }

    /// Returns the length of the longest message that the server accepts.
    pub(crate) fn room(&self) -> usize {
        self.address.room()
    }

    /// Tells the server what follows, and how many messages it has to send itself. Blocks until the
    /// server is ready.
    pub(crate) fn ask(&mut self, wish: Wish, size: usize, messages: u64) -> Outcome {
        let limit = self.room();
        if size > limit {
            return Err(format!("message size {size} is out of range (limit {limit})").into());
        }
        self.size = size;
        let address = self.end.address()?;
        let hello = Hello { wish, wait: self.wait, depth: self.depth, size, messages, address };
        self.end.reach(&self.address, wish)?;
        self.end.say_hello(&hello.to_bytes())?;
        while self.next_word()? != word::READY {}
        Ok(())
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, word: u32) -> hamlyn::Result<()> {
        self.end.send(word, self.size)
    }

    /// Sends a word without bytes.
    pub(crate) fn say(&mut self, word: u32) -> hamlyn::Result<()> {
        self.end.say(word)
    }

    /// Returns the next word, or `None` on timeout.
    pub(crate) fn receive(&mut self, timeout: Duration) -> hamlyn::Result<Option<u32>> {
        self.end.receive(self.wait, Some(timeout))
    }

    /// Returns the next word, in answer to a sent one. If a message could not be sent, fails with
    /// that reason instead of a timeout.
    pub(crate) fn next_word(&mut self) -> Outcome<u32> {
        if let Some(word) = self.receive(self.timeout)? {
            return Ok(word);
        }
        self.end.complain()?;
        if let Some(end) = self.connection.as_ref().map(Connection::end).transpose()?.flatten() {
            return Err(format!("host {} has ended the connection: {end}", self.host()).into());
        }
        Err(format!("host {} does not answer within {:?}", self.host(), self.timeout).into())
    }

    /// Ends the conversation with the server.
    pub(crate) fn close(mut self) -> Outcome {
        self.end.say(word::BYE)?;
        self.end.finish(self.timeout)?;
        Ok(self.connection.map_or(Ok(()), |connection| connection.close(b""))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_is_host_id_or_tickets() {
        assert_eq!("7".parse(), Ok(Peer::Host(7)));
        assert!("vm1".parse::<Peer>().is_err_and(|error| error.contains("neither")));
        let ticket = Ticket {
            destination: 1,
            slot: 2,
            metadata_index: Ticket::FAST,
            key: 3,
            base: 0,
            length: 64,
            flags: hamlyn::TicketFlags::default(),
        };
        assert_eq!(format!("{ticket},{ticket}").parse(), Ok(Peer::Tickets(vec![ticket; 2])));
        assert!("hamlyn1:00".parse::<Peer>().is_err_and(|error| error.contains("digits")));
    }
}
