//! Who is asked: a host's server by its name, or any by its ticket; and the conversation with it.

use std::str::FromStr;
use std::time::Duration;

use hamlyn::{Card, Connection, Handle, Ticket};

use crate::Outcome;
use crate::end::{self, End, Hello, Wait, Wish};
use crate::word;

/// How a tool's user names a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The one that listens on this host.
    Host(u32),
    /// The one that has printed this ticket.
    Ticket(Ticket),
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("hamlyn") {
            return text.parse().map(Peer::Ticket).map_err(|error: hamlyn::TicketError| error.to_string());
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
    #[arg(short = 'N', long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// As the one that answers: print a ticket for the other, instead of listening under a name
    #[arg(short, long, conflicts_with_all = ["peer", "name"])]
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
}

impl Session {
    /// Finds the server and makes room for messages of up to `size` bytes.
    pub(crate) fn open(
        card: &Card,
        (peer, name): (&Peer, &str),
        size: usize,
        wait: Wait,
        timeout: Duration,
    ) -> Outcome<Self> {
        let end = End::create(card, size)?;
        let (ticket, connection) = match peer {
            Peer::Ticket(ticket) => (*ticket, None),
            Peer::Host(host) => {
                let connection = card.connect(*host, name, &(size as u64).to_le_bytes())?;
                (Ticket::from_bytes(connection.private())?, Some(connection))
            }
        };
        Ok(Self { end, ticket, connection, timeout, wait, size })
    }

    /// The server's host.
    pub(crate) fn host(&self) -> u32 {
        self.ticket.destination
    }

    /// The longest message that the server takes.
    pub(crate) fn room(&self) -> usize {
        end::room(&self.ticket)
    }

    /// Tells the server what comes, and waits until it is ready.
    pub(crate) fn ask(&mut self, wish: Wish, size: usize) -> Outcome {
        let limit = self.room();
        if size > limit {
            return Err(format!("message size {size} is out of range (limit {limit})").into());
        }
        self.size = size;
        let hello = Hello { wish, wait: self.wait, size, ticket: self.end.ticket()? };
        let handle = self.end.say_hello(&self.ticket, hello)?;
        while self.next_word(&handle)? != word::READY {}
        Ok(())
    }

    /// Sends a message.
    pub(crate) fn send(&self, word: u32) -> hamlyn::Result<Handle> {
        self.end.send(&self.ticket, word, self.size)
    }

    /// The next word that comes, or none in time.
    pub(crate) fn receive(&self, timeout: Duration) -> hamlyn::Result<Option<u32>> {
        self.end.receive(self.wait, Some(timeout))
    }

    /// The next word that comes, in answer to what was sent: a reason why it was not sent is worth more than silence.
    pub(crate) fn next_word(&self, sent: &Handle) -> Outcome<u32> {
        if let Some(word) = self.receive(self.timeout)? {
            return Ok(word);
        }
        sent.is_complete()?;
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
        assert!("hamlyn1:00".parse::<Peer>().is_err_and(|error| error.contains("digits")));
    }
}
