//! An endpoint's registers: the words in memory shared with the card, and those through which the
//! owner commands the card.

use std::sync::Arc;

use hamlyn_abi::clan::dma::{CLAN_REQUEST_SIZE, ClanRequest};
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::tripwire::*;
use hamlyn_abi::clan::uapi::ClanMessage;
use hamlyn_sys::{Mapping, barrier};
use zerocopy::{FromBytes, IntoBytes};

use super::fault::Fault;

/// Maximum number of attempts to read the words of a fault while the card writes others.
const ATTEMPTS: u32 = 8;

/// Returns the bits that are set in the bitmap of an endpoint's memory.
#[cfg(test)]
pub(crate) fn bits_of(memory: &Mapping) -> u64 {
    let words = |at: u32| memory.load_u64(at as usize);
    words(CLAN_STATE_BITS) ^ words(CLAN_STATE_CLEARED)
}

/// The memory that an endpoint shares with the card, and its page of the card. Each function reads
/// a word once, because the card may change it at any time.
#[derive(Debug)]
pub(crate) struct State {
    memory: Arc<Mapping>,
    page: Arc<Mapping>,
    /// Capacity of the DMA queue, in requests.
    requests: u32,
}

impl State {
    pub(crate) fn new(memory: Arc<Mapping>, page: Arc<Mapping>, requests: u32) -> Self {
        Self { memory, page, requests }
    }

    /// Clears bits, and keeps later loads from moving before that. A caller that then checks what
    /// the bits stand for and sleeps on them does not lose a wake-up.
    pub(crate) fn clear(&self, bits: u64) {
        for (word, bits) in [(0, bits as u32), (4, (bits >> 32) as u32)] {
            self.clear_word(word, bits);
        }
        barrier::before_sleep_check();
    }

    /// Clears bits of one word of the bitmap. Other threads may clear other bits of it
    /// concurrently.
    fn clear_word(&self, word: u32, bits: u32) {
        let (card, own) = ((CLAN_STATE_BITS + word) as usize, (CLAN_STATE_CLEARED + word) as usize);
        let mut before = self.memory.load_u32(own);
        loop {
            let after = before & !bits | self.memory.load_u32(card) & bits;
            if after == before {
                return;
            }
            match self.memory.compare_exchange_u32(own, before, after) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    /// Begins another use of the endpoint.
    pub(crate) fn begin_use(&self, number: u32) {
        self.page.store_u32_release(CLAN_ENDPOINT_USE as usize, number);
    }

    /// Sets which events the owner wants besides those of Tripwires.
    pub(crate) fn set_interest(&self, interest: u32) {
        self.page.store_u32_release(CLAN_ENDPOINT_INTEREST as usize, interest);
    }

    /// Returns the number of faults, and the last fault if it belongs to this use of the endpoint.
    /// If its words change on every attempt to read them, the reason is unknown.
    pub(crate) fn fault(&self, used_as: u32) -> (u32, Option<Fault>) {
        let word = |at: u32| self.memory.load_u32_acquire(at as usize);
        let mut count = word(CLAN_STATE_FAULTS);
        for _ in 0..ATTEMPTS {
            let fault = Fault::new(
                word(CLAN_STATE_FAULT_REASON),
                word(CLAN_STATE_FAULT_HOST),
                word(CLAN_STATE_FAULT_APERTURE),
                self.memory.load_word(CLAN_STATE_FAULT_OFFSET as usize),
            );
            let is_of_use = word(CLAN_STATE_FAULT_USE) == used_as;
            if word(CLAN_STATE_FAULTS_BEGUN) == count {
                return (count, Some(fault).filter(|_| count != 0 && is_of_use));
            }
            count = word(CLAN_STATE_FAULTS);
        }
        (count, (count != 0).then(|| Fault::new(0, 0, 0, 0)))
    }

    pub(crate) fn faults(&self) -> u32 {
        self.memory.load_u32_acquire(CLAN_STATE_FAULTS as usize)
    }

    /// Returns how often a Tripwire fired, modulo 2^32.
    pub(crate) fn fired(&self, tripwire: u32) -> u32 {
        self.memory.load_u32_acquire((CLAN_STATE_TRIPWIRES + tripwire * 8) as usize)
    }

    /// Returns the card's last answer, with the serial number in the upper half.
    pub(crate) fn answer(&self, tripwire: u32) -> u32 {
        self.memory.load_u32_acquire((CLAN_STATE_TRIPWIRES + tripwire * 8 + 4) as usize)
    }

    /// Writes the range that a Tripwire is to watch. It takes effect with [`State::control`].
    pub(crate) fn watch(&self, tripwire: u32, offset: u64, length: u64, target: u64) {
        let words =
            [(CLAN_TRIPWIRE_OFFSET, offset), (CLAN_TRIPWIRE_LENGTH, length), (CLAN_TRIPWIRE_TARGET, target)];
        for (word, value) in words {
            self.page.store_u64((tripwire * CLAN_TRIPWIRE_STRIDE + word) as usize, value);
        }
    }

    pub(crate) fn control(&self, tripwire: u32, value: u32) {
        let at = tripwire * CLAN_TRIPWIRE_STRIDE + CLAN_TRIPWIRE_CONTROL;
        self.page.store_u32_release(at as usize, value);
    }

    /// Returns message `n`, if it has arrived.
    pub(crate) fn message(&self, n: u32) -> Option<ClanMessage> {
        let size = size_of::<ClanMessage>();
        let at = CLAN_STATE_MESSAGES as usize + (n % CLAN_MESSAGES) as usize * size;
        if self.memory.load_u32_acquire(at) != n.wrapping_add(1) {
            return None;
        }
        let mut bytes = [0; size_of::<ClanMessage>()];
        self.memory.read(at, &mut bytes);
        ClanMessage::read_from_bytes(&bytes).ok()
    }

    pub(crate) fn messages_taken(&self, taken: u32) {
        self.memory.store_u32_release(CLAN_STATE_MESSAGES_TAKEN as usize, taken);
    }

    fn request_at(&self, n: u32) -> usize {
        (CLAN_STATE_SIZE + (n & (self.requests - 1)) * CLAN_REQUEST_SIZE) as usize
    }

    pub(crate) fn put_request(&self, n: u32, request: &ClanRequest) {
        self.memory.write(self.request_at(n), request.as_bytes());
    }

    /// Returns the result of a request.
    pub(crate) fn result(&self, n: u32) -> u32 {
        self.memory.load_u32(self.request_at(n) + std::mem::offset_of!(ClanRequest, result))
    }

    /// Returns the number of completed requests, modulo 2^32.
    pub(crate) fn done(&self) -> u32 {
        self.memory.load_u32_acquire(CLAN_STATE_DONE as usize)
    }

    /// Publishes the number of queued requests. Returns whether the card has to be notified.
    pub(crate) fn publish(&self, put: u32) -> bool {
        self.memory.store_u32_release(CLAN_STATE_PUT as usize, put);
        barrier::before_awake_check();
        self.memory.load_u32(CLAN_STATE_IDLE as usize) != 0
    }

    pub(crate) fn go(&self) {
        self.page.store_u32_release(CLAN_ENDPOINT_GO as usize, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::FaultReason;
    use super::*;

    fn page() -> Arc<Mapping> {
        Arc::new(Mapping::anonymous(4096).unwrap())
    }

    /// Builds a state in which a card has written the words of a refusal.
    fn state(faults: u32, begun: u32, used_as: u32) -> State {
        let memory = page();
        let words = [
            (CLAN_STATE_FAULTS, faults),
            (CLAN_STATE_FAULTS_BEGUN, begun),
            (CLAN_STATE_FAULT_USE, used_as),
            (CLAN_STATE_FAULT_REASON, CLAN_FAULT_REFUSED),
            (CLAN_STATE_FAULT_HOST, 3),
        ];
        words.into_iter().for_each(|(at, value)| memory.store_u32(at as usize, value));
        State::new(memory, page(), 16)
    }

    #[test]
    fn fault_words_are_valid_between_equal_counts() {
        let (count, fault) = state(2, 2, 0).fault(0);
        assert_eq!(
            (count, fault.map(|fault| (fault.reason, fault.host))),
            (2, Some((FaultReason::Refused, 3)))
        );
        let (count, torn) = state(2, 3, 0).fault(0);
        assert_eq!((count, torn.map(|fault| fault.reason)), (2, Some(FaultReason::Unknown(0))));
        assert_eq!(state(0, 0, 0).fault(0), (0, None));
    }

    #[test]
    fn fault_of_earlier_use_is_not_reported() {
        assert_eq!(state(2, 2, 0).fault(1), (2, None));
        assert!(state(2, 2, 1).fault(1).1.is_some());
    }
}
