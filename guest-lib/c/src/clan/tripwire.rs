//! Tripwires.

use std::ffi::c_int;

use hamlyn::Error;
use hamlyn::clan::{Tripwire, Watch};

use super::aperture::clan_aperture;
use super::descriptor::clan_descriptor;
use super::endpoint::clan_endpoint;
use crate::call::{Failure, unused, waited};
use crate::exported::{Out, exported};

/// A Tripwire fires on writes. This is the default if neither this nor CLAN_WATCH_READS is set.
pub const CLAN_WATCH_WRITES: u32 = 1;
/// A Tripwire fires on reads.
pub const CLAN_WATCH_READS: u32 = 2;
/// A Tripwire is disabled when it fires (section 3.3); clan_tripwire_enable enables it again.
pub const CLAN_WATCH_ONCE: u32 = 4;
/// A Tripwire raises an interrupt whenever it fires, even if no thread sleeps, as with the paper's
/// card: for comparison.
pub const CLAN_WATCH_INTERRUPTING: u32 = 8;

/// Watches bytes of an aperture, and fires when they are accessed (sections 2.5 and 3.3). The card
/// counts the firings, so a firing before a wait ends the wait. One thread at a time may use it.
pub struct clan_tripwire(pub(crate) Tripwire);

/// What a Tripwire watches.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_watch {
    /// Offset of the first byte in the aperture.
    pub offset: u64,
    /// Number of bytes, at least 1.
    pub length: u64,
    /// CLAN_WATCH_WRITES and similar flags; 0 means writes.
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

exported! {
/// Creates and enables a Tripwire over bytes of this process' aperture, for accesses by other
/// hosts. Fails with -ENOSPC if all Tripwires of the endpoint are in use.
fn clan_tripwire_create(
    endpoint: &clan_endpoint,
    aperture: &clan_aperture,
    watch: &clan_watch,
    tripwire: Out<Box<clan_tripwire>>,
) {
    let watch = watch.local(aperture)?;
    tripwire.store(clan_tripwire(endpoint.0.tripwire(&watch)?))
}

/// Like clan_tripwire_create, but over bytes of another host's aperture, for accesses by this
/// process' windows and DMA requests: for example to detect the completion of a transfer.
fn clan_tripwire_create_remote(
    endpoint: &clan_endpoint,
    descriptor: &clan_descriptor,
    watch: &clan_watch,
    tripwire: Out<Box<clan_tripwire>>,
) {
    let watch = watch.remote(descriptor)?;
    tripwire.store(clan_tripwire(endpoint.0.tripwire(&watch)?))
}

/// Disables and releases a Tripwire. NULL is a no-op.
fn clan_tripwire_destroy(tripwire: Box<clan_tripwire>);

/// Moves a Tripwire to other bytes, of this process' aperture, and enables it. Earlier firings stay
/// counted.
fn clan_tripwire_watch(tripwire: &mut clan_tripwire, aperture: &clan_aperture, watch: &clan_watch) {
    let watch = watch.local(aperture)?;
    tripwire.0.watch(&watch)?
}

/// Like clan_tripwire_watch, for bytes of another host's aperture.
fn clan_tripwire_watch_remote(
    tripwire: &mut clan_tripwire,
    descriptor: &clan_descriptor,
    watch: &clan_watch,
) {
    let watch = watch.remote(descriptor)?;
    tripwire.0.watch(&watch)?
}

/// Enables a Tripwire: stores to the card, and polls memory for its answer. Makes no system call.
fn clan_tripwire_enable(tripwire: &mut clan_tripwire) {
    tripwire.0.enable()?
}

/// Disables a Tripwire: it does not fire after this has returned.
fn clan_tripwire_disable(tripwire: &mut clan_tripwire) {
    tripwire.0.disable()?
}

/// Returns how often a Tripwire has fired since it was last cleared. Makes no system call.
fn clan_tripwire_test(tripwire: &clan_tripwire) {
    tripwire.0.test()
}

/// Clears a Tripwire, and returns how often it had fired. To avoid a lost wake-up, clear it before
/// you look at the watched bytes: a later write then fires it again.
fn clan_tripwire_clear(tripwire: &mut clan_tripwire) {
    tripwire.0.clear()
}

/// Waits until a Tripwire has fired since it was last cleared, clears it, and returns how often it
/// had fired. Polls for a moment before it sleeps.
fn clan_tripwire_wait(tripwire: &mut clan_tripwire, timeout_ms: c_int) {
    waited!(timeout_ms, tripwire.0 => wait / wait_timeout())?
}
}
