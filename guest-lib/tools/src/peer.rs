//! Who is asked: a host's server by its name, or any by its ticket; and the conversation with it.

use std::str::FromStr;
use std::time::Duration;

use hamlyn::{Card, Connection, Handle, Ticket};

use crate::Outcome;
use crate::end::{self, DEPTH, End, Hello, Wait, Wish};
use crate::word;

/// How a tool's user names a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The one that listens on this host.
    Host(u32),
    /// The one that has printed these tickets, one for each pair.
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
    /// The host id of the peer, or the ticket that it printed with --ticket
    pub(crate) peer: Option<Peer>,
    /// The name that the peer listens under, and is asked for by, if it is not the tool's own
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// As the one that answers: print a ticket for the other, instead of listening under a name
    #[arg(long, conflicts_with_all = ["peer", "name"])]
    pub(crate) ticket: bool,
}

/// A client's conversation with a server.
pub(crate) struct Session {
    pub(crate) end: End,
    ticket: Ticket,
    /// Tells of the server's end.
    connection: Option<Connection>,
    timeout: Duration,
    /// How the client waits, and asks the server to.
    wait: Wait,
    /// Bytes of each message.
    size: usize,
    /// Messages of each end that may be under way.
    depth: u8,
}

impl Session {
    /// Finds the server, for one pair of possibly several, and makes room for messages of up to `size` bytes.
    pub(crate) fn open(
        card: &Card,
        (peer, pair, name): (&Peer, usize, &str),
        size: usize,
        wait: Wait,
        timeout: Duration,
    ) -> Outcome<Self> {
        let end = End::create(card, size)?;
        let (ticket, connection) = match peer {
            Peer::Tickets(tickets) => {
                let limit = tickets.len();
                let ticket = tickets.get(pair).ok_or_else(|| {
                    format!("pair {pair} has no ticket (limit {limit}): give the server as many with -q")
                })?;
                (*ticket, None)
            }
            Peer::Host(host) => {
                let connection = card.connect(*host, name, &(size as u64).to_le_bytes())?;
                (Ticket::from_bytes(connection.private())?, Some(connection))
            }
        };
        Ok(Self { end, ticket, connection, timeout, wait, size, depth: DEPTH as u8 })
    }

    /// The same with another depth.
    pub(crate) fn with_depth(self, depth: u8) -> Self {
        Self { depth, ..self }
    }

    /// How many messages may be under way.
    pub(crate) fn depth(&self) -> u64 {
        self.depth.into()
    }

    /// The server's host.
    pub(crate) fn host(&self) -> u32 {
        self.ticket.destination
    }

    /// The longest message that the server takes.
    pub(crate) fn room(&self) -> usize {
        end::room(&self.ticket)
    }

    /// Tells the server what comes, and how many messages it is to send itself, and waits until it is ready.
    pub(crate) fn ask(&mut self, wish: Wish, size: usize, messages: u64) -> Outcome {
        let limit = self.room();
        if size > limit {
            return Err(format!("message size {size} is out of range (limit {limit})").into());
        }
        self.size = size;
        let ticket = self.end.ticket()?;
        let hello = Hello { wish, wait: self.wait, depth: self.depth, size, messages, ticket };
        let handle = self.end.say_hello(&self.ticket, hello)?;
        while self.next_word(Some(&handle))? != word::READY {}
        Ok(())
    }

    /// Sends a message.
    pub(crate) fn send(&self, word: u32) -> hamlyn::Result<Handle> {
        self.end.send(&self.ticket, word, self.size)
    }

    /// Sends a word alone.
    pub(crate) fn say(&self, word: u32) -> hamlyn::Result<Handle> {
        self.end.say(&self.ticket, word)
    }

    /// The next word that comes, or none in time.
    pub(crate) fn receive(&self, timeout: Duration) -> hamlyn::Result<Option<u32>> {
        self.end.receive(self.wait, Some(timeout))
    }

    /// The next word that comes, in answer to what was sent: a reason why it was not sent is worth more than silence.
    pub(crate) fn next_word(&self, sent: Option<&Handle>) -> Outcome<u32> {
        if let Some(word) = self.receive(self.timeout)? {
            return Ok(word);
        }
        sent.map(Handle::is_complete).transpose()?;
        if let Some(end) = self.connection.as_ref().map(Connection::end).transpose()?.flatten() {
            return Err(format!("host {} has ended the connection: {end}", self.host()).into());
        }
        Err(format!("host {} does not answer within {:?}", self.host(), self.timeout).into())
    }

    /// Lets the server go.
    pub(crate) fn close(self) -> Outcome {
        self.end.say(&self.ticket, word::BYE)?.wait(Some(self.timeout))?;
        Ok(self.connection.map_or(Ok(()), |connection| connection.close(b""))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_host_id_or_a_ticket() {
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
