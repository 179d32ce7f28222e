//! Tests of the library's DART module and its compound operations, on card models without virtual
//! machines, drivers or a switch. Each action completes before it returns, and the tests determine
//! the order.

mod attachment;
mod costs;
mod exceptions;
mod lone;
mod net;
mod together;

use std::sync::Arc;

use hamlyn::dart::{Bank, Card, Connection, Endpoint, Queue, Urgency};

/// Bytes of an endpoint in these tests.
const LENGTH: usize = 1 << 16;

/// One end of a connection, with its objects.
struct End {
    endpoint: Arc<Endpoint>,
    bank: Bank,
    events: Queue,
    connection: Arc<Connection>,
}

/// Opens the objects of one end.
fn end(card: &Card, host: u32) -> End {
    let (endpoint, bank) = (Arc::new(card.endpoint(LENGTH).unwrap()), card.bank(16, 0).unwrap());
    let events = card.queue(16, Urgency::Delayed).unwrap();
    let connection = Arc::new(card.connection(&endpoint, &bank).events(&events).open(host).unwrap());
    End { endpoint, bank, events, connection }
}

/// Connects both ends to each other.
fn connect(one: &Connection, other: &Connection) {
    one.connect(&other.address().unwrap()).unwrap();
    other.connect(&one.address().unwrap()).unwrap();
}

/// Creates two hosts with a connection between them.
fn pair() -> [End; 2] {
    let cards = net::cards(2);
    let ends = [end(&cards[0], 1), end(&cards[1], 0)];
    connect(&ends[0].connection, &ends[1].connection);
    ends
}

/// Creates the first host's end, its connections to `others` other hosts, and their ends. All
/// connections of the first host share its endpoint, bank and queue.
fn star(others: u32) -> (End, Vec<Arc<Connection>>, Vec<End>) {
    let cards = net::cards(others as u16 + 1);
    let hub = end(&cards[0], 1);
    let builder = cards[0].connection(&hub.endpoint, &hub.bank).events(&hub.events);
    let more = (2..=others).map(|host| Arc::new(builder.open(host).unwrap()));
    let all: Vec<_> = std::iter::once(hub.connection.clone()).chain(more).collect();
    let others: Vec<_> = cards[1..].iter().map(|card| end(card, 0)).collect();
    all.iter().zip(&others).for_each(|(here, there)| connect(here, &there.connection));
    (hub, all, others)
}
