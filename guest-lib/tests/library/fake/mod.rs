//! A card in memory, accessed like a driver. It works whenever its doorbell rings, and is never
//! awake otherwise.
//!
//! It supports direct I/O and DMA to its own slots, fast mode, packet counting, fetch-and-op, and
//! the refusals that the tests need. It has no packets: each message arrives as a whole.

use std::io::Write;
use std::sync::{Arc, Mutex, Weak};

use hamlyn::attach::Attachment;
use hamlyn_abi::uapi::*;
use hamlyn_sys::Mapping;
use zerocopy::FromZeros;

use self::card::Card;

mod attachment;
mod card;
mod connection;
pub(crate) mod express;
mod sleeper;

/// The fake card's host id.
pub(crate) const HOST: u32 = 5;

#[derive(Debug, Default)]
pub(crate) struct Fake(Arc<Mutex<Card>>, Seat);

/// The card's host: this one or the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Seat {
    #[default]
    Here,
    There,
}

impl Fake {
    /// Sets whether the card leaves requests in the queue.
    pub(crate) fn hold(&self, held: bool) {
        let mut card = self.0.lock().unwrap();
        card.held = held;
        if !held {
            card.work();
        }
    }

    /// Takes this many requests, and then is held.
    pub(crate) fn take(&self, requests: u32) {
        let mut card = self.0.lock().unwrap();
        (card.held, card.budget) = (false, Some(requests));
        card.work();
    }

    /// Returns the number of sleeps until requests are completed.
    pub(crate) fn sleeps(&self) -> u32 {
        self.0.lock().unwrap().sleeps
    }

    /// Makes its driver wake no waiter for completions from now on.
    pub(crate) fn grow_old(&self) {
        self.0.lock().unwrap().is_old = true;
    }

    pub(crate) fn settled(&self) -> u32 {
        self.0.lock().unwrap().settled
    }

    pub(crate) fn rings(&self) -> u32 {
        self.0.lock().unwrap().rings
    }

    /// Returns the weights of all termini ever created.
    pub(crate) fn weights(&self) -> Vec<u32> {
        self.0.lock().unwrap().weights.clone()
    }

    /// Writes notifications of no slot into every queue, which no real card does.
    pub(crate) fn babble(&self, count: u32) {
        let mut card = self.0.lock().unwrap();
        let nobody =
            HamlynSlotCreate { slot: u32::MAX, notification_index: u32::MAX, ..FromZeros::new_zeroed() };
        for queue in card.queues.keys().copied().collect::<Vec<_>>() {
            (0..count).for_each(|_| card.notify(&HamlynSlotCreate { queue, ..nobody }, 0, 0));
        }
    }

    /// Delays messages from now on until [`Fake::land`] is called.
    pub(crate) fn delay(&self) {
        self.0.lock().unwrap().flying = Some(Vec::new());
    }

    /// Delivers one of the messages in flight, selected by `choice`. Returns whether there was one.
    pub(crate) fn land(&self, choice: usize) -> bool {
        let mut card = self.0.lock().unwrap();
        let flying = card.flying.as_mut().unwrap();
        if flying.is_empty() {
            return false;
        }
        let (head, metadata, data) = flying.swap_remove(choice % flying.len());
        card.deposit(&head, &metadata, &data);
        true
    }

    /// Sets the number of ports, and enables questions. The given hosts answer them at once
    /// (`ULN_END_*`), the others never.
    pub(crate) fn say(&self, ports: u32, answers: &[(u32, u32)]) {
        let mut card = self.0.lock().unwrap();
        (card.ports, card.answers) = (ports, Some(answers.iter().copied().collect()));
    }

    /// Makes hosts answer at once that they have no listener of a name.
    pub(crate) fn refuse(&self) {
        self.0.lock().unwrap().refuses = true;
    }

    /// Returns the number of pending requests for a name.
    pub(crate) fn requests(&self, name: &str) -> usize {
        self.0.lock().unwrap().names[name].0.len()
    }

    /// Sets a host's answer to all that have asked it: 0 accepts, any other value is the reason
    /// (`ULN_END_*`).
    pub(crate) fn answer(&self, host: u32, reason: u32) {
        for asked in self.0.lock().unwrap().asked.get(&host).into_iter().flatten().filter_map(Weak::upgrade) {
            let mut asked = asked.lock().unwrap();
            asked.state = if reason == 0 { ULN_CONNECTION_ESTABLISHED } else { ULN_CONNECTION_ENDED };
            asked.reason = reason;
            asked.theirs.write_all(b"news").unwrap();
        }
    }

    /// Returns the number of open requests for a connection to a host, and the total number.
    pub(crate) fn asked(&self, host: u32) -> (usize, usize) {
        let card = self.0.lock().unwrap();
        let asked = card.asked.get(&host).map_or(&[][..], Vec::as_slice);
        (asked.iter().filter(|asked| asked.strong_count() > 0).count(), asked.len())
    }

    /// Fails the next attempt to lend memory.
    pub(crate) fn refuse_to_lend(&self) {
        self.0.lock().unwrap().refuses_to_lend = true;
    }

    /// Makes the driver too old for registrations.
    pub(crate) fn refuse_to_register(&self) {
        self.0.lock().unwrap().refuses_to_register = true;
    }

    /// Returns the numbers of all registrations.
    pub(crate) fn registered(&self) -> Vec<u32> {
        self.0.lock().unwrap().registered.iter().copied().collect()
    }

    /// Returns each slot's number, and that of its registration.
    pub(crate) fn slot_registrations(&self) -> Vec<(u32, u32)> {
        self.0.lock().unwrap().slots.iter().map(|(number, slot)| (*number, slot.registration)).collect()
    }

    /// Returns the number of the registration of each send buffer.
    pub(crate) fn buffer_registrations(&self) -> Vec<u32> {
        let card = self.0.lock().unwrap();
        card.termini
            .values()
            .flat_map(|terminus| terminus.buffers.values().map(|buffer| buffer.registration))
            .collect()
    }

    pub(crate) fn cut_link(&self) {
        self.0.lock().unwrap().link_down = true;
    }

    /// Returns the numbers of open objects: termini, queues, slots.
    pub(crate) fn open(&self) -> (usize, usize, usize) {
        let card = self.0.lock().unwrap();
        (card.termini.len(), card.queues.len(), card.slots.len())
    }

    /// Returns another handle to the same card.
    pub(crate) fn share(&self) -> Arc<dyn Attachment> {
        Arc::new(Fake(self.0.clone(), self.1))
    }

    /// Returns the other host's card, which is the same one.
    pub(crate) fn other(&self) -> Arc<dyn Attachment> {
        Arc::new(Fake(self.0.clone(), Seat::There))
    }

    /// Gives express memory to both hosts; with `other`, each gets that of another switch.
    pub(crate) fn give_express(&self, other: bool) {
        let mut card = self.0.lock().unwrap();
        (card.has_express, card.other_memory) = (true, other);
    }

    /// Returns the area that this host's only channel receives in, as mapped by the other host.
    pub(crate) fn area(&self) -> Arc<Mapping> {
        let card = self.0.lock().unwrap();
        card.areas.values().find(|area| area.maker == self.host()).expect("a channel").memory.clone()
    }

    /// Returns the areas that both hosts' channels receive in.
    pub(crate) fn all_areas(&self) -> Vec<Arc<Mapping>> {
        self.0.lock().unwrap().areas.values().map(|area| area.memory.clone()).collect()
    }

    /// Returns the number of areas.
    pub(crate) fn areas(&self) -> usize {
        self.0.lock().unwrap().areas.len()
    }

    fn host(&self) -> u32 {
        if self.1 == Seat::Here { HOST } else { express::OTHER }
    }
}
