//! The connections, and whose turn it is to send or to execute messages.
//!
//! Sending does not know execution, nor does execution know sending: they meet here alone. A packet
//! that arrives makes messages to execute, executed messages make answers to send, and an answer
//! that leaves makes room for more messages to execute.

mod commands;
mod pages;

use std::time::Duration;

use hamlyn_abi::dart::connection::DART_BROKEN_LINK;
use hamlyn_abi::dart::fifo::{DART_FIFO_ARRIVED, DART_FIFO_MISSES};
use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_card::card::{Place, Progress};
use hamlyn_card::chassis::table::Table;
use hamlyn_card::ports::{DmaFault, Link, Packet, Ports};

use crate::backlog::Backlog;
use crate::cells::Message;
use crate::connections::Connection;
use crate::executing::Execution;
use crate::incoming::system_message;
use crate::memory::Memory;
use crate::outgoing::{Outgoing, Turn};
use crate::packet::Head;
use crate::telling::Telling;
use crate::turns::Turns;

/// The Connection Table, and the turns of its connections.
#[derive(Debug)]
pub(crate) struct Traffic {
    connections: Table<Connection>,
    turns: Turns,
    backlog: Backlog,
    /// The place of this host on the link.
    here: Option<Place>,
}

/// The parts of the card that the traffic works with.
pub(crate) struct Around<'a> {
    pub(crate) ports: &'a Ports<'a>,
    pub(crate) memory: &'a mut Memory,
    pub(crate) telling: &'a mut Telling,
}

impl Traffic {
    pub(crate) fn new(connections: u32) -> Self {
        Self {
            connections: Table::new(connections),
            turns: Turns::default(),
            backlog: Backlog::default(),
            here: None,
        }
    }

    /// Closes all connections. The link stays.
    pub(crate) fn reset(&mut self) {
        self.connections.close_all();
        self.turns.clear();
        self.backlog = Backlog::default();
    }

    /// Begins a turn of the card. [`Traffic::end_turn`] follows.
    pub(crate) fn begin_turn(&mut self) {
        self.backlog.begin_turn();
    }

    pub(crate) fn end_turn(&mut self, ports: &Ports<'_>) {
        self.backlog.set_look(|| ports.clock.now());
    }

    /// Returns when [`Traffic::tick`] is next due.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.backlog.deadline()
    }

    /// Continues with the messages that have waited for a turn, or long enough for something else.
    pub(crate) fn tick(&mut self, around: &mut Around<'_>, now: Duration) {
        self.run_busy(around);
        if self.backlog.take_look(now) {
            self.go_on(around);
        }
    }

    /// Handles another link. Packets in flight on the earlier one are lost.
    pub(crate) fn link_changed(&mut self, ports: &Ports<'_>, telling: &mut Telling, place: Option<Place>) {
        for connection in self.connections.iter_mut().flatten() {
            connection.break_off(ports, &mut self.backlog, telling, DART_BROKEN_LINK);
            // The connections of operating systems stay, but their messages are dropped.
            connection.drop_all(ports, telling);
        }
        self.here = place;
    }

    /// Handles a packet from the link.
    pub(crate) fn arrive(&mut self, around: &mut Around<'_>, packet: &Packet<'_>) {
        let Some((head, cells)) = Head::take(packet.bytes) else {
            return around.telling.count(DartStatistic::Discarded);
        };
        let index = head.connection.get();
        let known = self.connections.at_mut(index).filter(|known| known.takes(packet.source, &head));
        let Some(connection) = known else { return around.telling.count(DartStatistic::Discarded) };
        if connection.is_system {
            return self.arrive_at_system(around, index, system_message(&head, &cells));
        }
        around.telling.count(DartStatistic::PacketsArrived);
        match connection.accept(&head, &cells) {
            Err(why) => return connection.break_off(around.ports, &mut self.backlog, around.telling, why),
            Ok(None) => {}
            Ok(Some((trap, opcode))) => {
                let told = connection.trapped(around.ports.dma, trap, opcode);
                connection.note(around.ports, &mut self.backlog, around.telling, told);
            }
        }
        self.run(around, index);
        self.stir(index);
    }

    /// Handles a message of an operating system: executes it at once, or drops it.
    fn arrive_at_system(&mut self, around: &mut Around<'_>, index: u32, message: Option<Message>) {
        let Some(message) = message else { return around.telling.count(DartStatistic::Discarded) };
        around.telling.count(DartStatistic::PacketsArrived);
        let execution = self.execution(around, index);
        if execution.is_some_and(|mut execution| execution.execute_now(message)) {
            around.telling.tell(around.ports, DART_FIFO_ARRIVED | index);
        } else {
            around.telling.count(DartStatistic::Discarded);
        }
    }

    /// Sends a packet, if one may be sent. The connections take turns.
    pub(crate) fn send_next(&mut self, around: &mut Around<'_>, link: &mut dyn Link) -> Progress {
        for index in self.turns.resumed(link.resumptions()) {
            self.stir(index);
        }
        while let Some(index) = self.turns.next() {
            let connection = self.connections.at_mut(index);
            let turn = connection.map_or(Turn::Nothing, |connection| {
                let Around { ports, memory, telling } = around;
                Outgoing { ports, connection, memory, telling }.send(link, self.here)
            });
            match turn {
                Turn::Full => {
                    self.turns.put_back(index);
                    return Progress::LinkFull;
                }
                Turn::Sent { is_reply, told } => {
                    self.note(around, index, told);
                    // An answer may have waited for that.
                    if is_reply {
                        self.run(around, index);
                    }
                    self.turns.end(index);
                    self.stir(index);
                    return Progress::Worked;
                }
                Turn::Stopped => self.turns.stop(index),
                Turn::Dropped(told) => {
                    self.note(around, index, told);
                    self.turns.end(index);
                    self.stir(index);
                }
                Turn::Nothing => self.turns.end(index),
            }
        }
        Progress::Idle
    }

    /// Handles the driver's report that a page is there, or nowhere.
    pub(crate) fn fill(&mut self, around: &mut Around<'_>, frame: u64) {
        let report = around.memory.fill(frame);
        for connection in self.connections.iter_mut().flatten() {
            if around.memory.space(connection.endpoint) != Some(report.page.space) {
                continue;
            }
            let filled = connection.waits_mut().map(|wait| report.fill(wait));
            if filled.contains(&true) {
                self.backlog.postpone(connection.number);
            }
        }
        self.run_busy(around);
    }

    /// Handles the driver's report that `count` pages have moved or gone.
    pub(crate) fn invalidate(&mut self, memory: &mut Memory, count: u64) {
        let (space, numbers) = memory.invalidate(count);
        for connection in self.connections.iter_mut().flatten() {
            if memory.space(connection.endpoint) == Some(space) {
                connection.waits_mut().into_iter().for_each(|wait| wait.invalidate(&numbers));
            }
        }
    }

    /// Gives a connection a turn, if it has something to send.
    fn stir(&mut self, index: u32) {
        if self.connections.at(index).is_some_and(Connection::has_work) {
            self.turns.add(index);
        }
    }

    fn execution<'a>(&'a mut self, around: &'a mut Around<'_>, index: u32) -> Option<Execution<'a>> {
        let connection = self.connections.at_mut(index)?;
        let Around { ports, memory, telling } = around;
        Some(Execution { ports, connection, memory, backlog: &mut self.backlog, telling })
    }

    fn run(&mut self, around: &mut Around<'_>, index: u32) {
        if let Some(mut execution) = self.execution(around, index) {
            execution.run();
        }
    }

    /// Continues with connections whose messages had no turn left.
    fn run_busy(&mut self, around: &mut Around<'_>) {
        while let Some(index) = self.backlog.next() {
            self.run(around, index);
            self.stir(index);
            // Pages that were found before may have been taken back meanwhile.
            if self.connections.at(index).is_some_and(Connection::lacks_pages) {
                around.telling.tell(around.ports, DART_FIFO_MISSES | index);
            }
        }
    }

    /// Continues with messages that waited for places in queues.
    fn go_on(&mut self, around: &mut Around<'_>) {
        self.backlog.retry();
        self.run_busy(around);
    }

    fn note(&mut self, around: &mut Around<'_>, index: u32, told: Result<(), DmaFault>) {
        if let Some(connection) = self.connections.at_mut(index) {
            connection.note(around.ports, &mut self.backlog, around.telling, told);
        }
    }
}
