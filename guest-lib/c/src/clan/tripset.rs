//! Tripsets.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use hamlyn::clan::{Tripset, Tripwire};

use super::tripwire::clan_tripwire;
use crate::call::{Failure, at_once, call, free, given, store, timeout};
use crate::memory::boxes;

/// Several Tripwires of one endpoint, any of which ends a wait (section 3.3). One thread at a time
/// may use it.
pub struct clan_tripset(Tripset);

/// Creates a Tripset of `count` Tripwires of one endpoint. It takes ownership of the Tripwires,
/// even if this fails, and sets the pointers to NULL; refer to them by their positions. Only if a
/// pointer is NULL or occurs twice does everything stay unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripset_create(
    tripwires: *mut *mut clan_tripwire,
    count: usize,
    tripset: Option<&mut MaybeUninit<Box<clan_tripset>>>,
) -> c_int {
    call(|| {
        let to = given(tripset, "tripset")?;
        let tripwires = boxes(tripwires, count, "tripwires")?;
        store(to, Box::new(clan_tripset(Tripset::new(tripwires.into_iter().map(|tripwire| tripwire.0))?)))
    })
}

/// Releases a Tripset and its Tripwires. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripset_destroy(tripset: Option<Box<clan_tripset>>) {
    free(tripset);
}

/// Waits until a Tripwire has fired since it was last cleared, and stores which have fired: bit p
/// stands for the Tripwire at position p. Clears these Tripwires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripset_wait(
    tripset: Option<&mut clan_tripset>,
    fired: Option<&mut MaybeUninit<u32>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (tripset, to) = (&mut given(tripset, "tripset")?.0, given(fired, "fired")?);
        let positions = at_once(timeout_ms, tripset.wait(timeout(timeout_ms)))?;
        store(to, positions.into_iter().fold(0, |word, position| word | 1 << position))
    })
}

/// Enables the Tripwire at a position, like clan_tripwire_enable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripset_enable(tripset: Option<&mut clan_tripset>, position: u32) -> c_int {
    with_tripwire(tripset, position, Tripwire::enable)
}

/// Disables the Tripwire at a position, like clan_tripwire_disable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_tripset_disable(tripset: Option<&mut clan_tripset>, position: u32) -> c_int {
    with_tripwire(tripset, position, Tripwire::disable)
}

fn with_tripwire(
    tripset: Option<&mut clan_tripset>,
    position: u32,
    act: impl FnOnce(&mut Tripwire) -> hamlyn::Result<()>,
) -> c_int {
    call(|| {
        let tripwires = given(tripset, "tripset")?.0.tripwires_mut();
        let limit = tripwires.len().saturating_sub(1);
        let none = || format!("position {position} in the Tripset is out of range (limit {limit})");
        let tripwire = tripwires.get_mut(position as usize).ok_or_else(|| Failure::argument(none()))?;
        Ok(act(tripwire).map(|()| 0)?)
    })
}
