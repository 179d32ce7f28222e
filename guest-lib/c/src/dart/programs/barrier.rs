//! A barrier over several hosts.

use std::ffi::c_int;
use std::sync::Arc;

use hamlyn::dart::Connection;
use hamlyn::dart::programs::{Barrier, Member};

use super::caller::register;
use crate::call::{Failure, waited};
use crate::dart::connection::dart_connection;
use crate::dart::queue::dart_queue;
use crate::exported::{Out, exported};
use crate::memory::items;

/// The host's side of a barrier. One register of the host's card counts the members that have not
/// arrived yet. One thread at a time may use it.
pub struct dart_barrier(Barrier);

/// A member of a barrier. One thread at a time may use it.
pub struct dart_member(Member);

exported! {
/// Creates a barrier with one member for each connection, at least one. The windows of all of them
/// must have register `number` and the next one, and their events must go to `complete`. The
/// barrier takes ownership of the queue, and releases it when the barrier is destroyed or this
/// fails.
fn dart_barrier_create(
    members: *const *const dart_connection,
    count: usize,
    complete: Box<dart_queue>,
    number: u32,
    barrier: Out<Box<dart_barrier>>,
) {
    let members = connections(members, count, "members")?;
    barrier.store(dart_barrier(Barrier::new(members, complete.0, register(number)?)?))
}

/// Releases a barrier and its queue. NULL is a no-op.
fn dart_barrier_destroy(barrier: Box<dart_barrier>);

/// Waits until all members have arrived, and releases them. Stores the number of the round in
/// `round`, which may be NULL.
fn dart_barrier_release(barrier: &mut dart_barrier, round: Option<Out<u64>>, timeout_ms: c_int) {
    let number = waited!(timeout_ms, barrier.0 => release / release_timeout())?;
    if let Some(round) = round {
        round.store(number);
    }
}

/// Creates a member of the barrier whose register is number `number` in the other end's window. The
/// connection's events must go to `released`. The member takes ownership of the queue, and releases
/// it when the member is destroyed or this fails.
fn dart_member_create(
    connection: &dart_connection,
    released: Box<dart_queue>,
    number: u32,
    member: Out<Box<dart_member>>,
) {
    let connection = connection.0.clone();
    member.store(dart_member(Member::new(connection, released.0, register(number)?)))
}

/// Releases a member and its queue. NULL is a no-op.
fn dart_member_destroy(member: Box<dart_member>);

/// Arrives at the barrier, and waits until all members have. Stores the number of the round in
/// `round`, which may be NULL. After a timeout the member has already arrived, and the next call
/// only waits.
fn dart_member_wait(member: &mut dart_member, round: Option<Out<u64>>, timeout_ms: c_int) {
    let number = waited!(timeout_ms, member.0 => wait / wait_timeout())?;
    if let Some(round) = round {
        round.store(number);
    }
}
}

/// Returns the connections of an array from C.
pub(crate) fn connections(
    first: *const *const dart_connection,
    count: usize,
    name: &str,
) -> Result<Vec<Arc<Connection>>, Failure> {
    let all = items(first, count, name)?.iter();
    all.map(|each| Ok(items(*each, 1, &format!("one of the {name}"))?[0].0.clone())).collect()
}
