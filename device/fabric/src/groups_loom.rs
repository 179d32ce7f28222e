//! Membership under loom: a card that has joined a group and notified a sender gets what this
//! sender sends afterwards.

use std::sync::Arc;

use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::*;

/// A member's word, whether it has notified the sender, and how much the sender has published.
#[derive(Clone)]
struct Words(Arc<[AtomicU64; 3]>);

impl Words {
    fn told(&self) -> &AtomicU64 {
        &self.0[1]
    }

    fn produced(&self) -> &AtomicU64 {
        &self.0[2]
    }
}

impl Roll for Words {
    fn load_groups(&self, ordering: Ordering) -> u64 {
        self.0[0].load(ordering)
    }

    fn store_groups(&self, groups: u64, ordering: Ordering) {
        self.0[0].store(groups, ordering);
    }
}

/// Runs a member, a sender that sends once it is notified, and a switch, which is this thread.
/// `look` is what the switch does with the sender's ring, and `join` is what the member does.
fn is_reached(join: fn(&Words), look: fn(&Words) -> Option<u64>) {
    let words = Words(Arc::new([0; 3].map(AtomicU64::new)));
    let (member, sender) = (words.clone(), words.clone());
    let member = thread::spawn(move || join(&member));
    let sender = thread::spawn(move || {
        if sender.told().load(Ordering::Acquire) == 1 {
            // Same order as in `ProducerIndex::publish`.
            sender.produced().store(1, Ordering::Release);
        }
    });
    if let Some(groups) = look(&words) {
        assert_eq!(groups, 1, "a member is left out");
    }
    member.join().unwrap();
    sender.join().unwrap();
}

fn join_and_tell(words: &Words) {
    set(words, 1);
    words.told().store(1, Ordering::Release);
}

/// Same order as in `ConsumerIndex::available`.
fn has_packet(words: &Words) -> bool {
    words.produced().load(Ordering::Acquire) == 1
}

#[test]
fn member_receives_after_notifying_the_sender() {
    loom::model(|| is_reached(join_and_tell, |words| has_packet(words).then(|| get(words))));
}

#[test]
#[should_panic(expected = "a member is left out")]
fn reading_membership_before_the_packet_is_too_early() {
    loom::model(|| {
        is_reached(join_and_tell, |words| {
            let groups = get(words);
            has_packet(words).then_some(groups)
        });
    });
}

#[test]
#[should_panic(expected = "a member is left out")]
fn notifying_before_joining_is_too_early() {
    loom::model(|| {
        let join = |words: &Words| {
            words.told().store(1, Ordering::Release);
            set(words, 1);
        };
        is_reached(join, |words| has_packet(words).then(|| get(words)));
    });
}
