//! Express memory between two operating systems: ownership of pages, in all cases of failure.

use hamlyn_abi::kernel::express::*;
use hamlyn_abi::kernel::wire::{ULN_WIRE_CARD, ULN_WIRE_EXPRESS};
use zerocopy::IntoBytes;

use super::*;
use crate::express::End;

const MEMORY: u64 = 77;
/// Each host assigns half of them.
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

    /// Returns the numbers of pages that areas have, that are leaving, and that views have.
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

    /// Makes an area of `pages` pages at a host, for the other one.
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

    /// Makes an area at host 0, and a view of it at host 1.
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

/// Sends a message about express memory from host 0 that its driver would not send.
fn say(two: &mut Two, what: u32, from: u32, to: u32, data: &[u8]) {
    two.sides[0].say(1, [from, to, what], data).unwrap();
    two.collect();
    for (_, sent) in &mut two.flying {
        if sent.wire.kind == ULN_WIRE_CARD {
            sent.wire.kind = ULN_WIRE_EXPRESS;
        }
    }
    two.carry();
}

/// Returns the number that an area or a view has for the other host.
fn number(side: &Side, end: u32) -> u32 {
    side.system.host.express_look(end).unwrap().number
}

/// Makes a view that asks for area 9 of host 0. Host 0 has not received the request, but the hosts
/// know each other.
fn asking(two: &mut Two) -> (u32, u32) {
    two.area(0, 1).unwrap();
    let view = two.sides[1].view(0, &End { number: 9, key: 1, pages: vec![] });
    two.sides[1].card.sent.clear();
    (view, number(&two.sides[1], view))
}

#[test]
fn first_area_waits_for_settlement() {
    let mut two = Two::express();
    assert_eq!(two.sides[0].counts(1), [0, 16, 0]);
    assert_eq!(two.sides[0].area(1, 4, false), Err(Errno::AGAIN));
    assert_eq!(two.sides[0].area(1, 4, true), Err(Errno::AGAIN), "the host has not answered yet");
    two.carry();
    let area = two.sides[0].area(1, 4, true).unwrap();
    assert_eq!(two.sides[0].counts(1), [4, 0, 0]);
    assert_eq!(two.sides[0].end(area).unwrap().pages, [0, 1, 2, 3]);
    // The other host assigns the other half.
    let area = two.area(1, 16).unwrap();
    assert_eq!(two.sides[1].end(area).unwrap().pages, (16..32).collect::<Vec<_>>());
    assert_eq!(two.area(1, 1), Err(Errno::NOSPC));
    assert_eq!(two.area(1, 17), Err(Errno::INVAL));
    assert_eq!(two.sides[1].area(2, 1, false), Err(Errno::HOSTUNREACH), "there is no part with it");
    two.check();
}

#[test]
fn pages_are_freed_once_both_sides_close() {
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
    // Both at the same time.
    let (area, view) = two.pair(16);
    two.sides[0].give_back(area);
    two.sides[1].give_back(view);
    two.carry();
    assert_eq!((two.sides[0].counts(1), two.sides[1].counts(0)), ([0; 3], [0, 16, 0]));
    two.check();
}

#[test]
fn view_needs_number_key_and_host() {
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
    // A host cannot view its own areas.
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
fn host_without_express_memory_refuses_views() {
    let mut two = Two::new();
    two.begin(1, MEMORY);
    let view = two.sides[1].view(0, &End { number: 1, key: 1, pages: vec![] });
    two.carry();
    assert_eq!(two.sides[1].end(view), Err(Errno::HOSTUNREACH));
    // It does not keep the other host from its own pages either.
    assert!(two.area(1, 1).is_ok());
    two.check();
}

#[test]
fn pages_of_lost_host_wait_for_settlement() {
    let mut two = Two::express();
    let (area, view) = two.pair(16);
    two.pass(TIMEOUT + 1000, false);
    assert_eq!(two.sides[1].card.withdrawn, [view], "it has lost us, too");
    assert_eq!(two.sides[1].end(view), Err(Errno::HOSTDOWN));
    assert_eq!(two.sides[0].counts(1), [16, 0, 0], "an area stays its process'");
    two.sides[0].give_back(area);
    assert_eq!(two.sides[0].counts(1), [0, 16, 0]);
    // The host does not answer: it is asked once, and lost again.
    assert_eq!(two.sides[0].area(1, 1, false), Err(Errno::AGAIN));
    two.pass(TIMEOUT + 1000, false);
    assert_eq!(two.sides[0].area(1, 1, true), Err(Errno::HOSTDOWN));
    // The host is back.
    two.pass(1000, true);
    assert!(two.area(0, 16).is_ok());
    two.check();
}

#[test]
fn kept_area_does_not_shorten_view_timeout() {
    let mut two = Two::express();
    let (area, _) = two.pair(2);
    two.pass(TIMEOUT + 1000, false);
    assert!(two.sides[0].end(area).is_ok(), "its process keeps it, though the host is lost");
    // The host is as slow as allowed, and is not considered lost at each check.
    let view = two.sides[0].view(1, &End { number: 9, key: 1, pages: vec![] });
    two.pass(TIMEOUT / 2, false);
    assert!(two.sides[0].system.express(view).is_ok(), "it waits for an answer");
    two.pass(1000, true);
    assert_eq!(two.sides[0].end(view), Err(Errno::ACCESS), "it has answered");
    two.check();
}

#[test]
fn pages_granted_to_no_view_return() {
    let mut two = Two::express();
    let area = two.area(1, 2).unwrap();
    let end = two.sides[1].end(area).unwrap();
    // As for a view that was refused, and whose second request is granted.
    let ask = [end.key.to_le_bytes(), MEMORY.to_le_bytes()].concat();
    say(&mut two, ULN_EXPRESS_SAY_MAP, 77, end.number, &ask);
    let view = two.sides[0].view(1, &end);
    two.carry();
    assert_eq!(two.sides[0].end(view).unwrap().pages, end.pages, "the area is not busy");
    two.sides[0].give_back(view);
    two.carry();
    say(&mut two, ULN_EXPRESS_SAY_MAP, 77, end.number, &ask);
    two.sides[1].give_back(area);
    two.carry();
    assert_eq!(two.sides[1].counts(0), [0; 3]);
    two.check();
}

#[test]
fn too_small_share_asks_lost_host_to_settle() {
    let mut two = Two::express();
    two.sides[0].system.express_spare(8);
    assert_eq!(two.area(0, 9), Err(Errno::DQUOT), "of 16 pages 8 are others'");
    let (area, _) = two.pair(6);
    two.pass(TIMEOUT + 1000, false);
    two.sides[0].give_back(area);
    // Ten are free, and the user may have two of them, until it is known that the other host does
    // not see the rest.
    assert_eq!(two.sides[0].counts(1), [0, 6, 0]);
    assert_eq!(two.sides[0].area(1, 8, false), Err(Errno::AGAIN), "the other is asked first");
    two.pass(1000, true);
    assert!(two.area(0, 8).is_ok());
    two.check();
}

#[test]
fn paused_host_removes_views_before_settling() {
    let mut two = Two::express();
    let (area, view) = two.pair(16);
    // Host 1 stands still: its time does not advance.
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
    // The first message makes it remove the view; its answers arrive after that.
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
fn restarted_host_is_asked_to_settle_again() {
    let mut two = Two::express();
    two.sides[1].say(0, [0; 3], b"identity").unwrap();
    two.carry();
    assert_eq!(two.sides[0].area(1, 4, false), Err(Errno::AGAIN));
    // The question does not arrive before the host has lost all its memory.
    two.sides[0].card.sent.clear();
    two.sides[1].lost(ULN_END_CARD_RESET);
    two.sides[1].say(0, [0; 3], b"identity after the restart").unwrap();
    two.carry();
    assert_eq!(two.sides[0].area(1, 4, true), Err(Errno::AGAIN), "it is alive, and has not answered yet");
    two.pass(2000, true);
    assert!(two.sides[0].area(1, 4, true).is_ok());
    two.check();
}

#[test]
fn one_users_messages_do_not_block_another() {
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
fn invalid_pages_from_hostile_host_are_refused() {
    let runs = |runs: &[(u32, u32)]| {
        let mut pages = UlnExpressPages { runs: runs.len() as u32, ..UlnExpressPages::default() };
        for (run, &(first, count)) in pages.run.iter_mut().zip(runs) {
            *run = UlnExpressRun { first, count };
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
    strange.push(UlnExpressPages { runs: 31, ..runs(&[(0, 1)]) });
    strange.push(UlnExpressPages { runs: u32::MAX, ..runs(&[(0, 1)]) });
    for pages in strange {
        let mut two = Two::express();
        let (view, number) = asking(&mut two);
        say(&mut two, ULN_EXPRESS_SAY_PAGES, 9, number, pages.as_bytes());
        assert_eq!(two.sides[1].end(view), Err(Errno::PROTO), "{pages:?}");
        assert_eq!(two.sides[1].counts(0), [0, 16, 0]);
        two.check();
    }
    // Pages of another view cannot be viewed either.
    let mut two = Two::express();
    let (_, first) = two.pair(2);
    let (view, number) = asking(&mut two);
    say(&mut two, ULN_EXPRESS_SAY_PAGES, 9, number, runs(&[(5, 1), (1, 1)]).as_bytes());
    assert_eq!(two.sides[1].end(view), Err(Errno::PROTO));
    assert_eq!(two.sides[1].counts(0), [0, 16, 2]);
    assert!(two.sides[1].end(first).is_ok());
    two.check();
}

#[test]
fn invalid_messages_change_nothing() {
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
fn message_without_memory_is_sent_later() {
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
fn view_request_to_old_driver_fails() {
    let mut two = Two::express();
    let view = two.sides[1].view(0, &End { number: 9, key: 1, pages: vec![] });
    // A driver without express memory acknowledges the message, and skips it.
    for _ in 0..400 {
        two.now += 50;
        two.sides.iter_mut().for_each(|side| side.time_is(two.now));
        two.collect();
        while !two.flying.is_empty() {
            let (from, mut sent) = two.flying.remove(0);
            if sent.wire.kind == ULN_WIRE_EXPRESS {
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
fn stopping_express_memory_ends_everything() {
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
fn many_areas_leave_nothing_behind() {
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
