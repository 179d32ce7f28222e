//! Tripsets.

use std::ffi::c_int;

use hamlyn::clan::{Tripset, Tripwire};

use super::tripwire::clan_tripwire;
use crate::call::{Failure, waited};
use crate::exported::{Out, exported};
use crate::memory::boxes;

/// Several Tripwires of one endpoint, any of which ends a wait (section 3.3). One thread at a time
/// may use it.
pub struct clan_tripset(Tripset);

exported! {
/// Creates a Tripset of `count` Tripwires of one endpoint. It takes ownership of the Tripwires,
/// even if this fails, and sets the pointers to NULL; refer to them by their positions. Only if a
/// pointer is NULL or occurs twice does everything stay unchanged.
fn clan_tripset_create(tripwires: *mut *mut clan_tripwire, count: usize, tripset: Out<Box<clan_tripset>>) {
    let tripwires = boxes(tripwires, count, "tripwires")?;
    tripset.store(clan_tripset(Tripset::new(tripwires.into_iter().map(|tripwire| tripwire.0))?))
}

/// Releases a Tripset and its Tripwires. NULL is a no-op.
fn clan_tripset_destroy(tripset: Box<clan_tripset>);

/// Waits until a Tripwire has fired since it was last cleared, and stores which have fired: bit p
/// stands for the Tripwire at position p. Clears these Tripwires.
fn clan_tripset_wait(tripset: &mut clan_tripset, fired: Out<u32>, timeout_ms: c_int) {
    let positions = waited!(timeout_ms, tripset.0 => wait / wait_timeout())?;
    fired.store(positions.into_iter().fold(0_u32, |word, position| word | 1 << position))
}

/// Enables the Tripwire at a position, like clan_tripwire_enable.
fn clan_tripset_enable(tripset: &mut clan_tripset, position: u32) {
    tripset.tripwire(position)?.enable()?
}

/// Disables the Tripwire at a position, like clan_tripwire_disable.
fn clan_tripset_disable(tripset: &mut clan_tripset, position: u32) {
    tripset.tripwire(position)?.disable()?
}
}

impl clan_tripset {
    fn tripwire(&mut self, position: u32) -> Result<&mut Tripwire, Failure> {
        let tripwires = self.0.tripwires_mut();
        let limit = tripwires.len().saturating_sub(1);
        let none = || format!("position {position} in the Tripset is out of range (limit {limit})");
        tripwires.get_mut(position as usize).ok_or_else(|| Failure::argument(none()))
    }
}
