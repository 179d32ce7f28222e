//! Groups of hosts, for multicast (section 2.5 of the CLAN paper): a packet to a group goes to each
//! member.
//!
//! Groups have numbers behind those of all hosts, so that the header needs no more room. Of which
//! groups a card is a member, it says in a word of its link's shared memory: a bit for each, as the
//! stop bits are that the switch has for it ([`stop`](crate::stop)), but the other way round. The
//! producer of the ring stores the word, the ring's consumer loads it.
//!
//! **From when on.** The switch looks at the words of all cards when it forwards a packet to a
//! group, and keeps no copy. So a card that has become a member, and then lets somebody know, by
//! whatever way, gets all that this one sends to the group afterwards: the word was stored before
//! the packet was published, and the switch looks at the word after it has seen the packet. Neither
//! store nor load need an order of their own, as letting know and publishing have one (explored
//! with loom).
//!
//! A card that is no member any more may still get packets that were on their way. One that comes
//! to a port begins with none.

use std::sync::atomic::Ordering;

use crate::header::HostId;

/// How many groups there are.
pub const GROUPS: u16 = 64;
/// The destination of packets to group 0; those of the others follow.
pub const FIRST_GROUP: u16 = 0xff00;

/// Access to the shared word.
pub(crate) trait Roll {
    fn load_groups(&self, ordering: Ordering) -> u64;
    fn store_groups(&self, groups: u64, ordering: Ordering);
}

/// The producer is a member of these groups from now on.
pub(crate) fn set(roll: &impl Roll, groups: u64) {
    roll.store_groups(groups, Ordering::Relaxed);
}

/// Of which groups the producer is a member. All bits mean something: whatever it stores is sound.
pub(crate) fn get(roll: &impl Roll) -> u64 {
    roll.load_groups(Ordering::Relaxed)
}

impl HostId {
    /// The number of the group, 0 to 63, if it is that of a group and of no host.
    pub fn group(self) -> Option<u32> {
        self.0.checked_sub(FIRST_GROUP).filter(|group| *group < GROUPS).map(u32::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_behind_all_hosts_and_before_any_host() {
        let groups = (0..=u16::MAX).filter_map(|number| HostId(number).group().map(|group| (number, group)));
        assert!(groups.eq((0xff00..=0xff3f).zip(0..64)));
        assert!(usize::from(FIRST_GROUP) >= crate::stop::DESTINATIONS);
    }
}

#[cfg(test)]
#[path = "groups_loom.rs"]
mod groups_loom;
