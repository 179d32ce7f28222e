//! The protocol under loom, which explores the interleavings of two threads under the memory model.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;

use super::*;

#[derive(Clone)]
struct Shared<const FENCED: bool>(Arc<[AtomicU64; 2]>);

impl<const FENCED: bool> Board for Shared<FENCED> {
    fn load_watch(&self, ordering: Ordering) -> u64 {
        self.0[0].load(ordering)
    }

    fn load_live(&self, ordering: Ordering) -> u64 {
        self.0[1].load(ordering)
    }

    fn store_live(&self, live: u64, ordering: Ordering) {
        self.0[1].store(live, ordering);
    }

    fn fence_between_store_and_look(&self) {
        if FENCED {
            fence(Ordering::SeqCst);
        }
    }
}

/// A live machine tries to end while a card begins to watch.
fn watched_while_it_ends<const FENCED: bool>() {
    let shared = Shared::<FENCED>(Arc::new([AtomicU64::new(0), AtomicU64::new(0)]));
    begin(&shared);
    let machine = shared.clone();
    let thread = thread::spawn(move || end(&machine));
    shared.0[0].store(1 << 1 | 1, Ordering::Release);
    let believes = is_live(&shared);
    let ended = thread.join().unwrap();
    assert!(!(believes && ended), "stores are missed");
    // A machine that could not end sets the live word again, for a card that looks again.
    assert!(ended || is_live(&shared), "it is live and does not say so");
}

#[test]
fn card_that_saw_live_misses_no_store() {
    loom::model(watched_while_it_ends::<true>);
}

#[test]
#[should_panic(expected = "stores are missed")]
fn stores_are_missed_without_fences() {
    loom::model(watched_while_it_ends::<false>);
}
