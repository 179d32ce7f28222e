//! Whose turn it is to send (section 2.3), and when the card stops looking.
//!
//! The card looks only at termini that are *awake*: those whose owner rang and which have had work since. Their
//! packets are interleaved one by one, so that each gets an equal share.

use super::HamlynCard;
use super::terminus::{Turn, set_awake};
use crate::card::Progress;
use crate::ports::{Link, Ports, barrier_before_last_look};

impl HamlynCard {
    /// Gives each awake terminus its turn until one has sent a packet.
    pub(super) fn take_turns(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress {
        for _ in 0..self.awake.len() {
            let Some(index) = self.awake.pop_front() else { break };
            let Some(terminus) = self.termini.get_mut(index as usize).and_then(Option::as_mut) else {
                continue;
            };
            match terminus.turn(ports, link, self.options.packet_size, &mut self.counters) {
                // It keeps its turn: the link is what it waits for.
                Turn::LinkFull => {
                    self.awake.push_front(index);
                    return Progress::LinkFull;
                }
                Turn::Worked => {
                    self.awake.push_back(index);
                    return Progress::Worked;
                }
                Turn::Idle => self.awake.push_back(index),
            }
        }
        Progress::Idle
    }

    /// Tells the owners of awake termini to ring again, then looks once more.
    pub(super) fn fall_asleep(&mut self, ports: &Ports<'_>) -> bool {
        for terminus in &self.awake {
            set_awake(ports.window, *terminus, false);
        }
        barrier_before_last_look();
        let termini = &self.termini;
        self.awake.retain(|index| {
            let terminus = termini.get(*index as usize).and_then(Option::as_ref);
            terminus.is_some_and(|terminus| terminus.has_work(ports.window))
        });
        for terminus in &self.awake {
            set_awake(ports.window, *terminus, true);
        }
        self.awake.is_empty()
    }
}
