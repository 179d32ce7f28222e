//! A queue of several producers.

use std::ffi::c_int;

use hamlyn::dart::programs::Producer;

use crate::call::waited;
use crate::dart::connection::dart_connection;
use crate::exported::exported;

exported! {
/// Puts an item into the event queue of the connection's other end, which any number of producers
/// can share. The item is up to 32 bytes of this end's endpoint from byte `from`. If the queue is
/// full, items wait in order, first in the cards and then here: nothing is lost, and messages for
/// other queues do not wait. The consumer takes items with dart_queue_next: the item is the
/// record's data, its tag the record's operand.
fn dart_put(connection: &dart_connection, tag: u64, from: u64, length: u64, timeout_ms: c_int) {
    let producer = Producer::new(connection.0.clone());
    waited!(timeout_ms, producer => put / put_timeout(tag, from, length))?
}
}
