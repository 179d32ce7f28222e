//! An honest program, with its objects of the library.

use std::collections::VecDeque;
use std::sync::Arc;

use hamlyn::{Card, Error, Mode, NotificationQueue, Slot, SlotBuilder};

use crate::engine::rng::Rng;
use crate::hamlyn::attachment::SimAttachment;
use crate::hamlyn::fetches::Word;
use crate::hamlyn::ledger::Place;
use crate::hamlyn::machine::Machine;
use crate::hamlyn::outlet::{Errand, Outlet};

/// Bytes of a word.
const WORD: u32 = 8;
/// What a program offers to others.
#[derive(Debug, Default)]
pub(super) struct Offer {
    /// Places for messages.
    pub(super) places: Vec<Place>,
    /// Words for fetch-and-ops.
    pub(super) words: Vec<Word>,
}

/// A program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) slots: Vec<Slot>,
    pub(super) queue: NotificationQueue,
    /// Notifications read.
    pub(super) read: u64,
    pub(super) outlet: Outlet,
    /// It sleeps until this number of its requests are finished.
    pub(super) dozes: Option<u64>,
    pub(super) outbox: VecDeque<Errand>,
    /// Every message to it asks for an interrupt, so it may sleep.
    pub(super) interrupting: bool,
}

impl Program {
    /// Starts a program with all its objects of the card. The offer is for all other programs.
    pub(super) fn start(machine: &Arc<Machine>, rng: &mut Rng, pid: u64) -> Result<(Self, Offer), Error> {
        let card = Card::attached(Arc::new(SimAttachment::new(machine.clone(), pid)));
        let outlet = Outlet::create(&card, rng)?;
        // A receiver has at most 16 places, and so no more messages in flight. Some receivers have
        // too few entries nevertheless (section 2.6).
        let entries = if rng.percent(85) { rng.range(17, 20) } else { rng.range(2, 4) };
        let queue = card.create_queue(entries)?;
        let mut program = Self {
            slots: Vec::new(),
            queue,
            read: 0,
            outlet,
            dozes: None,
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

    /// Returns the slot with a number.
    pub(super) fn slot(&self, number: u32) -> Option<&Slot> {
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
