//! Tripwires.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use hamlyn::Error;
use hamlyn::clan::{Tripwire, Watch};

use super::aperture::clan_aperture;
use super::descriptor::clan_descriptor;
use super::endpoint::clan_endpoint;
use crate::call::{Failure, at_once, call, count, free, given, store, timeout, unused};

/// A Tripwire fires for writes, as it does if neither this nor CLAN_WATCH_READS is said.
pub const CLAN_WATCH_WRITES: u32 = 1;
/// It fires for reads.
pub const CLAN_WATCH_READS: u32 = 2;
/// It is disabled when it fires (section 3.3); clan_tripwire_enable enables it again.
pub const CLAN_WATCH_ONCE: u32 = 4;
/// It interrupts whenever it fires, whether anybody sleeps or not, as with the paper's card: for
/// comparison.
pub const CLAN_WATCH_INTERRUPTING: u32 = 8;

/// Something that watches bytes of an aperture, and fires when they are touched (sections 2.5 and
/// 3.3). The card counts how often, so what fires before a wait ends it. One thread at a time may
/// use it.
pub struct clan_tripwire(pub(crate) Tripwire);

/// What a Tripwire watches.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_watch {
    /// The first byte of the aperture.
    pub offset: u64,
    /// How many, at least 1.
    pub length: u64,
    /// CLAN_WATCH_WRITES and the like; 0 is for writes.
    pub flags: u32,
    /// Must be 0.
    pub reserved: [u32; 3],
}

impl clan_watch {
    fn local(&self, aperture: &clan_aperture) -> Result<Watch, Failure> {
        let number = |value| usize::try_from(value).unwrap_or(usize::MAX);
        let range = number(self.offset)..number(self.offset.saturating_add(self.length));
        self.as_flagged(Watch::local(&aperture.0, range))
    }

    fn remote(&self, descriptor: &clan_descriptor) -> Result<Watch, Failure> {
        let range = self.offset..self.offset.saturating_add(self.length);
        self.as_flagged(Watch::remote(&descriptor.read()?, range))
    }

    fn as_flagged(&self, watch: Result<Watch, Error>) -> Result<Watch, Failure> {
        const ACCESSES: u32 = CLAN_WATCH_WRITES | CLAN_WATCH_READS;
        unused(&self.reserved)?;
        if self.flags & !(ACCESSES | CLAN_WATCH_ONCE | CLAN_WATCH_INTERRUPTING) != 0 {
            return Err(Failure::argument(format!("watch flags {:#x} are unknown", self.flags)));
        }
        let mut watch = watch?;
        watch = match self.flags & ACCESSES {
            CLAN_WATCH_READS => watch.reads(),
            ACCESSES => watch.reads_and_writes(),
            _ => watch,
        };
        if self.flags & CLAN_WATCH_ONCE != 0 {
            watch = watch.once();
        }
        Ok(if self.flags & CLAN_WATCH_INTERRUPTING != 0 { watch.interrupting() } else { watch })
    }
}

/// Sets a Tripwire over bytes of an aperture of this process' own, for what other hosts do there,
/// and enables it. -ENOSPC if all of the endpoint's are in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripwire_create(
    endpoint: Option<&clan_endpoint>,
    aperture: Option<&clan_aperture>,
    watch: Option<&clan_watch>,
    tripwire: Option<&mut MaybeUninit<Box<clan_tripwire>>>,
) -> c_int {
    call(|| {
        let (endpoint, to) = (&given(endpoint, "endpoint")?.0, given(tripwire, "tripwire")?);
        let watch = given(watch, "watch")?.local(given(aperture, "aperture")?)?;
        store(to, Box::new(clan_tripwire(endpoint.tripwire(&watch)?)))
    })
}

/// The same over bytes of an aperture of another host, for what this process' windows and DMA
/// requests do there: the completion of a transfer, say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripwire_create_remote(
    endpoint: Option<&clan_endpoint>,
    descriptor: Option<&clan_descriptor>,
    watch: Option<&clan_watch>,
    tripwire: Option<&mut MaybeUninit<Box<clan_tripwire>>>,
) -> c_int {
    call(|| {
        let (endpoint, to) = (&given(endpoint, "endpoint")?.0, given(tripwire, "tripwire")?);
        let watch = given(watch, "watch")?.remote(given(descriptor, "descriptor")?)?;
        store(to, Box::new(clan_tripwire(endpoint.tripwire(&watch)?)))
    })
}

/// Disables a Tripwire and lets it go. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripwire_destroy(tripwire: Option<Box<clan_tripwire>>) {
    free(tripwire);
}

/// Has a Tripwire watch other bytes from now on, of an aperture of this process' own, and enables
/// it. What fired before stays counted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripwire_watch(
    tripwire: Option<&mut clan_tripwire>,
    aperture: Option<&clan_aperture>,
    watch: Option<&clan_watch>,
) -> c_int {
    call(|| {
        let tripwire = &mut given(tripwire, "tripwire")?.0;
        let watch = given(watch, "watch")?.local(given(aperture, "aperture")?)?;
        Ok(tripwire.watch(&watch).map(|()| 0)?)
    })
}

/// The same, of an aperture of another host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripwire_watch_remote(
    tripwire: Option<&mut clan_tripwire>,
    descriptor: Option<&clan_descriptor>,
    watch: Option<&clan_watch>,
) -> c_int {
    call(|| {
        let tripwire = &mut given(tripwire, "tripwire")?.0;
        let watch = given(watch, "watch")?.remote(given(descriptor, "descriptor")?)?;
        Ok(tripwire.watch(&watch).map(|()| 0)?)
    })
}

/// Enables a Tripwire: a store to the card, whose answer is looked for in memory. No system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripwire_enable(tripwire: Option<&mut clan_tripwire>) -> c_int {
    call(|| Ok(given(tripwire, "tripwire")?.0.enable().map(|()| 0)?))
}

/// Disables a Tripwire: once this has returned, it does not fire.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripwire_disable(tripwire: Option<&mut clan_tripwire>) -> c_int {
    call(|| Ok(given(tripwire, "tripwire")?.0.disable().map(|()| 0)?))
}

/// How often it has fired since it was last cleared. No system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripwire_test(tripwire: Option<&clan_tripwire>) -> c_int {
    call(|| Ok(count(given(tripwire, "tripwire")?.0.test() as usize)))
}

/// Clears it, and returns how often it had fired. Clear it before you look at what it watches: then
/// what is written behind the look fires again, and no wait misses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripwire_clear(tripwire: Option<&mut clan_tripwire>) -> c_int {
    call(|| Ok(count(given(tripwire, "tripwire")?.0.clear() as usize)))
}

/// Waits until it has fired since it was last cleared, clears it, and returns how often. It looks
/// for a moment before it sleeps.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripwire_wait(
    tripwire: Option<&mut clan_tripwire>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let tripwire = &mut given(tripwire, "tripwire")?.0;
        Ok(count(at_once(timeout_ms, tripwire.wait(timeout(timeout_ms)))? as usize))
    })
}
