//! Sleeping by the driver's own call. The library looks again within 100 ms, which would hide a wake-up that is lost.

use std::path::Path;
use std::sync::mpsc;

use hamlyn_abi::clan::endpoint::{CLAN_STATE_BITS, CLAN_STATE_CLEARED};
use hamlyn_abi::clan::tripwire::CLAN_TRIPWIRE_OK;
use hamlyn_abi::clan::uapi::{CLAN_IOC_WAIT, ClanWait};
use hamlyn_sys::{Access, barrier};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::reach::Reach;
use crate::trespass::{Ground, PAGE};

/// Stores that are slept for, one after the other.
const ROUNDS: u64 = 500;
/// A sleep that takes as long is not going to end.
const LOST_NS: i64 = 60_000_000_000;

/// A thread stores to this host's own memory through the card, while another goes to sleep for that.
pub(crate) fn run(path: &Path) -> Outcome {
    let ground = Ground::prepare(path)?;
    let mut reach = Reach::new(&ground)?;
    let answer = reach.set(ground.aperture.aperture, (0, 8))?;
    if answer != CLAN_TRIPWIRE_OK {
        return Err(format!("the card answers {answer} to a Tripwire").into());
    }
    let window = ground.device.map(ground.window.offset_of_pages, 2 * PAGE, Access::ReadWrite)?;
    let (next, rounds) = mpsc::sync_channel(0);
    let slept = std::thread::scope(|scope| {
        scope.spawn(move || rounds.iter().for_each(|round| window.store_u64(0, round)));
        (1..=ROUNDS)
            .try_fold(0, |slept, round| -> Outcome<u64> {
                next.send(round)?;
                // The aperture begins 8 bytes into the memory.
                let sleeps = sleep_until(&reach, || ground.memory.load_u64(8) == round)?;
                Ok(slept + sleeps)
            })
            .inspect(|_| drop(next))
    })?;
    print(&json!({ "rounds": ROUNDS, "slept": slept }))
}

/// Sleeps until something is so; how often that took a sleep.
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
