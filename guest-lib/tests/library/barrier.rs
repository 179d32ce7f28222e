//! The barrier, with a card in memory (section 2.5).

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::fake::Fake;
use hamlyn::protocol::barrier::{Barrier, Entrance};
use hamlyn::{Card, Error};

/// Creates the participants of a barrier, all on one card.
fn participants(card: &Card, count: usize) -> Vec<Barrier> {
    let entrances: Vec<_> = (0..count).map(|_| Entrance::create(card).unwrap()).collect();
    let tickets: Vec<_> = entrances.iter().map(|entrance| entrance.ticket().unwrap()).collect();
    let join = |(index, entrance): (usize, Entrance)| {
        entrance.join(card.create_terminus().unwrap(), &tickets, index).unwrap()
    };
    entrances.into_iter().enumerate().map(join).collect()
}

#[test]
fn no_participant_leaves_before_all_have_entered() {
    const ROUNDS: u32 = 300;
    for count in [1, 2, 3, 7] {
        let card = Card::attached(Fake::default().share());
        let entered = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for mut barrier in participants(&card, count) {
                let entered = &entered;
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        entered.fetch_add(1, Ordering::SeqCst);
                        barrier.wait().unwrap();
                        let entered = entered.load(Ordering::SeqCst) as usize;
                        assert!(entered >= count * round as usize, "{entered} in round {round} of {count}");
                        assert!(entered <= count * (round as usize + 1));
                    }
                    assert_eq!(barrier.rounds(), u64::from(ROUNDS));
                });
            }
        });
    }
}

#[test]
fn a_time_out_leaves_the_round_entered() {
    let card = Card::attached(Fake::default().share());
    let mut participants = participants(&card, 3);
    let now = Duration::ZERO;
    for round in 1..=5 {
        for _ in 0..3 {
            let error = participants[0].wait_timeout(now).unwrap_err();
            assert_eq!(error.to_string(), "no other participants within 0ns");
            assert!(participants[1].wait_timeout(now).unwrap_err().is_timed_out());
        }
        participants[2].wait_timeout(now).unwrap();
        // It is exactly one round ahead now.
        assert!(participants[2].wait_timeout(now).unwrap_err().is_timed_out());
        participants[1].wait_timeout(now).unwrap();
        participants[0].wait_timeout(now).unwrap();
        assert_eq!(participants[2].rounds(), 2 * round - 1);
        assert!(participants[0].wait_timeout(now).unwrap_err().is_timed_out());
        participants[1].wait_timeout(now).unwrap();
        participants[0].wait_timeout(now).unwrap();
        participants[2].wait_timeout(now).unwrap();
        assert!(participants.iter().all(|participant| participant.rounds() == 2 * round));
    }
}

#[test]
fn out_of_range_index_is_refused() {
    let card = Card::attached(Fake::default().share());
    let entrance = Entrance::create(&card).unwrap();
    let tickets = [entrance.ticket().unwrap(); 2];
    let error = entrance.join(card.create_terminus().unwrap(), &tickets, 2).unwrap_err();
    assert!(matches!(error, Error::OutOfRange { object: "barrier index", value: 2, limit: 1 }), "{error}");
    let entrance = Entrance::create(&card).unwrap();
    assert!(entrance.join(card.create_terminus().unwrap(), &[], 0).is_err());
}
