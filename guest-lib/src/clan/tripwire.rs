//! Tripwires (sections 2.5 and 3.3).

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hamlyn_abi::clan::tripwire::*;

use super::aperture::Aperture;
use super::descriptor::Descriptor;
use super::endpoint::core::Core;
use super::tripwire_error::{PATIENCE, TripwireError};
use crate::error::{Error, Result, inside};

/// Number of polls before the thread yields the processor.
const LOOKS: u32 = 100;

/// The range that a Tripwire watches, and its actions when it fires.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Watch {
    offset: u64,
    length: u64,
    /// The aperture in the lower half; for a remote one, its host in the upper half.
    target: u64,
    flags: u32,
}

impl Watch {
    /// Watches bytes of an aperture of this process for accesses by other hosts. The default is
    /// writes.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::Invalid`] if the range is empty.
    pub fn local(aperture: &Aperture, range: Range<usize>) -> Result<Self> {
        let range = range.start as u64..range.end as u64;
        Self::over(aperture.len() as u64, range, aperture.number().into(), 0)
    }

    /// Watches bytes of another host's aperture for accesses by this process' windows and DMA
    /// requests, for example the completion of a transfer. The default is writes.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::Invalid`] if the range is empty.
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

    /// Fires for reads, not for writes.
    pub fn reads(mut self) -> Self {
        self.flags = self.flags & !CLAN_TRIPWIRE_WRITES | CLAN_TRIPWIRE_READS;
        self
    }

    /// Fires for reads and for writes.
    pub fn reads_and_writes(mut self) -> Self {
        self.flags |= CLAN_TRIPWIRE_READS | CLAN_TRIPWIRE_WRITES;
        self
    }

    /// Disables the Tripwire when it fires (section 3.3); [`Tripwire::enable`] enables it again.
    pub fn once(mut self) -> Self {
        self.flags |= CLAN_TRIPWIRE_ONCE;
        self
    }

    /// Raises an interrupt whenever the Tripwire fires, even if no thread sleeps, as the paper's
    /// card does. Only for comparison.
    pub fn interrupting(mut self) -> Self {
        self.flags |= CLAN_TRIPWIRE_FIFO;
        self
    }
}

/// A Tripwire of an endpoint. Dropping it disables it.
///
/// The card counts how often the Tripwire fires. [`Tripwire::test`] returns the count since the
/// last clear, and waits check the count too. So a Tripwire that fires before a wait ends that
/// wait, and no order of calls causes a lost wake-up.
#[derive(Debug)]
pub struct Tripwire {
    core: Arc<Core>,
    index: u32,
    flags: u32,
    /// The count at the last clear.
    seen: u32,
}

impl Tripwire {
    pub(super) fn set(core: &Arc<Core>, watch: &Watch) -> Result<Self> {
        let index = core.places().take()?;
        let mut tripwire = Self { core: core.clone(), index, flags: 0, seen: core.state().fired(index) };
        tripwire.watch(watch)?;
        Ok(tripwire)
    }

    /// Watches another range from now on, and enables the Tripwire. The count is kept.
    ///
    /// # Errors
    /// [`crate::clan::TripwireError`]; the Tripwire is then disabled.
    pub fn watch(&mut self, watch: &Watch) -> Result<()> {
        self.core.state().watch(self.index, watch.offset, watch.length, watch.target);
        self.flags = watch.flags | self.flags & CLAN_TRIPWIRE_EVENT;
        self.enable()
    }

    /// Returns the Tripwire's number at its endpoint.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.index
    }

    /// Enables the Tripwire, without a system call: a store to the card, then polling memory for
    /// its answer.
    ///
    /// # Errors
    /// [`crate::clan::TripwireError`]; the Tripwire is then disabled.
    pub fn enable(&mut self) -> Result<()> {
        self.tell(self.flags | CLAN_TRIPWIRE_ENABLE, PATIENCE)
    }

    /// Disables the Tripwire: it does not fire after this call returns.
    ///
    /// # Errors
    /// [`crate::clan::TripwireError`] if the card does not answer.
    pub fn disable(&mut self) -> Result<()> {
        self.tell(self.flags, PATIENCE)
    }

    fn tell(&self, flags: u32, patience: Duration) -> Result<()> {
        // Serial numbers must reach the card in order.
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

    /// Returns how often the Tripwire fired since the last clear, without a system call.
    #[must_use]
    #[inline]
    pub fn test(&self) -> u32 {
        self.core.state().fired(self.index).wrapping_sub(self.seen)
    }

    /// Returns how often the Tripwire fired in total, modulo 2^32.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.core.state().fired(self.index)
    }

    /// Clears the Tripwire, and returns how often it had fired.
    pub fn clear(&mut self) -> u32 {
        let fired = self.test();
        self.seen = self.seen.wrapping_add(fired);
        fired
    }

    /// Blocks until the Tripwire has fired since the last clear, clears it, and returns how often
    /// it fired. Polls for a short time before it sleeps.
    ///
    /// # Errors
    /// [`Error::System`] if the card is gone.
    pub fn wait(&mut self) -> Result<u32> {
        self.wait_within(None)
    }

    /// As [`Tripwire::wait`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Tripwire::wait`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<u32> {
        self.wait_within(Some(timeout))
    }

    fn wait_within(&mut self, timeout: Option<Duration>) -> Result<u32> {
        let core = self.core.clone();
        core.wait_until(self.bit(), timeout, "Tripwire that fires", || {
            Ok(Some(self.clear()).filter(|fired| *fired != 0))
        })
    }

    /// Blocks until `look` finds something in the watched memory, and calls it again whenever the
    /// Tripwire has fired. A write that fired the Tripwire is visible to the next call. Clears the
    /// Tripwire.
    ///
    /// # Errors
    /// The errors of `look`; [`Error::System`] if the card is gone.
    pub fn wait_until<T>(&mut self, look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        self.wait_until_within(None, look)
    }

    /// As [`Tripwire::wait_until`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Tripwire::wait_until`].
    pub fn wait_until_timeout<T>(
        &mut self,
        timeout: Duration,
        look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.wait_until_within(Some(timeout), look)
    }

    fn wait_until_within<T>(
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

    /// Returns the Tripwire's bit for [`Core::wait_until`].
    pub(super) fn bit(&self) -> u64 {
        1 << self.index
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Makes the Tripwire create events of its endpoint, or stops them. Enables the Tripwire.
    pub(super) fn set_event(&mut self, event: bool) -> Result<()> {
        let before = self.flags;
        self.flags = if event { before | CLAN_TRIPWIRE_EVENT } else { before & !CLAN_TRIPWIRE_EVENT };
        self.enable().inspect_err(|_| self.flags = before)
    }
}

impl Drop for Tripwire {
    fn drop(&mut self) {
        // If the card does not answer, the Tripwire is not used again: it might still fire.
        if self.tell(0, PATIENCE).is_ok() {
            self.core.places().free(self.index);
        }
    }
}

/// Several Tripwires of one endpoint, waited for together (section 3.3).
#[derive(Debug)]
pub struct Tripset {
    tripwires: Vec<Tripwire>,
}

impl Tripset {
    /// Creates a Tripset of these Tripwires.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are none, or if they belong to several endpoints.
    pub fn new(tripwires: impl IntoIterator<Item = Tripwire>) -> Result<Self> {
        let tripwires: Vec<_> = tripwires.into_iter().collect();
        let Some(first) = tripwires.first() else { return Err(Error::Invalid("a Tripset of no Tripwires")) };
        if tripwires.iter().any(|other| !Arc::ptr_eq(&other.core, &first.core)) {
            return Err(Error::Invalid("the Tripwires of a Tripset are those of one endpoint"));
        }
        Ok(Self { tripwires })
    }

    /// Returns the Tripwires, in the order in which they were passed.
    #[must_use]
    pub fn tripwires(&self) -> &[Tripwire] {
        &self.tripwires
    }

    /// Returns the Tripwires, for enabling and disabling them.
    pub fn tripwires_mut(&mut self) -> &mut [Tripwire] {
        &mut self.tripwires
    }

    /// Returns the Tripwires as single ones.
    #[must_use]
    pub fn into_tripwires(self) -> Vec<Tripwire> {
        self.tripwires
    }

    /// Clears all Tripwires, and returns the positions of those that had fired since their last
    /// clear.
    pub fn clear(&mut self) -> Vec<usize> {
        let fired = self
            .tripwires
            .iter_mut()
            .enumerate()
            .filter_map(|(at, tripwire)| (tripwire.clear() != 0).then_some(at));
        fired.collect()
    }

    /// Blocks until one of the Tripwires has fired, clears them, and returns the positions of those
    /// that fired.
    ///
    /// # Errors
    /// [`Error::System`] if the card is gone.
    pub fn wait(&mut self) -> Result<Vec<usize>> {
        self.wait_within(None)
    }

    /// As [`Tripset::wait`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Tripset::wait`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Vec<usize>> {
        self.wait_within(Some(timeout))
    }

    fn wait_within(&mut self, timeout: Option<Duration>) -> Result<Vec<usize>> {
        let core = self.tripwires[0].core.clone();
        let bits = self.tripwires.iter().map(Tripwire::bit).fold(0, |all, bit| all | bit);
        core.wait_until(bits, timeout, "Tripwire of a Tripset that fires", || {
            Ok(Some(self.clear()).filter(|fired| !fired.is_empty()))
        })
    }
}
