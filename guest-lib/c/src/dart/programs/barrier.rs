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

/// Who looks after a barrier: one register of his counts those that have still to come. One thread
/// at a time may use it.
pub struct dart_barrier(Barrier);

/// A member of a barrier. One thread at a time may use it.
pub struct dart_member(Member);

/// Makes a barrier of as many members as there are connections, at least one, all of whose windows
/// have the register under this number, and whose events go to `complete`. The queue is the
/// barrier's from now on, even if this fails, and goes with it.
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

/// Lets a barrier go, with its queue. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_barrier_destroy(barrier: Option<Box<dart_barrier>>) {
    free(barrier);
}

/// Waits until all have come, and releases them. `round`, which may be NULL, is how often that has
/// been.
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

/// Makes a member of the barrier whose register is that of the other end's window under this
/// number; the connection's events go to `released`. The queue is the member's from now on, even if
/// this fails, and goes with it.
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

/// Lets a member go, with its queue. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_member_destroy(member: Option<Box<dart_member>>) {
    free(member);
}

/// Comes to the barrier, and waits until all have. `round`, which may be NULL, is the barrier's.
/// Who did not wait to the end has come all the same: the next call only waits.
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

/// Connections that C has in a row.
pub(crate) fn connections(
    first: *const *const dart_connection,
    count: usize,
    name: &str,
) -> Result<Vec<Arc<Connection>>, Failure> {
    let all = items(first, count, name)?.iter();
    all.map(|each| Ok(items(*each, 1, &format!("one of the {name}"))?[0].0.clone())).collect()
}
