//! Sending by programs.

use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_USABLE;

use crate::engine::violation::Violation;
use crate::hamlyn::around::Around;
use crate::hamlyn::fetches::Fetches;
use crate::hamlyn::ledger::Ledger;
use crate::hamlyn::outlet::{Errand, Truth};
use crate::hamlyn::program::Program;
use crate::hamlyn::tally::Tally;

/// Posts the messages of programs, and takes note of finished requests.
pub(super) struct Poster<'a> {
    pub(super) around: Around<'a>,
    pub(super) ledger: &'a mut Ledger,
    pub(super) fetches: &'a mut Fetches,
    pub(super) tally: &'a mut Tally,
}

impl Poster<'_> {
    /// Posts the next waiting message, if there is room for it.
    pub(super) fn post_next(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let machine = self.around.hosts[host].machine.clone();
        let awake = |program: &&mut Program| program.dozes.is_none();
        let Some(program) = self.around.hosts[host].program_mut(process).filter(awake) else {
            return Ok(false);
        };
        let Some(errand) = program.outbox.pop_front() else { return Ok(false) };
        let Errand { part: number, ticket, .. } = errand;
        let part = &self.ledger.parts[number];
        let delivery = &self.ledger.deliveries[part.delivery];
        let busy = program.outlet.busy(&machine);
        let posted = program.outlet.post(self.around.rng, &errand, part, delivery, busy)?;
        if !posted {
            self.tally.blocked += u64::from(busy >= u64::from(HAMLYN_WORK_QUEUE_USABLE));
            program.outbox.push_front(errand);
            return Ok(false);
        }
        self.around.note(|| {
            format!("host {host} process {process} posts part {number} to host {}", ticket.destination)
        });
        Ok(true)
    }

    /// Takes note of the requests that are finished, and overwrites their buffers at once.
    pub(super) fn collect(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let at = &mut self.around.hosts[host];
        let awake = |program: &&mut Program| program.dozes.is_none();
        let Some(program) = at.processes[process].program_mut().filter(awake) else { return Ok(false) };
        let mut truth = Truth {
            completed: u64::from(at.machine.completed(program.outlet.terminus().number())),
            now: at.machine.clock.milliseconds(),
            ledger: self.ledger,
            fetches: self.fetches,
        };
        let outlet = &mut program.outlet;
        outlet
            .collect(self.around.rng, &mut truth)
            .map_err(|violation| Violation::new(format!("host {host} process {process}: {violation}")))
    }
}

impl Program {
    /// Posts a message, in a random one of all possible ways. Returns `false` if no room is left
    /// for it. `busy` entries are in use.
    fn post(
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
        self.posted(rng, posted, in_flight, full)
    }

    /// Notes the library's answer to a request.
    fn posted(
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
    pub(crate) fn post_wrong(
        &mut self,
        rng: &mut Rng,
        request: &HamlynRequest,
        tuple: HamlynGather,
        due: hamlyn::Statistic,
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
        self.posted(rng, posted, in_flight, false)
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
    fn collect(&mut self, rng: &mut Rng, truth: &mut Truth<'_>) -> Result<bool, Violation> {
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
        let kept = matches!(written, Err(Error::InFlight { .. }));
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
                Err(Error::InFlight { .. }) if *position > completed => {
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
            (Err(Error::Refused { request, reason }), due) => {
                done && *request == self.position && *reason == due
            }
            (Err(_), _) => false,
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
