//! A barrier over several hosts.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::Arc;

use hamlyn::dart::Connection;
use hamlyn::dart::programs::{Barrier, Member};

use super::caller::register;
use crate::call::{Failure, at_once, call, free, given, store, timeout};
use crate::dart::connection::dart_connection;
use crate::dart::queue::dart_queue;
use crate::memory::items;

/// The host's side of a barrier. One register of the host's card counts the members that have not
/// arrived yet. One thread at a time may use it.
pub struct dart_barrier(Barrier);

/// A member of a barrier. One thread at a time may use it.
pub struct dart_member(Member);

/// Creates a barrier with one member for each connection, at least one. The windows of all of them
/// must have register `number` and the next one, and their events must go to `complete`. The
/// barrier takes ownership of the queue, and releases it when the barrier is destroyed or this
/// fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_barrier_create(
    members: *const *const dart_connection,
    count: usize,
    complete: Option<Box<dart_queue>>,
    number: u32,
    barrier: Option<&mut MaybeUninit<Box<dart_barrier>>>,
) -> c_int {
    call(|| {
        let complete = given(complete, "complete")?.0;
        let (to, members) = (given(barrier, "barrier")?, connections(members, count, "members")?);
        store(to, Box::new(dart_barrier(Barrier::new(members, complete, register(number)?)?)))
    })
}

/// Releases a barrier and its queue. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_barrier_destroy(barrier: Option<Box<dart_barrier>>) {
    free(barrier);
}

/// Waits until all members have arrived, and releases them. Stores the number of the round in
/// `round`, which may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_barrier_release(
    barrier: Option<&mut dart_barrier>,
    round: Option<&mut MaybeUninit<u64>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let barrier = &mut given(barrier, "barrier")?.0;
        tell(round, at_once(timeout_ms, barrier.release(timeout(timeout_ms)))?)
    })
}

/// Creates a member of the barrier whose register is number `number` in the other end's window. The
/// connection's events must go to `released`. The member takes ownership of the queue, and releases
/// it when the member is destroyed or this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_member_create(
    connection: Option<&dart_connection>,
    released: Option<Box<dart_queue>>,
    number: u32,
    member: Option<&mut MaybeUninit<Box<dart_member>>>,
) -> c_int {
    call(|| {
        let released = given(released, "released")?.0;
        let (connection, to) = (given(connection, "connection")?.0.clone(), given(member, "member")?);
        store(to, Box::new(dart_member(Member::new(connection, released, register(number)?))))
    })
}

/// Releases a member and its queue. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_member_destroy(member: Option<Box<dart_member>>) {
    free(member);
}

/// Arrives at the barrier, and waits until all members have. Stores the number of the round in
/// `round`, which may be NULL. After a timeout the member has already arrived, and the next call
/// only waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_member_wait(
    member: Option<&mut dart_member>,
    round: Option<&mut MaybeUninit<u64>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let member = &mut given(member, "member")?.0;
        tell(round, at_once(timeout_ms, member.wait(timeout(timeout_ms)))?)
    })
}

fn tell(to: Option<&mut MaybeUninit<u64>>, round: u64) -> Result<c_int, Failure> {
    match to {
        Some(to) => store(to, round),
        None => Ok(0),
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
