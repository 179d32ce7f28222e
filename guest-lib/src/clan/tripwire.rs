//! Tripwires (sections 2.5 and 3.3).

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hamlyn_abi::clan::endpoint::CLAN_MAX_TRIPWIRES;
use hamlyn_abi::clan::tripwire::*;

use super::aperture::Aperture;
use super::descriptor::Descriptor;
use super::endpoint::Core;
use crate::error::{Error, ErrorKind, Result, inside};

/// How long the card may take to answer. It does at once, but a machine may stand still for a
/// while.
const PATIENCE: Duration = Duration::from_secs(5);
/// Looks before the processor is given to others.
const LOOKS: u32 = 100;

/// What a Tripwire watches, and what it does when it fires.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Watch {
    offset: u64,
    length: u64,
    /// The aperture, and its host if it is remote.
    target: u64,
    flags: u32,
}

impl Watch {
    /// Watches bytes of an aperture of this process' own for what other hosts do there: for writes,
    /// if nothing else is said.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::Invalid`] for no bytes.
    pub fn local(aperture: &Aperture, range: Range<usize>) -> Result<Self> {
        let range = range.start as u64..range.end as u64;
        Self::over(aperture.len() as u64, range, aperture.number().into(), 0)
    }

    /// Watches bytes of an aperture of another host for what this process' windows and DMA requests
    /// do there, the completion of a transfer say: for writes, if nothing else is said.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::Invalid`] for no bytes.
    pub fn remote(descriptor: &Descriptor, range: Range<u64>) -> Result<Self> {
        let target = u64::from(descriptor.aperture) | u64::from(descriptor.host) << 32;
        Self::over(descriptor.length, range, target, CLAN_TRIPWIRE_REMOTE)
    }

    fn over(limit: u64, range: Range<u64>, target: u64, flags: u32) -> Result<Self> {
        let length = range.end.saturating_sub(range.start);
        if length == 0 {
            return Err(Error::Invalid("a Tripwire watches at least one byte"));
        }
        inside("aperture", range.start, length, limit)?;
        let actions = CLAN_TRIPWIRE_BIT | CLAN_TRIPWIRE_COUNT;
        Ok(Self { offset: range.start, length, target, flags: flags | actions | CLAN_TRIPWIRE_WRITES })
    }

    /// Fires for reads, and not for writes.
    pub fn reads(mut self) -> Self {
        self.flags = self.flags & !CLAN_TRIPWIRE_WRITES | CLAN_TRIPWIRE_READS;
        self
    }

    /// Fires for reads as well as writes.
    pub fn reads_and_writes(mut self) -> Self {
        self.flags |= CLAN_TRIPWIRE_READS | CLAN_TRIPWIRE_WRITES;
        self
    }

    /// Is disabled when it fires (section 3.3); [`Tripwire::enable`] enables it again.
    pub fn once(mut self) -> Self {
        self.flags |= CLAN_TRIPWIRE_ONCE;
        self
    }

    /// Interrupts whenever it fires, whether anybody sleeps or not, as the paper's card does.
    /// Nobody needs that: for comparison.
    pub fn interrupting(mut self) -> Self {
        self.flags |= CLAN_TRIPWIRE_FIFO;
        self
    }
}

/// A Tripwire of an endpoint, set. It is disabled when it is dropped.
///
/// The card counts how often it fires. [`Tripwire::test`] says how often that was since it was last
/// cleared, and what waits looks at the count, too: so what fires before the wait ends it, and no
/// order of calls loses a wake-up.
#[derive(Debug)]
pub struct Tripwire {
    core: Arc<Core>,
    index: u32,
    flags: u32,
    /// Its count when it was last cleared.
    seen: u32,
}

/// Which Tripwires of an endpoint are in use, and the serial number that each was told last.
#[derive(Debug)]
pub(super) struct Places {
    count: u32,
    used: u32,
    serials: [u16; CLAN_MAX_TRIPWIRES as usize],
}

impl Places {
    pub(super) fn new(count: u32) -> Self {
        Self { count: count.min(CLAN_MAX_TRIPWIRES), used: 0, serials: Default::default() }
    }

    fn take(&mut self) -> Result<u32> {
        let free = (0..self.count).find(|index| self.used & 1 << index == 0);
        let Some(index) = free else {
            let remedy = "drop some, or open an endpoint with more (EndpointBuilder::tripwires)";
            return Err(Error::Exhausted { object: "Tripwires of the endpoint", limit: self.count, remedy });
        };
        self.used |= 1 << index;
        Ok(index)
    }

    /// Whether none is in use.
    pub(super) fn are_free(&self) -> bool {
        self.used == 0
    }

    fn next_serial(&mut self, index: u32) -> u16 {
        let serial = &mut self.serials[index as usize];
        *serial = serial.wrapping_add(1);
        *serial
    }
}

impl Tripwire {
    pub(super) fn set(core: &Arc<Core>, watch: &Watch) -> Result<Self> {
        let index = core.places().take()?;
        let mut tripwire = Self { core: core.clone(), index, flags: 0, seen: core.state().fired(index) };
        tripwire.watch(watch)?;
        Ok(tripwire)
    }

    /// Watches something else from now on, and is enabled. What fired before stays counted.
    ///
    /// # Errors
    /// [`Error::Tripwire`]: then it is disabled.
    pub fn watch(&mut self, watch: &Watch) -> Result<()> {
        self.core.state().watch(self.index, watch.offset, watch.length, watch.target);
        self.flags = watch.flags | self.flags & CLAN_TRIPWIRE_EVENT;
        self.enable()
    }

    /// Its number at its endpoint.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.index
    }

    /// Enables it. That is a store to the card, whose answer is looked for in memory: no system
    /// call.
    ///
    /// # Errors
    /// [`Error::Tripwire`]: then it is disabled.
    pub fn enable(&mut self) -> Result<()> {
        self.tell(self.flags | CLAN_TRIPWIRE_ENABLE, PATIENCE)
    }

    /// Disables it: once this has returned, it does not fire.
    ///
    /// # Errors
    /// [`Error::Tripwire`] if the card does not answer.
    pub fn disable(&mut self) -> Result<()> {
        self.tell(self.flags, PATIENCE)
    }

    fn tell(&self, flags: u32, patience: Duration) -> Result<()> {
        // Serial numbers must be told in their order.
        let mut places = self.core.places();
        let serial = places.next_serial(self.index);
        let state = self.core.state();
        state.control(self.index, flags | u32::from(serial) << 16);
        let begun = Instant::now();
        loop {
            for _ in 0..LOOKS {
                let answer = state.answer(self.index);
                if answer >> 16 == u32::from(serial) {
                    return Ok(TripwireError::of(answer & 0xffff)?);
                }
                std::hint::spin_loop();
            }
            if begun.elapsed() >= patience {
                return Err(TripwireError::NoAnswer.into());
            }
            std::thread::yield_now();
        }
    }

    /// How often it has fired since it was last cleared. It makes no system call.
    #[must_use]
    #[inline]
    pub fn test(&self) -> u32 {
        self.core.state().fired(self.index).wrapping_sub(self.seen)
    }

    /// How often it has fired in all, modulo 2^32.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.core.state().fired(self.index)
    }

    /// Clears it, and says how often it had fired.
    pub fn clear(&mut self) -> u32 {
        let fired = self.test();
        self.seen = self.seen.wrapping_add(fired);
        fired
    }

    /// Waits until it has fired since it was last cleared, clears it, and says how often. It looks
    /// for a moment before it sleeps.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::System`] if the card has gone.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<u32> {
        let core = self.core.clone();
        core.wait_until(self.bit(), timeout, "Tripwire that fires", || {
            Ok(Some(self.clear()).filter(|fired| *fired != 0))
        })
    }

    /// Waits until `look` finds something in what the Tripwire watches, and looks again whenever it
    /// has fired. What it wrote before it fired is seen by the next look. It clears the Tripwire.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; what `look` fails with; [`Error::System`] if the card has gone.
    pub fn wait_until<T>(
        &mut self,
        timeout: Option<Duration>,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let core = self.core.clone();
        core.wait_until(self.bit(), timeout, "change of what a Tripwire watches", || {
            self.clear();
            look()
        })
    }

    /// Its bit of [`Core::wait_until`].
    pub(super) fn bit(&self) -> u64 {
        1 << self.index
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Has it be an event of its endpoint, or not. It is enabled then.
    pub(super) fn set_event(&mut self, event: bool) -> Result<()> {
        let before = self.flags;
        self.flags = if event { before | CLAN_TRIPWIRE_EVENT } else { before & !CLAN_TRIPWIRE_EVENT };
        self.enable().inspect_err(|_| self.flags = before)
    }
}

impl Drop for Tripwire {
    fn drop(&mut self) {
        // A place whose card does not answer is not used again: it might fire.
        if self.tell(0, PATIENCE).is_ok() {
            self.core.places().used &= !(1 << self.index);
        }
    }
}

/// Why a Tripwire is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TripwireError {
    /// There is no such aperture, or it was opened by another.
    #[error("the card refused a Tripwire: there is no such aperture of this process' open card")]
    NoAperture,
    /// The range is not within the aperture.
    #[error("the card refused a Tripwire: its range is empty, or not within the aperture")]
    BadRange,
    /// The card does not know such flags.
    #[error("the card refused a Tripwire: its flags mean nothing")]
    BadFlags,
    /// Too many watch the same bytes.
    #[error(
        "the card refused a Tripwire: as many as there may be watch a part of its range (limit {CLAN_TRIPWIRES_AT_ONCE})"
    )]
    Crowded,
    /// Its events could not go anywhere.
    #[error(
        "the card refused a Tripwire: its endpoint has no event queue, or that has no room for one more source"
    )]
    NoEvents,
    /// The card does not say.
    #[error("the card has not answered what a Tripwire was told within {PATIENCE:?}")]
    NoAnswer,
    /// The card says what this library does not know.
    #[error("the card answers {0} to what a Tripwire was told, which is not known")]
    Unknown(u32),
}

impl TripwireError {
    fn of(answer: u32) -> std::result::Result<(), Self> {
        Err(match answer {
            CLAN_TRIPWIRE_OK => return Ok(()),
            CLAN_TRIPWIRE_NO_APERTURE => TripwireError::NoAperture,
            CLAN_TRIPWIRE_BAD_RANGE => TripwireError::BadRange,
            CLAN_TRIPWIRE_BAD_FLAGS => TripwireError::BadFlags,
            CLAN_TRIPWIRE_CROWDED => TripwireError::Crowded,
            CLAN_TRIPWIRE_NO_EVENTS => TripwireError::NoEvents,
            other => TripwireError::Unknown(other),
        })
    }

    /// What a program can do about it.
    pub(crate) fn kind(self) -> ErrorKind {
        match self {
            TripwireError::NoAperture | TripwireError::BadRange | TripwireError::BadFlags => {
                ErrorKind::Invalid
            }
            TripwireError::Crowded | TripwireError::NoEvents => ErrorKind::Exhausted,
            TripwireError::NoAnswer => ErrorKind::TimedOut,
            TripwireError::Unknown(_) => ErrorKind::Refused,
        }
    }
}

/// Several Tripwires of one endpoint, any of which ends a wait (section 3.3).
#[derive(Debug)]
pub struct Tripset {
    tripwires: Vec<Tripwire>,
}

impl Tripset {
    /// Of these.
    ///
    /// # Errors
    /// [`Error::Invalid`] for none, or for Tripwires of several endpoints.
    pub fn new(tripwires: impl IntoIterator<Item = Tripwire>) -> Result<Self> {
        let tripwires: Vec<_> = tripwires.into_iter().collect();
        let Some(first) = tripwires.first() else { return Err(Error::Invalid("a Tripset of no Tripwires")) };
        if tripwires.iter().any(|other| !Arc::ptr_eq(&other.core, &first.core)) {
            return Err(Error::Invalid("the Tripwires of a Tripset are those of one endpoint"));
        }
        Ok(Self { tripwires })
    }

    /// Its Tripwires, in the order in which they were given.
    #[must_use]
    pub fn tripwires(&self) -> &[Tripwire] {
        &self.tripwires
    }

    /// Its Tripwires, to enable or disable.
    pub fn tripwires_mut(&mut self) -> &mut [Tripwire] {
        &mut self.tripwires
    }

    /// Its Tripwires, each for itself again.
    #[must_use]
    pub fn into_tripwires(self) -> Vec<Tripwire> {
        self.tripwires
    }

    /// The positions of those that have fired since they were last cleared. They are cleared.
    pub fn clear(&mut self) -> Vec<usize> {
        let fired = self
            .tripwires
            .iter_mut()
            .enumerate()
            .filter_map(|(at, tripwire)| (tripwire.clear() != 0).then_some(at));
        fired.collect()
    }

    /// Waits until one of them has fired, and says which have, by their positions. They are
    /// cleared.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::System`] if the card has gone.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<usize>> {
        let core = self.tripwires[0].core.clone();
        let bits = self.tripwires.iter().map(Tripwire::bit).fold(0, |all, bit| all | bit);
        core.wait_until(bits, timeout, "Tripwire of a Tripset that fires", || {
            Ok(Some(self.clear()).filter(|fired| !fired.is_empty()))
        })
    }
}
