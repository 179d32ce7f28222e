//! What an honest program sends with: a terminus, send buffers, and its requests in flight.

use std::collections::VecDeque;

use hamlyn::{
    Card, Error, ErrorKind, Fetch, Handle, Message, Piece, RefusedError, RequestBlock, SendBuffer, Share,
    Source, Terminus, Ticket,
};
use hamlyn_abi::hamlyn::request::{
    HAMLYN_BODY_SIZE, HAMLYN_REQUEST_DMA, HAMLYN_REQUEST_INTERRUPT, HAMLYN_REQUEST_SILENT, HamlynGather,
    HamlynRequest,
};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_USABLE;
use zerocopy::IntoBytes;

use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::fetches::Fetches;
use crate::hamlyn::ledger::{Delivery, Ledger, Part};
use crate::hamlyn::machine::Machine;

/// Maximum number of handles of finished requests that a program keeps.
const KEPT: usize = 8;

/// A piece of a program's send buffers: the buffer's index, and the piece's index in it.
type Chunk = (usize, usize);
/// Bytes of a chunk. Only one message uses a chunk at a time. One of the chunks crosses a page.
const CHUNK: usize = 500;
/// Chunks of a send buffer.
const CHUNKS: usize = 9;

/// A message's bytes in free pieces of send buffers: buffer, chunk, offset and length of each.
type Scattered = Vec<(usize, usize, usize, usize)>;

/// A message that waits for room in the work queue.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) part: usize,
    pub(super) ticket: Ticket,
    /// The share of the group that the ticket is for, if the library divided the group.
    pub(super) share: Option<Share>,
    /// It was sent before, and was received. This time it must not be received.
    pub(super) again: bool,
}

/// A message that was sent, to be sent again: its sender's host and process.
pub(super) type Again = (usize, u64, Errand);

/// A program's handle of a request.
#[derive(Debug)]
enum Request {
    /// A message or a blunder.
    Message(Handle),
    /// A fetch-and-op, with its number.
    Fetch(Fetch, usize),
    /// The program does not ask for the result.
    Forgotten,
}

/// A request that the program has not seen finished.
#[derive(Debug)]
struct InFlight {
    request: Request,
    /// Its position among the terminus's requests, from 1.
    position: u64,
    /// The message; `None` for a blunder or a fetch-and-op.
    part: Option<usize>,
    /// Pieces of send buffers that it occupies.
    chunks: Vec<Chunk>,
    /// The library prevents the program from writing to them meanwhile.
    guarded: bool,
    /// The expected reason for its refusal, if it must be refused.
    due: Option<Statistic>,
}

/// The actual state, whatever the library reports.
pub(super) struct Truth<'a> {
    /// Requests that the card has finished.
    pub(super) completed: u64,
    /// In milliseconds.
    pub(super) now: u64,
    pub(super) ledger: &'a mut Ledger,
    pub(super) fetches: &'a mut Fetches,
}

/// What a program sends with.
#[derive(Debug)]
pub(super) struct Outlet {
    buffers: Vec<SendBuffer>,
    free_chunks: Vec<Chunk>,
    terminus: Terminus,
    /// Requests posted.
    posted: u64,
    in_flight: VecDeque<InFlight>,
    /// Finished requests whose handles the program keeps.
    kept: Vec<InFlight>,
}

impl Outlet {
    /// Creates a terminus, and one or two send buffers.
    pub(super) fn create(card: &Card, rng: &mut Rng) -> Result<Self, Error> {
        let terminus = card.create_terminus_weighted(rng.range(1, 4))?;
        let buffers = (0..rng.range(1, 2))
            .map(|_| terminus.create_send_buffer(CHUNK * CHUNKS))
            .collect::<Result<Vec<_>, _>>()?;
        let chunks = (0..buffers.len()).flat_map(|buffer| (0..CHUNKS).map(move |chunk| (buffer, chunk)));
        let (free_chunks, in_flight, kept) = (chunks.collect(), VecDeque::new(), Vec::new());
        Ok(Self { buffers, free_chunks, terminus, posted: 0, in_flight, kept })
    }

    pub(super) fn terminus(&self) -> &Terminus {
        &self.terminus
    }

    pub(super) fn buffers(&self) -> &[SendBuffer] {
        &self.buffers
    }

    /// Returns the number of requests posted.
    pub(super) fn posted(&self) -> u64 {
        self.posted
    }

    /// Returns the number of requests that the program has not seen finished.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the messages of those requests; `None` for a blunder or a fetch-and-op.
    pub(super) fn parts_in_flight(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        self.in_flight.iter().map(|request| request.part)
    }

    /// Returns the number of entries of the work queue that are in use, from the card's view.
    pub(super) fn busy(&self, machine: &Machine) -> u64 {
        self.posted - u64::from(machine.completed(self.terminus.number()))
    }

    /// Notes that a fetch-and-op was posted.
    pub(super) fn fetches(&mut self, fetch: Fetch, record: usize) {
        self.posted += 1;
        self.in_flight.push_back(InFlight::new(Request::Fetch(fetch, record), self.posted));
    }

    /// Returns whether the work queue has no room, from the card's view.
    pub(super) fn is_full(&self, machine: &Machine) -> bool {
        self.busy(machine) >= u64::from(HAMLYN_WORK_QUEUE_USABLE)
    }

    /// Returns whether a fetch-and-op is one of its own.
    pub(super) fn asks(&self, record: usize) -> bool {
        let own =
            |request: &InFlight| matches!(request.request, Request::Fetch(_, number) if number == record);
        self.in_flight.iter().any(own)
    }

    /// Posts a message, in a random one of all possible ways. Returns `false` if no room is left
    /// for it. `busy` entries are in use.
    pub(super) fn post(
        &mut self,
        rng: &mut Rng,
        errand: &Errand,
        part: &Part,
        delivery: &Delivery,
        busy: u64,
    ) -> Result<bool, Violation> {
        let message = message_of(errand, part, delivery);
        let full = busy >= u64::from(HAMLYN_WORK_QUEUE_USABLE);
        let mut in_flight = InFlight::new(Request::Forgotten, self.posted + 1);
        in_flight.part = (!errand.again).then_some(errand.part);
        let short = part.data.len() <= message.direct_limit();
        let posted = if short && (rng.percent(40) || self.free_chunks.len() < 4) {
            self.terminus.try_send(&message, part.data.as_slice())
        } else if !full && rng.percent(15) {
            let Some(scattered) = self.scatter(rng, &[part.metadata.as_slice(), &part.data].concat())? else {
                return Ok(false);
            };
            in_flight.chunks = chunks(&scattered);
            self.terminus.post(&self.raw_request(errand, part, delivery, &scattered)?)
        } else {
            let Some(scattered) = self.scatter(rng, &part.data)? else { return Ok(false) };
            in_flight.chunks = chunks(&scattered);
            let pieces = self.pieces(&scattered)?;
            match pieces.as_slice() {
                [piece] if rng.percent(50) => {
                    in_flight.guarded = piece.len() > message.direct_limit();
                    self.terminus.try_send(&message, *piece)
                }
                pieces => {
                    in_flight.guarded = true;
                    self.terminus.try_send(&message, Source::Gather(pieces))
                }
            }
        };
        self.note(rng, posted, in_flight, full)
    }

    /// Notes the library's answer to a request.
    fn note(
        &mut self,
        rng: &mut Rng,
        posted: Result<Handle, Error>,
        mut in_flight: InFlight,
        full: bool,
    ) -> Result<bool, Violation> {
        let blocked = matches!(&posted, Err(error) if error.is_would_block());
        ensure(blocked == full, || {
            let posted = posted.as_ref().map(Handle::request);
            format!(
                "posting gives {posted:?}, while the work queue is {}full",
                if full { "" } else { "not " }
            )
        })?;
        if blocked {
            self.free_chunks.append(&mut in_flight.chunks);
            return Ok(false);
        }
        let handle = posted.map_err(Violation::new)?;
        ensure(handle.request() == in_flight.position, || {
            format!("request {} has position {}", in_flight.position, handle.request())
        })?;
        self.posted += 1;
        // The program does not query the result of some requests. Then it checks their buffers
        // instead.
        if rng.percent(85) {
            in_flight.request = Request::Message(handle);
        }
        self.in_flight.push_back(in_flight);
        Ok(true)
    }

    /// Posts a request that must be refused for a reason. Returns `false` if no room is left.
    pub(super) fn post_wrong(
        &mut self,
        rng: &mut Rng,
        request: &HamlynRequest,
        tuple: HamlynGather,
        due: Statistic,
        busy: u64,
    ) -> Result<bool, Violation> {
        // This call would wait for room.
        if busy >= u64::from(HAMLYN_WORK_QUEUE_USABLE) {
            return Ok(false);
        }
        let block = RequestBlock::raw(request, tuple.as_bytes()).map_err(Violation::new)?;
        let mut in_flight = InFlight::new(Request::Forgotten, self.posted + 1);
        in_flight.due = Some(due);
        let posted = self.terminus.post(&block);
        self.note(rng, posted, in_flight, false)
    }

    /// Returns the request as a program would write it that bypasses most of the library: its
    /// metadata is gathered, too.
    fn raw_request(
        &self,
        errand: &Errand,
        part: &Part,
        delivery: &Delivery,
        scattered: &Scattered,
    ) -> Result<RequestBlock, Violation> {
        let ticket = &errand.ticket;
        let mut flags = HAMLYN_REQUEST_DMA | ticket.flags.bits();
        flags |= if delivery.silent { HAMLYN_REQUEST_SILENT } else { 0 };
        flags |= if delivery.interrupt { HAMLYN_REQUEST_INTERRUPT } else { 0 };
        let head = HamlynRequest {
            destination: ticket.destination,
            slot: ticket.slot,
            metadata_index: ticket.metadata_index,
            flags,
            key: ticket.key,
            offset: part.offset,
            length: part.data.len() as u32,
            delta: part.y,
            metadata_length: part.metadata.len() as u32,
            gather_count: scattered.len() as u32,
            ..HamlynRequest::default()
        };
        let tuple = |(buffer, _, offset, length): &(usize, usize, usize, usize)| HamlynGather {
            tag: self.buffers[*buffer].tag(),
            reserved: 0,
            offset: *offset as u32,
            length: *length as u32,
        };
        let mut body: Vec<u8> = scattered.iter().flat_map(|piece| tuple(piece).as_bytes().to_vec()).collect();
        // Bytes after the tuples have no meaning.
        body.resize(body.len().min(HAMLYN_BODY_SIZE as usize - 16) + 16, 0x5a);
        RequestBlock::raw(&head, &body).map_err(Violation::new)
    }

    fn pieces(&self, scattered: &Scattered) -> Result<Vec<Piece<'_>>, Violation> {
        let pieces =
            scattered.iter().map(|(buffer, _, offset, length)| self.buffers[*buffer].piece(*offset, *length));
        pieces.collect::<Result<_, _>>().map_err(Violation::new)
    }

    /// Writes bytes to free chunks of the send buffers, in random lengths. Returns `None` if too
    /// few are free.
    fn scatter(&mut self, rng: &mut Rng, mut bytes: &[u8]) -> Result<Option<Scattered>, Violation> {
        if self.free_chunks.len() < bytes.len().div_ceil(CHUNK) + 2 {
            return Ok(None);
        }
        let mut scattered = Vec::new();
        while !bytes.is_empty() {
            let (buffer, chunk) = self.free_chunks.swap_remove(rng.index(self.free_chunks.len()));
            // The first pieces may be short. The others are as long as possible, so that everything
            // fits into the counted chunks.
            let most = bytes.len().min(CHUNK);
            let length = if scattered.len() < 2 && rng.percent(50) { 1 + rng.index(most) } else { most };
            let offset = chunk * CHUNK + rng.index(CHUNK - length + 1);
            let (here, rest) = bytes.split_at(length);
            self.buffers[buffer].write(offset, here).map_err(Violation::new)?;
            scattered.push((buffer, chunk, offset, length));
            bytes = rest;
        }
        Ok(Some(scattered))
    }

    /// Checks each request, the oldest first, until one is not finished. The library's reports must
    /// be true.
    pub(super) fn collect(&mut self, rng: &mut Rng, truth: &mut Truth<'_>) -> Result<bool, Violation> {
        let completed = truth.completed;
        if !self.in_flight.is_empty() {
            let any = rng.index(self.in_flight.len());
            self.in_flight[any].check(truth)?;
            self.overwrite(rng, any, completed)?;
        }
        let mut busy = false;
        while let Some(mut request) = self.in_flight.pop_front() {
            let done = match &request.request {
                Request::Forgotten => self.free(rng, &mut request, completed)?,
                _ => request.check(truth)?,
            };
            if !done {
                self.in_flight.push_front(request);
                break;
            }
            busy = true;
            self.free(rng, &mut request, completed)?;
            if let Some(part) = request.part {
                truth.ledger.parts[part].sent = true;
            }
            if rng.percent(10) {
                self.kept.push(request);
            }
        }
        self.kept.iter().try_for_each(|request| request.check(truth).map(drop))?;
        if self.kept.len() > KEPT {
            self.kept.remove(rng.index(KEPT));
        }
        Ok(busy)
    }

    /// Tries to write to memory that a request may still gather from. The library must prevent it.
    fn overwrite(&mut self, rng: &mut Rng, index: usize, completed: u64) -> Result<(), Violation> {
        let InFlight { chunks, guarded, position, .. } = &self.in_flight[index];
        let (true, Some((buffer, chunk))) = (*guarded, rng.pick(chunks)) else { return Ok(()) };
        let written = self.buffers[buffer].write(chunk * CHUNK, &rng.bytes(CHUNK));
        let kept = written.as_ref().is_err_and(|error| error.kind() == ErrorKind::InFlight);
        ensure(kept == (*position > completed), || {
            format!("writing to a piece of request {position} gives {written:?}; {completed} are finished")
        })
    }

    /// Overwrites the chunks of a request. Returns `false` if it still gathers from one of them.
    fn free(&mut self, rng: &mut Rng, request: &mut InFlight, completed: u64) -> Result<bool, Violation> {
        let InFlight { position, chunks, guarded, .. } = request;
        if !*guarded && *position > completed {
            return Ok(false);
        }
        while let Some((buffer, chunk)) = chunks.pop() {
            match self.buffers[buffer].write(chunk * CHUNK, &rng.bytes(CHUNK)) {
                Ok(()) => self.free_chunks.push((buffer, chunk)),
                Err(error) if error.kind() == ErrorKind::InFlight && *position > completed => {
                    chunks.push((buffer, chunk));
                    return Ok(false);
                }
                Err(error) => return Err(Violation::new(error)),
            }
        }
        Ok(*position <= completed)
    }
}

impl InFlight {
    fn new(request: Request, position: u64) -> Self {
        Self { request, position, part: None, chunks: Vec::new(), guarded: false, due: None }
    }

    /// Checks the library's report on a request. Returns whether the request is finished.
    fn check(&self, truth: &mut Truth<'_>) -> Result<bool, Violation> {
        let (completed, done) = (truth.completed, self.position <= truth.completed);
        let says = match &self.request {
            Request::Message(handle) => handle.is_complete(),
            Request::Fetch(fetch, number) => {
                truth.fetches.check(*number, &fetch.value(), done, truth.now)?;
                return Ok(done);
            }
            Request::Forgotten => return Ok(done),
        };
        let right = match (&says, self.due) {
            (Ok(complete), None) => *complete == done,
            (Ok(complete), Some(_)) => !complete && !done,
            (Err(error), due) => error
                .of::<RefusedError>()
                .is_some_and(|refused| done && refused.request == self.position && refused.reason == due),
        };
        ensure(right, || {
            format!(
                "request {} is said to be {says:?}; {completed} are finished, and it must end with {:?}",
                self.position, self.due
            )
        })?;
        Ok(done)
    }
}

fn chunks(scattered: &Scattered) -> Vec<Chunk> {
    scattered.iter().map(|(buffer, chunk, ..)| (*buffer, *chunk)).collect()
}

/// Returns the message to be sent, without its data.
fn message_of<'a>(errand: &'a Errand, part: &'a Part, delivery: &Delivery) -> Message<'a> {
    let ticket = &errand.ticket;
    let message = match &errand.share {
        Some(share) => share.message(),
        None if ticket.is_fast() => Message::to(ticket).word(part.y),
        None => Message::to(ticket).delta(part.y),
    };
    let mut message = message.metadata(&part.metadata).offset(part.offset - ticket.base);
    // Set the flags that the ticket does not set already.
    if delivery.silent && ticket.flags.bits() & HAMLYN_REQUEST_SILENT == 0 {
        message = message.silent();
    }
    if delivery.interrupt && ticket.flags.bits() & HAMLYN_REQUEST_INTERRUPT == 0 {
        message = message.interrupt();
    }
    message
}
