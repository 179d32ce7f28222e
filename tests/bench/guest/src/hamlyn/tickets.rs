//! Tickets of both ends of an exchange.

use hamlyn::Ticket;

use crate::engine::result::{Outcome, exchange_words};

/// Prints this end's ticket and reads the peer's.
pub(crate) fn exchange_tickets(own: &Ticket) -> Outcome<Ticket> {
    Ok(exchange_words(&own.to_string())?.parse()?)
}
