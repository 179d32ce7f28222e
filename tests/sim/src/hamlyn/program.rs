//! An honest program, with its objects of the library.

use std::collections::VecDeque;
use std::sync::Arc;

use hamlyn::{
    Card, Error, Fetch, Handle, Mode, NotificationQueue, SendBuffer, Share, Slot, SlotBuilder, Terminus,
    Ticket,
};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_USABLE;

use crate::engine::rng::Rng;
use crate::hamlyn::attachment::SimAttachment;
use crate::hamlyn::fetches::Word;
use crate::hamlyn::ledger::Place;
use crate::hamlyn::machine::Machine;

/// A piece of a program's send buffers: the buffer's index, and the piece's index in it.
pub(crate) type Chunk = (usize, usize);
/// Bytes of a chunk. Only one message uses a chunk at a time. One of the chunks crosses a page.
pub(crate) const CHUNK: usize = 500;
/// Bytes of a word.
const WORD: u32 = 8;
/// Chunks of a send buffer.
const CHUNKS: usize = 9;

/// A message that waits for room in the work queue.
#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) part: usize,
    pub(crate) ticket: Ticket,
    /// The share of the group that the ticket is for, if the library divided the group.
    pub(crate) share: Option<Share>,
    /// It was sent before, and was received. This time it must not be received.
    pub(crate) again: bool,
}

/// A program's handle of a request.
#[derive(Debug)]
pub(crate) enum Request {
    /// A message or a blunder.
    Message(Handle),
    /// A fetch-and-op, with its number.
    Fetch(Fetch, usize),
    /// The program does not ask for the result.
    Forgotten,
}

/// A request that the program has not seen finished.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) request: Request,
    /// Its position among the terminus's requests, from 1.
    pub(crate) position: u64,
    /// The message; `None` for a blunder or a fetch-and-op.
    pub(crate) part: Option<usize>,
    /// Pieces of send buffers that it occupies.
    pub(crate) chunks: Vec<Chunk>,
    /// The library prevents the program from writing to them meanwhile.
    pub(crate) guarded: bool,
    /// The expected reason for its refusal, if it must be refused.
    pub(crate) due: Option<Statistic>,
}

/// What a program offers to others.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    /// Places for messages.
    pub(crate) places: Vec<Place>,
    /// Words for fetch-and-ops.
    pub(crate) words: Vec<Word>,
}

impl InFlight {
    pub(crate) fn new(request: Request, position: u64) -> Self {
        Self { request, position, part: None, chunks: Vec::new(), guarded: false, due: None }
    }
}

/// A program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) slots: Vec<Slot>,
    pub(crate) queue: NotificationQueue,
    /// Notifications read.
    pub(crate) read: u64,
    pub(crate) buffers: Vec<SendBuffer>,
    pub(crate) free_chunks: Vec<Chunk>,
    pub(crate) terminus: Terminus,
    /// Requests posted.
    pub(crate) posted: u64,
    pub(crate) in_flight: VecDeque<InFlight>,
    /// It sleeps until this number of its requests are finished.
    pub(crate) dozes: Option<u64>,
    /// Finished requests whose handles the program keeps.
    pub(crate) kept: Vec<InFlight>,
    pub(crate) outbox: VecDeque<Errand>,
    /// Every message to it asks for an interrupt, so it may sleep.
    pub(crate) interrupting: bool,
}

impl Program {
    /// Starts a program with all its objects of the card. The offer is for all other programs.
    pub(crate) fn start(machine: &Arc<Machine>, rng: &mut Rng, pid: u64) -> Result<(Self, Offer), Error> {
        let card = Card::attached(Arc::new(SimAttachment::new(machine.clone(), pid)));
        let terminus = card.create_terminus_weighted(rng.range(1, 4))?;
        let buffers = (0..rng.range(1, 2))
            .map(|_| terminus.create_send_buffer(CHUNK * CHUNKS))
            .collect::<Result<Vec<_>, _>>()?;
        let chunks = (0..buffers.len()).flat_map(|buffer| (0..CHUNKS).map(move |chunk| (buffer, chunk)));
        // A receiver has at most 16 places, and so no more messages in flight. Some receivers have
        // too few entries nevertheless (section 2.6).
        let entries = if rng.percent(85) { rng.range(17, 20) } else { rng.range(2, 4) };
        let queue = card.create_queue(entries)?;
        let mut program = Self {
            slots: Vec::new(),
            queue,
            read: 0,
            free_chunks: chunks.collect(),
            buffers,
            terminus,
            posted: 0,
            in_flight: VecDeque::new(),
            dozes: None,
            kept: Vec::new(),
            outbox: VecDeque::new(),
            interrupting: rng.percent(40),
        };
        let mut offer = Offer::default();
        for _ in 0..rng.range(1, 2) {
            program.open_slots(&card, machine, rng, &mut offer)?;
        }
        offer.places.iter_mut().for_each(|place| (place.host, place.pid) = (machine.id.into(), pid));
        offer.words.iter_mut().for_each(|word| (word.host, word.pid) = (machine.id.into(), pid));
        Ok((program, offer))
    }

    /// Opens one message area, and one or two slots over it or its end.
    fn open_slots(
        &mut self,
        card: &Card,
        machine: &Machine,
        rng: &mut Rng,
        offer: &mut Offer,
    ) -> Result<(), Error> {
        let slots: Vec<(u32, u32)> =
            (0..rng.range(1, 2)).map(|_| (rng.range(1, 3), rng.range(0, 1))).collect();
        let region = rng.range(300, 2600);
        let regions: u32 = slots.iter().map(|(entries, fast)| entries + fast).sum();
        let mut start = rng.range(0, 4095);
        let room_for_words = slots.len() as u32 * (2 * WORD + 7);
        let area =
            card.create_area((start + room_for_words + regions * region + rng.range(0, 200)) as usize)?;
        for (entries, fast) in slots {
            if !machine.tables().have_slot() {
                return Ok(());
            }
            let modes = [Mode::Normal, Mode::Normal, Mode::Paranoid, Mode::ParanoidOneShot];
            let mode = rng.pick(&modes).unwrap_or_default();
            // Words need an area that starts at a multiple of 8.
            let words = rng.percent(50);
            let first = rng.range(0, start) & if words && rng.percent(90) { !7 } else { !0 };
            let described = card.slot(&area).range(first as usize..area.len()).mode(mode);
            // Some programs offer words but do not allow fetch-and-ops on them.
            let described = if words && rng.percent(90) { described.allow_fetch() } else { described };
            let slot = self.open_slot(described, rng, entries + u32::from(words))?;
            // An entry opens nothing until a message is expected.
            for entry in (0..entries).filter(|_| mode != Mode::Normal) {
                slot.metadata(entry)?.protect(rng.next(), 0..0)?;
            }
            if words {
                let at = (start - first).next_multiple_of(WORD);
                offer_words(&slot, mode, rng.next(), entries, at, offer)?;
                start = first + at + 2 * WORD;
            }
            // Fast mode needs a slot in normal mode.
            let fast_places = (0..fast).filter(|_| mode == Mode::Normal).map(|_| None);
            for entry in (0..entries).map(Some).chain(fast_places) {
                offer.places.push(Place::new(slot.number(), entry, start - first, region));
                start += region;
            }
            self.slots.push(slot);
        }
        Ok(())
    }

    fn open_slot(&self, described: SlotBuilder<'_>, rng: &mut Rng, entries: u32) -> Result<Slot, Error> {
        described
            .metadata_entries(entries)
            .queue(&self.queue)
            .notification_index(rng.next() as u32)
            .interrupt(self.interrupting && rng.percent(50))
            .create()
    }

    /// Returns whether the work queue has no room, from the card's view.
    pub(crate) fn is_full(&self, machine: &Machine) -> bool {
        let completed = machine.completed(self.terminus.number());
        self.posted - u64::from(completed) >= u64::from(HAMLYN_WORK_QUEUE_USABLE)
    }

    /// Returns whether a fetch-and-op is one of its own.
    pub(crate) fn asks(&self, record: usize) -> bool {
        let own =
            |request: &InFlight| matches!(request.request, Request::Fetch(_, number) if number == record);
        self.in_flight.iter().any(own)
    }

    /// Returns the slot with a number.
    pub(crate) fn slot(&self, number: u32) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.number() == number)
    }
}

/// Offers two words, with an entry of their own.
fn offer_words(
    slot: &Slot,
    mode: Mode,
    key: u64,
    entry: u32,
    at: u32,
    offer: &mut Offer,
) -> Result<(), Error> {
    if mode != Mode::Normal {
        slot.metadata(entry)?.protect(key, at.into()..(at + 2 * WORD).into())?;
    }
    offer.words.push(Word::new(slot.number(), entry, at, true));
    offer.words.push(Word::new(slot.number(), entry, at + WORD, false));
    Ok(())
}
