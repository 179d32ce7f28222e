//! Groups of hosts, for multicast (section 2.5 of the CLAN paper): a packet to a group goes to each
//! member.
//!
//! Groups have numbers above those of all hosts, so the header needs no extra field. A card stores
//! its memberships in a word of its link's shared memory, one bit for each group. This mirrors the
//! stop bits, which the switch writes for the card ([`stop`](crate::stop)): here the ring's
//! producer stores the word and its consumer loads it.
//!
//! **When membership begins.** The switch reads the words of all cards when it forwards a packet to
//! a group, and keeps no copy. Suppose a card joins a group and then notifies a sender in any way.
//! It receives everything that this sender sends to the group afterwards. The word was stored
//! before the packet was published, and the switch loads the word after it has seen the packet.
//! Neither the store nor the load needs an ordering of its own, because notifying and publishing
//! have one (checked with loom).
//!
//! A card that has left a group may still get packets that were in flight. A card that attaches to
//! a port starts without memberships.

use std::sync::atomic::Ordering;

use crate::header::HostId;

/// Number of groups.
pub const GROUPS: u16 = 64;
/// The destination of packets to group 0; those of the other groups follow.
pub const FIRST_GROUP: u16 = 0xff00;

/// Access to the shared word.
pub(crate) trait Roll {
    fn load_groups(&self, ordering: Ordering) -> u64;
    fn store_groups(&self, groups: u64, ordering: Ordering);
}

/// Sets the groups that the producer is a member of from now on.
pub(crate) fn set(roll: &impl Roll, groups: u64) {
    roll.store_groups(groups, Ordering::Relaxed);
}

/// Returns the groups that the producer is a member of. All bits are valid, so any stored value is
/// sound.
pub(crate) fn get(roll: &impl Roll) -> u64 {
    roll.load_groups(Ordering::Relaxed)
}

impl HostId {
    /// Returns the number of the group, 0 to 63, if this is the id of a group.
    pub fn group(self) -> Option<u32> {
        self.0.checked_sub(FIRST_GROUP).filter(|group| *group < GROUPS).map(u32::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_ids_lie_above_all_host_ids() {
        let groups = (0..=u16::MAX).filter_map(|number| HostId(number).group().map(|group| (number, group)));
        assert!(groups.eq((0xff00..=0xff3f).zip(0..64)));
        assert!(usize::from(FIRST_GROUP) >= crate::stop::DESTINATIONS);
    }
}

#[cfg(test)]
#[path = "groups_loom.rs"]
mod groups_loom;
