//! Turns of the termini (section 2.3), and when the card stops polling them.
//!
//! The card polls only termini that are *awake*: those whose owner rang and which have had work
//! since. The number of bytes in a turn depends on the weight
//! ([`Allowance`](super::allowance::Allowance)).

use std::collections::VecDeque;

use hamlyn_abi::hamlyn::window::HAMLYN_WINDOW_AWAKE;
use hamlyn_card::card::Progress;
use hamlyn_card::chassis::table::Table;
use hamlyn_card::ports::{Mapped, Ports, barrier_before_last_look};

use super::parked::Parked;
use super::terminus::{Outlet, Served, Terminus, window_of};
use crate::WINDOWS;
use crate::packet::HEADER_BYTES;

/// Number of looks at an idle terminus, while others are busy, before its owner must ring again.
/// The limit keeps a busy terminus from paying for all termini that were ever used. It is high
/// because a doorbell costs more than thousands of looks.
const IDLE_LOOKS: u32 = 1 << 14;

/// Tells the owner whether the card polls its work queue without a doorbell.
pub(super) fn set_awake(window: Mapped<'_>, terminus: u32, awake: bool) {
    window.store(window_of(terminus) + u64::from(HAMLYN_WINDOW_AWAKE), awake.into());
}

/// Tells the owner of a long idle terminus to ring again, then looks once more. Returns `true` if
/// there is work, so that the owner need not ring.
fn has_late_work(window: Mapped<'_>, index: u32, terminus: &Terminus) -> bool {
    set_awake(window, index, false);
    barrier_before_last_look();
    let has_work = terminus.has_work(window);
    if has_work {
        set_awake(window, index, true);
    }
    has_work
}

/// The termini that the card polls.
#[derive(Debug)]
pub(super) struct Scheduler {
    /// Bytes that a terminus of weight 1 may send in a round.
    quantum: usize,
    /// Those that the card polls without a doorbell, in the order of their turns.
    awake: VecDeque<u32>,
}

impl Scheduler {
    pub(super) fn new(quantum: usize) -> Self {
        Self { quantum, awake: VecDeque::new() }
    }

    /// Starts to poll a terminus's work queue.
    pub(super) fn wake(&mut self, ports: &Ports<'_>, terminus: u32) {
        if !self.awake.contains(&terminus) {
            set_awake(ports.window(WINDOWS), terminus, true);
            self.awake.push_back(terminus);
        }
    }

    /// Gives termini turns again that were parked. Their owners were not told otherwise.
    pub(super) fn resume(&mut self, termini: Vec<u32>) {
        self.awake.extend(termini);
    }

    /// Stops to poll a terminus that is being closed.
    pub(super) fn forget(&mut self, ports: &Ports<'_>, terminus: u32) {
        self.awake.retain(|awake| *awake != terminus);
        set_awake(ports.window(WINDOWS), terminus, false);
    }

    /// Forgets all termini: they are closed.
    pub(super) fn clear(&mut self) {
        self.awake.clear();
    }

    /// Gives each awake terminus its turn until one has sent a packet.
    pub(super) fn take_turns(
        &mut self,
        ports: &Ports<'_>,
        termini: &mut Table<Terminus>,
        parked: &mut Parked,
        outlet: &mut Outlet<'_>,
    ) -> Progress {
        for _ in 0..self.awake.len() {
            let Some(index) = self.awake.pop_front() else { break };
            let Some(terminus) = termini.get_mut(index as usize).and_then(Option::as_mut) else {
                continue;
            };
            match terminus.turn(ports, outlet) {
                // The terminus keeps its turn, because it waits for the link.
                Served::LinkFull => {
                    self.awake.push_front(index);
                    return Progress::LinkFull;
                }
                // The others do not wait for that host.
                Served::Stopped(host) => parked.put_terminus(host, index),
                Served::Worked(bytes) => {
                    // A refused request has a cost, too.
                    if terminus.allowance.spend(bytes.max(HEADER_BYTES), self.quantum) {
                        self.awake.push_front(index);
                    } else {
                        self.awake.push_back(index);
                    }
                    return Progress::Worked;
                }
                Served::Idle => {
                    let keeps_looking = terminus.allowance.idle() < IDLE_LOOKS;
                    if keeps_looking || has_late_work(ports.window(WINDOWS), index, terminus) {
                        self.awake.push_back(index);
                    }
                }
            }
        }
        Progress::Idle
    }

    /// Tells the owners of awake termini to ring again, then looks once more. Returns `true` if
    /// none has work. The owners of parked termini need not ring: the card looks there
    /// again by itself.
    pub(super) fn fall_asleep(&mut self, ports: &Ports<'_>, termini: &Table<Terminus>) -> bool {
        for terminus in &self.awake {
            set_awake(ports.window(WINDOWS), *terminus, false);
        }
        barrier_before_last_look();
        self.awake.retain(|index| {
            let terminus = termini.get(*index as usize).and_then(Option::as_ref);
            terminus.is_some_and(|terminus| terminus.has_work(ports.window(WINDOWS)))
        });
        for terminus in &self.awake {
            set_awake(ports.window(WINDOWS), *terminus, true);
        }
        self.awake.is_empty()
    }
}
