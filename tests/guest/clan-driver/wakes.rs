//! Sleeps in the driver's own call. The library checks again within 100 ms, which would hide a lost
//! wake-up.

use std::mem::offset_of;
use std::path::Path;
use std::sync::mpsc;

use hamlyn_abi::clan::endpoint::{CLAN_STATE_BITS, CLAN_STATE_CLEARED};
use hamlyn_abi::clan::event::{CLAN_EVENT_SIZE, CLAN_EVENTS_HEAD, CLAN_EVENTS_TAKEN, ClanEvent};
use hamlyn_abi::clan::tripwire::{CLAN_TRIPWIRE_BIT, CLAN_TRIPWIRE_EVENT, CLAN_TRIPWIRE_OK};
use hamlyn_abi::clan::uapi::*;
use hamlyn_sys::{Access, Mapping, barrier};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::reach::Reach;
use crate::trespass::{Ground, PAGE};

/// Number of stores to sleep for, one after the other.
const ROUNDS: u64 = 500;
/// Timeout that means a lost wake-up.
const LOST_NS: i64 = 60_000_000_000;

/// One thread stores to this host's own memory through the card. Another sleeps for each store:
/// first for a bit of its endpoint, then for an event.
pub(crate) fn run(path: &Path) -> Outcome {
    let ground = Ground::prepare(path)?;
    let mut reach = Reach::new(&ground)?;
    let own = ground.aperture.aperture;
    let actions = [CLAN_TRIPWIRE_BIT, CLAN_TRIPWIRE_EVENT];
    let mut slept = [0; 2];
    let mut events = ClanEventsOf { endpoint: ground.endpoint.endpoint, events: ground.events.queue };
    ground.device.card_call::<CLAN_IOC_EVENTS_OF, _>(&mut events, &[])?;
    let length = (CLAN_EVENTS_HEAD + ground.events.records * CLAN_EVENT_SIZE) as usize;
    let queue = ground.device.map(ground.events.memory_offset, length, Access::ReadWrite)?;
    let window = ground.device.map(ground.window.offset_of_pages, 2 * PAGE, Access::ReadWrite)?;
    for (action, slept) in actions.into_iter().zip(&mut slept) {
        let answer = reach.set_to(action, own, (0, 8))?;
        if answer != CLAN_TRIPWIRE_OK {
            return Err(format!("the card answers {answer} to a Tripwire").into());
        }
        let (next, rounds) = mpsc::sync_channel(0);
        std::thread::scope(|scope| {
            let window = &window;
            scope.spawn(move || rounds.iter().for_each(|round| window.store_u64(0, round)));
            for round in 1..=ROUNDS {
                // The aperture begins 8 bytes into the memory.
                let stored = || ground.memory.load_u64(8) == round;
                next.send(round)?;
                *slept += match action {
                    CLAN_TRIPWIRE_BIT => sleep_until(&reach, stored)?,
                    _ => take_event(&ground, &queue, round as u32 - 1)?,
                };
                if !stored() {
                    return Err(format!("round {round}: awake before the store").into());
                }
            }
            drop(next);
            Outcome::Ok(())
        })?;
    }
    print(&json!({ "rounds": ROUNDS, "slept": slept[0], "events": slept[1] }))
}

/// Sleeps until the queue has an event after the first `taken`, and takes it. Returns the number of
/// events found.
fn take_event(ground: &Ground, queue: &Mapping, taken: u32) -> Outcome<u64> {
    let mut wait = ClanEventsWait { timeout_ns: LOST_NS, queue: ground.events.queue, taken };
    ground.device.card_call::<CLAN_IOC_EVENTS_WAIT, _>(&mut wait, &[])?;
    let place = CLAN_EVENTS_HEAD + taken % ground.events.records * CLAN_EVENT_SIZE;
    let number = queue.load_u32_acquire(place as usize + offset_of!(ClanEvent, number));
    queue.store_u32_release(CLAN_EVENTS_TAKEN as usize, taken + 1);
    barrier::before_queue_check();
    Ok(u64::from(number == taken + 1))
}

/// Sleeps until `is_so` returns true. Returns the number of sleeps.
fn sleep_until(reach: &Reach<'_>, is_so: impl Fn() -> bool) -> Outcome<u64> {
    let mut sleeps = 0;
    loop {
        let bits = reach.memory.load_u64(CLAN_STATE_BITS as usize);
        reach.memory.store_u64(CLAN_STATE_CLEARED as usize, bits);
        barrier::before_sleep_check();
        if is_so() {
            return Ok(sleeps);
        }
        let endpoint = reach.ground.endpoint.endpoint;
        let mut wait = ClanWait { bits: 1, timeout_ns: LOST_NS, endpoint, ..ClanWait::default() };
        reach.ground.device.card_call::<CLAN_IOC_WAIT, _>(&mut wait, &[])?;
        sleeps += 1;
    }
}
