//! One-way streams through cards, between two machines.

use crate::engine::exchange::Exchange;
use crate::engine::machines::{Machines, stream_arguments};
use crate::engine::site::Site;

/// A stream of messages of this size, as root, which may lock enough memory for a lap.
pub(crate) fn stream(machines: &Machines, size: u64, count: u64) -> Exchange<'_> {
    stream_by(machines, &stream_arguments(size, count))
}

/// The same, from and into the programs' own memory.
pub(crate) fn stream_of_own(machines: &Machines, size: u64, count: u64) -> Exchange<'_> {
    stream_by(machines, &format!("{} --own", stream_arguments(size, count)))
}

fn stream_by<'a>(machines: &'a Machines, arguments: &str) -> Exchange<'a> {
    let (send, sink) = (format!("card-send {arguments}"), format!("card-sink {arguments}"));
    let [near, far] = [0, 1].map(|index| Site::Root(machines.lab.vm(index)));
    Exchange::between(near, &send, far, &sink).watching(&machines.processes)
}
