//! Express memory between two operating systems: who has which pages, whatever becomes of whom.

use hamlyn_abi::kernel::express::*;
use hamlyn_abi::kernel::wire::{HAMLYN_WIRE_CARD, HAMLYN_WIRE_EXPRESS};
use zerocopy::IntoBytes;

use super::*;
use crate::express::End;

const MEMORY: u64 = 77;
/// Half of them are each host's to give.
const PAGES: u32 = 32;

impl Side {
    fn area(&mut self, host: u32, pages: u32, again: bool) -> Result<u32> {
        self.system.express_create(&mut self.card, host, pages, again)
    }

    fn view(&mut self, host: u32, of: &End) -> u32 {
        self.system.express_map(&mut self.card, host, of.number, of.key).unwrap()
    }

    fn give_back(&mut self, number: u32) {
        self.system.express_close(&mut self.card, number);
    }

    fn end(&self, number: u32) -> Result<End> {
        self.system.express(number).map(Option::unwrap)
    }

    /// Pages that areas have, that are leaving, and that views have.
    fn counts(&mut self, host: u32) -> [u32; 3] {
        let query = self.system.express_query(&mut self.card, host);
        assert!(query.used + query.leaving <= query.pages);
        [query.used, query.leaving, query.viewed]
    }
}

impl Two {
    fn express() -> Self {
        let mut two = Two::new();
        for host in 0..2 {
            two.begin(host, MEMORY);
        }
        two
    }

    fn begin(&mut self, host: u32, memory: u64) {
        let side = &mut self.sides[host as usize];
        side.link_is(Some(host), 1);
        side.system.express_begin(&mut side.card, host).unwrap();
        side.system.express_part(&mut side.card, 1 - host, memory, PAGES).unwrap();
    }

    /// An area of so many pages of a host's, for the other.
    fn area(&mut self, host: usize, pages: u32) -> Result<u32> {
        let other = 1 - host as u32;
        match self.sides[host].area(other, pages, false) {
            Err(Errno::AGAIN) => {
                self.carry();
                self.sides[host].area(other, pages, true)
            }
            made => made,
        }
    }

    /// An area of host 0 and a view of it of host 1.
    fn pair(&mut self, pages: u32) -> (u32, u32) {
        let area = self.area(0, pages).unwrap();
        let end = self.sides[0].end(area).unwrap();
        let view = self.sides[1].view(0, &end);
        self.carry();
        assert_eq!(self.sides[1].end(view).unwrap().pages, end.pages);
        (area, view)
    }

    fn check(&self) {
        for side in &self.sides {
            assert_eq!(side.system.complaint(), None);
        }
    }
}

/// Host 0 says something of express memory that its driver would not.
fn say(two: &mut Two, what: u32, from: u32, to: u32, data: &[u8]) {
    two.sides[0].say(1, [from, to, what], data).unwrap();
    two.collect();
    for (_, sent) in &mut two.flying {
        if sent.wire.kind == HAMLYN_WIRE_CARD {
            sent.wire.kind = HAMLYN_WIRE_EXPRESS;
        }
    }
    two.carry();
}

/// An area's or a view's number for the other host.
fn number(side: &Side, end: u32) -> u32 {
    side.system.host.express_look(end).unwrap().number
}

/// A view that asks for area 9 of host 0, which has not heard of it, but knows the other.
fn asking(two: &mut Two) -> (u32, u32) {
    two.area(0, 1).unwrap();
    let view = two.sides[1].view(0, &End { number: 9, key: 1, pages: vec![] });
    two.sides[1].card.sent.clear();
    (view, number(&two.sides[1], view))
}

#[test]
fn the_first_area_is_made_once_the_other_host_has_settled() {
    let mut two = Two::express();
    assert_eq!(two.sides[0].counts(1), [0, 16, 0]);
    assert_eq!(two.sides[0].area(1, 4, false), Err(Errno::AGAIN));
    assert_eq!(two.sides[0].area(1, 4, true), Err(Errno::AGAIN), "nobody has answered yet");
    two.carry();
    let area = two.sides[0].area(1, 4, true).unwrap();
    assert_eq!(two.sides[0].counts(1), [4, 0, 0]);
    assert_eq!(two.sides[0].end(area).unwrap().pages, [0, 1, 2, 3]);
    // The other gives the other half.
    let area = two.area(1, 16).unwrap();
    assert_eq!(two.sides[1].end(area).unwrap().pages, (16..32).collect::<Vec<_>>());
    assert_eq!(two.area(1, 1), Err(Errno::NOSPC));
    assert_eq!(two.area(1, 17), Err(Errno::INVAL));
    assert_eq!(two.sides[1].area(2, 1, false), Err(Errno::HOSTUNREACH), "there is no part with it");
    two.check();
}

#[test]
fn pages_go_back_when_nobody_sees_them_any_more_whoever_is_first() {
    let mut two = Two::express();
    for maker_first in [true, false] {
        let (area, view) = two.pair(5);
        assert_eq!(two.sides[1].counts(0), [0, 16, 5]);
        if maker_first {
            two.sides[0].give_back(area);
            assert_eq!(two.sides[0].counts(1), [0, 5, 0], "the other may still store there");
            two.carry();
            assert_eq!(two.sides[1].card.withdrawn, [view]);
            assert_eq!(two.sides[1].end(view), Err(Errno::ACCESS));
            two.sides[1].give_back(view);
        } else {
            two.sides[1].card.withdrawn.clear();
            two.sides[1].give_back(view);
            two.carry();
            assert_eq!(two.sides[0].counts(1), [5, 0, 0], "its maker still has it");
            two.sides[0].give_back(area);
        }
        assert_eq!((two.sides[0].counts(1), two.sides[1].counts(0)), ([0; 3], [0, 16, 0]));
    }
    // Both at once.
    let (area, view) = two.pair(16);
    two.sides[0].give_back(area);
    two.sides[1].give_back(view);
    two.carry();
    assert_eq!((two.sides[0].counts(1), two.sides[1].counts(0)), ([0; 3], [0, 16, 0]));
    two.check();
}

#[test]
fn a_view_needs_number_key_and_host_and_there_is_but_one() {
    let mut two = Two::express();
    let (area, _) = two.pair(1);
    let end = two.sides[0].end(area).unwrap();
    let refused = |two: &mut Two, end: &End| {
        let view = two.sides[1].view(0, end);
        two.carry();
        let error = two.sides[1].end(view).unwrap_err();
        two.sides[1].give_back(view);
        error
    };
    assert_eq!(refused(&mut two, &end), Errno::BUSY);
    assert_eq!(refused(&mut two, &End { key: end.key ^ 1, ..end.clone() }), Errno::ACCESS);
    assert_eq!(refused(&mut two, &End { number: end.number + 1, ..end.clone() }), Errno::ACCESS);
    // Its own areas are for others.
    let own = two.area(1, 1).unwrap();
    let own = two.sides[1].end(own).unwrap();
    assert_eq!(refused(&mut two, &own), Errno::ACCESS);
    assert_eq!(two.sides[0].counts(1), [1, 0, 0]);
    two.check();
}

#[test]
fn memory_of_another_switch_is_not_shared() {
    let mut two = Two::new();
    two.begin(0, MEMORY);
    two.begin(1, MEMORY + 1);
    let area = two.area(0, 1).unwrap();
    let end = two.sides[0].end(area).unwrap();
    let view = two.sides[1].view(0, &end);
    two.carry();
    assert_eq!(two.sides[1].end(view), Err(Errno::HOSTUNREACH));
    two.check();
}

#[test]
fn a_host_without_express_memory_says_so() {
    let mut two = Two::new();
    two.begin(1, MEMORY);
    let view = two.sides[1].view(0, &End { number: 1, key: 1, pages: vec![] });
    two.carry();
    assert_eq!(two.sides[1].end(view), Err(Errno::HOSTUNREACH));
    // Nor does it keep the other from its own pages.
    assert!(two.area(1, 1).is_ok());
    two.check();
}

#[test]
fn pages_of_a_lost_host_are_given_to_nobody_until_it_settles() {
    let mut two = Two::express();
    let (area, view) = two.pair(16);
    two.pass(TIMEOUT + 1000, false);
    assert_eq!(two.sides[1].card.withdrawn, [view], "it has lost us, too");
    assert_eq!(two.sides[1].end(view), Err(Errno::HOSTDOWN));
    assert_eq!(two.sides[0].counts(1), [16, 0, 0], "an area stays its process'");
    two.sides[0].give_back(area);
    assert_eq!(two.sides[0].counts(1), [0, 16, 0]);
    // Nobody is there to ask: it is asked once, and lost again.
    assert_eq!(two.sides[0].area(1, 1, false), Err(Errno::AGAIN));
    two.pass(TIMEOUT + 1000, false);
    assert_eq!(two.sides[0].area(1, 1, true), Err(Errno::HOSTDOWN));
    // It is back.
    two.pass(1000, true);
    assert!(two.area(0, 16).is_ok());
    two.check();
}

#[test]
fn an_area_of_ones_own_has_nobody_elses_questions_cut_short() {
    let mut two = Two::express();
    let (area, _) = two.pair(2);
    two.pass(TIMEOUT + 1000, false);
    assert!(two.sides[0].end(area).is_ok(), "its process keeps it, though the host is lost");
    // The host is as slow as it may be, and not lost at each look.
    let view = two.sides[0].view(1, &End { number: 9, key: 1, pages: vec![] });
    two.pass(TIMEOUT / 2, false);
    assert!(two.sides[0].system.express(view).is_ok(), "it waits for an answer");
    two.pass(1000, true);
    assert_eq!(two.sides[0].end(view), Err(Errno::ACCESS), "it has answered");
    two.check();
}

#[test]
fn pages_that_are_granted_to_nobody_come_back() {
    let mut two = Two::express();
    let area = two.area(1, 2).unwrap();
    let end = two.sides[1].end(area).unwrap();
    // As of a view that was refused, and whose second question is granted.
    let ask = [end.key.to_le_bytes(), MEMORY.to_le_bytes()].concat();
    say(&mut two, HAMLYN_EXPRESS_SAY_MAP, 77, end.number, &ask);
    let view = two.sides[0].view(1, &end);
    two.carry();
    assert_eq!(two.sides[0].end(view).unwrap().pages, end.pages, "the area is not busy");
    two.sides[0].give_back(view);
    two.carry();
    say(&mut two, HAMLYN_EXPRESS_SAY_MAP, 77, end.number, &ask);
    two.sides[1].give_back(area);
    two.carry();
    assert_eq!(two.sides[1].counts(0), [0; 3]);
    two.check();
}

#[test]
fn a_share_that_is_too_small_for_want_of_a_lost_hosts_pages_has_it_settle() {
    let mut two = Two::express();
    two.sides[0].system.express_spare(8);
    assert_eq!(two.area(0, 9), Err(Errno::DQUOT), "of 16 pages 8 are others'");
    let (area, _) = two.pair(6);
    two.pass(TIMEOUT + 1000, false);
    two.sides[0].give_back(area);
    // Ten are free, and he may have two of them, until it is known that nobody sees the others.
    assert_eq!(two.sides[0].counts(1), [0, 6, 0]);
    assert_eq!(two.sides[0].area(1, 8, false), Err(Errno::AGAIN), "the other is asked first");
    two.pass(1000, true);
    assert!(two.area(0, 8).is_ok());
    two.check();
}

#[test]
fn a_host_that_slept_takes_its_views_away_before_it_settles() {
    let mut two = Two::express();
    let (area, view) = two.pair(16);
    // Host 1 stands still: no time goes by for it.
    for _ in 0..200 {
        two.now += 50;
        two.sides[0].time_is(two.now);
        two.sides[0].card.sent.clear();
    }
    two.sides[0].give_back(area);
    assert_eq!(two.sides[0].counts(1), [0, 16, 0]);
    assert!(two.sides[1].end(view).is_ok(), "its process still stores there");
    assert_eq!(two.sides[0].area(1, 1, false), Err(Errno::AGAIN));
    two.collect();
    // What it hears first makes it take the view away; what it answers is heard after that.
    while !two.flying.is_empty() {
        let free = two.sides[0].counts(1) != [0, 16, 0];
        assert!(!free || two.sides[1].end(view).is_err(), "pages are free that a view still has");
        let message = two.flying.remove(0);
        two.deliver(message);
        two.collect();
    }
    two.pass(1000, true);
    assert!(two.sides[0].area(1, 16, true).is_ok());
    two.check();
}

#[test]
fn a_host_that_starts_anew_while_it_is_asked_to_settle_is_asked_again() {
    let mut two = Two::express();
    two.sides[1].say(0, [0; 3], b"who I am").unwrap();
    two.carry();
    assert_eq!(two.sides[0].area(1, 4, false), Err(Errno::AGAIN));
    // The question is not heard before it has lost all its memory.
    two.sides[0].card.sent.clear();
    two.sides[1].lost(HAMLYN_END_CARD_RESET);
    two.sides[1].say(0, [0; 3], b"who I am now").unwrap();
    two.carry();
    assert_eq!(two.sides[0].area(1, 4, true), Err(Errno::AGAIN), "it is alive, and has not answered yet");
    two.pass(2000, true);
    assert!(two.sides[0].area(1, 4, true).is_ok());
    two.check();
}

#[test]
fn what_one_user_has_to_say_keeps_nobody_else_from_it() {
    let mut two = Two::express();
    let area = two.area(0, 3).unwrap();
    let end = two.sides[0].end(area).unwrap();
    two.sides[1].system.express_user(0, 2);
    let strange = End { number: end.number + 1, ..end.clone() };
    let many: Vec<_> = (0..6).map(|_| two.sides[1].view(0, &strange)).collect();
    assert_eq!(two.sides[1].system.sizes().messages, 2, "the rest waits for them");
    two.sides[1].system.express_user(1, 2);
    let view = two.sides[1].view(0, &end);
    assert_eq!(two.sides[1].system.sizes().messages, 3);
    two.carry();
    assert_eq!(two.sides[1].end(view).unwrap().pages, end.pages);
    two.pass(1000, true);
    for view in many {
        assert_eq!(two.sides[1].end(view), Err(Errno::ACCESS));
    }
    two.sides[1].give_back(view);
    two.carry();
    assert_eq!(two.sides[1].system.sizes().users, 0);
    two.check();
}

#[test]
fn what_a_hostile_host_names_is_not_viewed() {
    let runs = |runs: &[(u32, u32)]| {
        let mut pages = HamlynExpressPages { runs: runs.len() as u32, ..HamlynExpressPages::default() };
        for (run, &(first, count)) in pages.run.iter_mut().zip(runs) {
            *run = HamlynExpressRun { first, count };
        }
        pages
    };
    let mut strange = vec![
        runs(&[]),
        runs(&[(0, 0)]),
        runs(&[(0, 17)]),
        runs(&[(16, 1)]),
        runs(&[(31, 1)]),
        runs(&[(15, u32::MAX)]),
        runs(&[(u32::MAX, 1)]),
        runs(&[(u32::MAX, u32::MAX)]),
        runs(&[(0, 2), (1, 1)]),
        runs(&[(3, 1), (4, 1), (3, 1)]),
    ];
    strange.push(HamlynExpressPages { runs: 31, ..runs(&[(0, 1)]) });
    strange.push(HamlynExpressPages { runs: u32::MAX, ..runs(&[(0, 1)]) });
    for pages in strange {
        let mut two = Two::express();
        let (view, number) = asking(&mut two);
        say(&mut two, HAMLYN_EXPRESS_SAY_PAGES, 9, number, pages.as_bytes());
        assert_eq!(two.sides[1].end(view), Err(Errno::PROTO), "{pages:?}");
        assert_eq!(two.sides[1].counts(0), [0, 16, 0]);
        two.check();
    }
    // Nor what another view has.
    let mut two = Two::express();
    let (_, first) = two.pair(2);
    let (view, number) = asking(&mut two);
    say(&mut two, HAMLYN_EXPRESS_SAY_PAGES, 9, number, runs(&[(5, 1), (1, 1)]).as_bytes());
    assert_eq!(two.sides[1].end(view), Err(Errno::PROTO));
    assert_eq!(two.sides[1].counts(0), [0, 16, 2]);
    assert!(two.sides[1].end(first).is_ok());
    two.check();
}

#[test]
fn strange_messages_change_nothing() {
    let mut two = Two::express();
    let (area, view) = two.pair(3);
    let (there, here) = (number(&two.sides[1], view), number(&two.sides[0], area));
    for what in 0..12 {
        for (from, to) in [(here, there + 1), (here + 1, there), (0, there), (here + 1, 0), (there + 5, here)]
        {
            for length in [0, 8, 16, 248, 256] {
                say(&mut two, what, from, to, &vec![0xff; length]);
            }
        }
    }
    assert_eq!((two.sides[0].counts(1), two.sides[1].counts(0)), ([3, 0, 0], [0, 16, 3]));
    assert!(two.sides[1].end(view).is_ok());
    two.check();
}

#[test]
fn without_memory_for_a_message_it_is_said_later() {
    for pieces in 0..12 {
        let mut two = Two::express();
        let (area, view) = two.pair(4);
        two.sides[1].card.memory = Some(pieces);
        two.sides[0].card.memory = Some(pieces / 2);
        two.sides[0].give_back(area);
        two.sides[1].give_back(view);
        two.carry();
        two.sides.iter_mut().for_each(|side| side.card.memory = None);
        two.pass(1000, true);
        assert_eq!((two.sides[0].counts(1), two.sides[1].counts(0)), ([0; 3], [0, 16, 0]));
        two.check();
    }
}

#[test]
fn a_question_that_nobody_understands_ends() {
    let mut two = Two::express();
    let view = two.sides[1].view(0, &End { number: 9, key: 1, pages: vec![] });
    // A driver from before there was express memory acknowledges, and passes over it.
    for _ in 0..400 {
        two.now += 50;
        two.sides.iter_mut().for_each(|side| side.time_is(two.now));
        two.collect();
        while !two.flying.is_empty() {
            let (from, mut sent) = two.flying.remove(0);
            if sent.wire.kind == HAMLYN_WIRE_EXPRESS {
                sent.wire.kind = 99;
            }
            two.deliver((from, sent));
            two.collect();
        }
    }
    assert_eq!(two.sides[1].end(view), Err(Errno::HOSTUNREACH));
    two.sides[1].give_back(view);
    two.check();
}

#[test]
fn when_the_memory_goes_all_end_and_others_know() {
    let mut two = Two::express();
    let (area, view) = two.pair(4);
    let side = &mut two.sides[0];
    side.system.express_stop(&mut side.card);
    assert_eq!(side.card.withdrawn, [area]);
    two.pass(1000, true);
    two.sides[0].give_back(area);
    let side = &mut two.sides[0];
    side.system.express_part(&mut side.card, 1, MEMORY, PAGES).unwrap();
    assert!(two.area(0, 16).is_ok());
    assert_eq!(two.sides[1].end(view), Err(Errno::HOSTDOWN), "else no page would have been free");
    two.check();
}

#[test]
fn many_areas_come_and_go_and_nothing_is_left() {
    let mut two = Two::express();
    let before = two.sides[0].system.sizes().pieces;
    for round in 0..2000u32 {
        let (first, view) = two.pair(1 + round % 7);
        let (second, _) = (two.area(0, 1 + round % 5).unwrap(), ());
        if round % 2 == 0 {
            two.sides[0].give_back(first);
        }
        two.sides[1].give_back(view);
        two.carry();
        if round % 2 != 0 {
            two.sides[0].give_back(first);
        }
        two.sides[0].give_back(second);
        two.carry();
    }
    assert_eq!((two.sides[0].counts(1), two.sides[1].counts(0)), ([0; 3], [0, 16, 0]));
    assert_eq!(two.sides[0].system.sizes().pieces, before);
    two.check();
}
