//! The driver's commands and registers that concern connections.

use hamlyn_abi::dart::command::{DART_PAGE_WRITES, DartBreak, DartConnect, DartMisses};
use hamlyn_abi::dart::connection::DART_BROKEN_LINK;
use hamlyn_abi::dart::fifo::DART_FIFO_LEFT;
use hamlyn_abi::family::command::{ULN_STATUS_BAD_INDEX, ULN_STATUS_BAD_VALUE, ULN_STATUS_IN_USE};
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::Ports;
use zerocopy::FromZeros;

use super::{Around, Traffic};
use crate::cells::CONNECTIONS;
use crate::connections::{Connection, Peer};
use crate::endpoints::PAGE;
use crate::memory::Memory;
use crate::telling::Telling;

impl Traffic {
    /// Checks that no connection has this number yet.
    pub(crate) fn check_vacant(&self, index: u32) -> Result<(), Refusal> {
        self.connections.check_vacant(index)
    }

    pub(crate) fn open(&mut self, ports: &Ports<'_>, telling: &mut Telling, mut connection: Connection) {
        if self.here.is_none() {
            connection.break_off(ports, &mut self.backlog, telling, DART_BROKEN_LINK);
        }
        self.connections.open(connection.number, connection);
    }

    /// Closes a connection. Returns its endpoint.
    pub(crate) fn close(&mut self, index: u32) -> Result<u32, Refusal> {
        let closed = self.connections.vacate(index)?;
        self.backlog.remove(index);
        self.turns.remove(index);
        Ok(closed.endpoint)
    }

    pub(crate) fn connect(&mut self, index: u32, body: &DartConnect) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        let connection = self.connections.opened(index)?;
        if body.peer >= CONNECTIONS {
            return Err(Refusal::new(ULN_STATUS_BAD_INDEX, body.peer, CONNECTIONS));
        }
        if connection.is_system {
            return Err(Refusal::new(ULN_STATUS_IN_USE, body.peer, CONNECTIONS));
        }
        if let Some(peer) = connection.peer {
            return Err(Refusal::new(ULN_STATUS_IN_USE, peer.number, CONNECTIONS));
        }
        connection.peer = Some(Peer { number: body.peer, key: body.key });
        self.stir(index);
        Ok(())
    }

    pub(crate) fn break_connection(
        &mut self,
        ports: &Ports<'_>,
        telling: &mut Telling,
        index: u32,
        body: &DartBreak,
    ) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        let connection = self.connections.opened(index)?;
        if connection.is_system {
            return Err(Refusal::new(ULN_STATUS_IN_USE, body.why, 0_u32));
        }
        if body.why == 0 {
            return Err(Refusal::new(ULN_STATUS_BAD_VALUE, body.why, 1_u32));
        }
        connection.break_off(ports, &mut self.backlog, telling, body.why);
        Ok(())
    }

    /// Handles a queue that was closed: its connections no longer write to it, and messages that
    /// waited for places in it continue.
    pub(crate) fn queue_closed(&mut self, around: &mut Around<'_>, queue: u32) {
        self.backlog.close_queue(queue);
        for connection in self.connections.iter_mut().flatten() {
            for used in [&mut connection.events, &mut connection.exceptions] {
                *used = used.filter(|used| *used != queue);
            }
        }
        self.go_on(around);
    }

    /// Returns the pages that a connection waits for.
    pub(crate) fn misses(&mut self, memory: &mut Memory, index: u32) -> Result<DartMisses, Refusal> {
        let connection = self.connections.opened(index)?;
        let mut misses = DartMisses::new_zeroed();
        misses.space = memory.opened_endpoint(connection.endpoint)?.space().unwrap_or_default();
        let missing = connection.waits_mut().into_iter().flat_map(|wait| &wait.missing);
        for ((number, writes), place) in missing.zip(&mut misses.pages) {
            *place = (number * PAGE) | if *writes { DART_PAGE_WRITES } else { 0 };
            misses.count += 1;
        }
        Ok(misses)
    }

    /// Arms a connection for a sleeping process that knows of `left` messages that have left.
    pub(crate) fn arm(&mut self, ports: &Ports<'_>, telling: &mut Telling, index: u32, left: u32) {
        if self.connections.at_mut(index).is_some_and(|connection| connection.arm(left)) {
            telling.tell(ports, DART_FIFO_LEFT | index);
        }
    }
}
