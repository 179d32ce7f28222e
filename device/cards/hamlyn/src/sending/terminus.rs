//! Send termini (section 2.3). Each has a private window with a work queue.

use std::mem::offset_of;

use hamlyn_abi::hamlyn::command::{HAMLYN_TERMINUS_PRIVILEGED, HamlynOpenTerminus};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::{
    HAMLYN_ENTRY_SIZE, HAMLYN_REASON_SENT, HAMLYN_WINDOW_SIZE, HAMLYN_WINDOW_TAIL, HAMLYN_WINDOW_WORK_QUEUE,
    HAMLYN_WORK_QUEUE_ENTRIES, HAMLYN_WORK_QUEUE_USABLE, HamlynTerminusStatus,
};
use hamlyn_card::ports::{Dma, DmaFault, Link, Mapped, Ports, VolatileSlice, write_value};
use zerocopy::{FromZeros, IntoBytes};

use super::allowance::Allowance;
use super::gather::SendBuffers;
use super::request::Outgoing;
use super::retractions::Retractions;
use super::tickets::Tickets;
use crate::WINDOWS;
use crate::packet::{HEADER_BYTES, PACKET_PRIVILEGED, Retraction};
use crate::sleepers::Sender;
use crate::sram::Place;
use crate::statistics::{Counters, count_wake};

/// An open terminus.
#[derive(Debug)]
pub(super) struct Terminus {
    index: u32,
    /// Its place in the SRAM.
    place: Place,
    /// Offset of its window.
    window: u64,
    /// Address of its status words in host memory.
    status: u64,
    /// Number of finished requests, modulo 2^32.
    completed: u32,
    refused: u32,
    /// The reason in the status words for each work-queue entry. Requests are many, so a word is
    /// written only if it changes.
    reasons: [u32; HAMLYN_WORK_QUEUE_ENTRIES as usize],
    pub(super) buffers: SendBuffers,
    /// The message that is being sent.
    outgoing: Option<Outgoing>,
    /// Whether its fetch-and-op is sent and not yet answered.
    waiting: bool,
    /// The flag that its packets carry if it is the operating system's, otherwise 0.
    privilege: u32,
    /// The sender that sleeps until requests are finished. `None` if the owner cannot sleep.
    sleeper: Option<Sender>,
    pub(super) allowance: Allowance,
}

/// Everything that a terminus needs to send.
pub(super) struct Outlet<'a> {
    pub(super) link: &'a mut dyn Link,
    pub(super) packet_size: u32,
    pub(super) counters: &'a mut Counters,
    pub(super) tickets: &'a mut Tickets,
    pub(super) retractions: &'a mut Retractions,
}

/// The result of a terminus's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// It sent a packet of this many bytes, or refused a request (0).
    Worked(usize),
    /// The link has no room.
    LinkFull,
    /// The switch accepts nothing for this host.
    Stopped(u16),
    /// There is nothing to send.
    Idle,
}

/// Returns the offset of a terminus's window.
pub(super) fn window_of(terminus: u32) -> u64 {
    u64::from(terminus) * u64::from(HAMLYN_WINDOW_SIZE)
}

impl Terminus {
    /// Opens a terminus and clears its window of an earlier owner's data. Fails if the status words
    /// cannot be written, and then returns the place.
    pub(super) fn open(
        ports: &Ports<'_>,
        index: u32,
        body: &HamlynOpenTerminus,
        sleeper: Option<Sender>,
        place: Place,
    ) -> Result<Self, (DmaFault, Place)> {
        if let Err(fault) = write_value(ports.dma, body.status, HamlynTerminusStatus::new_zeroed()) {
            return Err((fault, place));
        }
        let at = window_of(index);
        ports.window(WINDOWS).clear(at, HAMLYN_WINDOW_SIZE.into());
        if let Some(sleeper) = sleeper {
            sleeper.disarm(ports);
        }
        Ok(Self {
            index,
            place,
            window: at,
            status: body.status,
            completed: 0,
            refused: 0,
            reasons: [HAMLYN_REASON_SENT; HAMLYN_WORK_QUEUE_ENTRIES as usize],
            buffers: SendBuffers::default(),
            outgoing: None,
            waiting: false,
            privilege: if body.flags & HAMLYN_TERMINUS_PRIVILEGED != 0 { PACKET_PRIVILEGED } else { 0 },
            sleeper,
            allowance: Allowance::new(body.weight),
        })
    }

    /// Closes the terminus. Returns its place in the SRAM.
    pub(super) fn into_place(self) -> Place {
        self.place
    }

    /// Returns whether a message is half sent or a request is posted. A terminus that waits for an
    /// answer has no work meanwhile.
    pub(super) fn has_work(&self, window: Mapped<'_>) -> bool {
        !self.waiting && (self.outgoing.is_some() || self.backlog(window) != 0)
    }

    /// Returns the number of requests that are posted and not finished.
    fn backlog(&self, window: Mapped<'_>) -> u32 {
        window.load(self.window + u64::from(HAMLYN_WINDOW_TAIL)).wrapping_sub(self.completed)
    }

    /// Sends the next packet of the current message, or takes the next request.
    pub(super) fn turn(&mut self, ports: &Ports<'_>, outlet: &mut Outlet<'_>) -> Served {
        if self.waiting {
            return Served::Idle;
        }
        if self.outgoing.is_none() {
            match self.backlog(ports.window(WINDOWS)) {
                0 => return Served::Idle,
                backlog if backlog > HAMLYN_WORK_QUEUE_USABLE => {
                    self.finish(ports, backlog, Err(Statistic::RefusedOverrun), outlet.counters);
                    return Served::Worked(0);
                }
                _ => {}
            }
            let entry = self.entry();
            let Outlet { packet_size, tickets, .. } = outlet;
            match Outgoing::take(
                ports.window(WINDOWS),
                entry,
                *packet_size,
                &self.buffers,
                tickets,
                self.privilege,
            ) {
                Ok(message) => self.outgoing = Some(message),
                Err(reason) => {
                    self.finish(ports, 1, Err(reason), outlet.counters);
                    return Served::Worked(0);
                }
            }
        }
        self.send_packet(ports, outlet)
    }

    fn send_packet(&mut self, ports: &Ports<'_>, outlet: &mut Outlet<'_>) -> Served {
        let Outlet { link, counters, tickets, retractions, .. } = outlet;
        let Some(message) = &mut self.outgoing else { return Served::Idle };
        if self.privilege == 0 && link.is_stopped(message.destination) {
            counters.add(Statistic::LinkStalls, 1);
            return Served::Stopped(message.destination);
        }
        let bytes = match message.send_packet(ports.dma, &self.buffers, *link) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                counters.add(Statistic::LinkStalls, 1);
                return Served::LinkFull;
            }
            Err(reason) => {
                retractions.add(message.retraction());
                self.outgoing = None;
                self.finish(ports, 1, Err(reason), counters);
                return Served::Worked(0);
            }
        };
        counters.add(Statistic::PacketsSent, 1);
        counters.add(Statistic::BytesSent, (bytes - HEADER_BYTES) as u64);
        if message.advance() {
            return Served::Worked(bytes);
        }
        if let Some(ticket) = message.fetch {
            self.waiting = true;
            tickets.wait(ticket, self.index, message.destination, ports.clock.now());
        }
        self.outgoing = None;
        if !self.waiting {
            self.finish(ports, 1, Ok(()), counters);
        }
        Served::Worked(bytes)
    }

    /// Returns the retraction of the current message's packets, if any were sent.
    pub(super) fn retraction(&self) -> Option<Retraction> {
        self.outgoing.as_ref()?.retraction()
    }

    /// Finishes a fetch-and-op with its answer, or with the reason why there is none.
    pub(super) fn fetched(
        &mut self,
        ports: &Ports<'_>,
        found: Result<u64, Statistic>,
        counters: &mut Counters,
    ) {
        self.waiting = false;
        if let Ok(mut word) = found {
            let entry = u64::from(self.completed % HAMLYN_WORK_QUEUE_ENTRIES);
            let address = self.status + offset_of!(HamlynTerminusStatus, fetched) as u64 + 8 * entry;
            // If this write fails, the status words that announce the answer cannot be written
            // either.
            let _ = ports.dma.write(address, VolatileSlice::from(word.as_mut_bytes()));
        }
        self.finish(ports, 1, found.map(drop), counters);
    }

    /// Returns the number of requests that would be abandoned if the terminus closed now.
    pub(super) fn unfinished(&self, window: Mapped<'_>) -> u32 {
        self.backlog(window).min(HAMLYN_WORK_QUEUE_USABLE)
    }

    /// Returns the offset of the work-queue entry that is taken next.
    fn entry(&self) -> u64 {
        let index = self.completed % HAMLYN_WORK_QUEUE_ENTRIES;
        self.window + u64::from(HAMLYN_WINDOW_WORK_QUEUE) + u64::from(index) * u64::from(HAMLYN_ENTRY_SIZE)
    }

    /// Reports `requests` more requests to the owner as finished: it may reuse their entries and
    /// buffers.
    fn finish(
        &mut self,
        ports: &Ports<'_>,
        requests: u32,
        result: Result<(), Statistic>,
        counters: &mut Counters,
    ) {
        counters.add(result.err().unwrap_or(Statistic::MessagesSent), 1);
        if let Err(fault) = self.tell(ports.dma, requests, result.err()) {
            // Only the owner is affected: its own memory is gone.
            tracing::debug!(%fault, "a terminus' status words are not there");
        }
        if let Some(sleeper) = self.sleeper {
            count_wake(counters, sleeper.wake_at(self.completed, ports));
        }
    }

    fn tell(&mut self, dma: &dyn Dma, requests: u32, refusal: Option<Statistic>) -> Result<(), DmaFault> {
        let reason = refusal.map_or(HAMLYN_REASON_SENT, |reason| reason as u32);
        let first = self.completed;
        self.completed = first.wrapping_add(requests);
        for request in 0..requests.min(HAMLYN_WORK_QUEUE_ENTRIES) {
            let entry = (first.wrapping_add(request) % HAMLYN_WORK_QUEUE_ENTRIES) as usize;
            if self.reasons[entry] != reason {
                self.reasons[entry] = reason;
                dma.publish(
                    self.status + (offset_of!(HamlynTerminusStatus, reasons) + 4 * entry) as u64,
                    reason,
                )?;
            }
        }
        if refusal.is_some() {
            self.refused = self.refused.wrapping_add(requests);
            dma.publish(self.status + offset_of!(HamlynTerminusStatus, refused) as u64, self.refused)?;
        }
        dma.publish(self.status + offset_of!(HamlynTerminusStatus, completed) as u64, self.completed)
    }
}
