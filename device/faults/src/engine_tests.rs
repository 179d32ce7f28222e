use hamlyn_trace::contract::Contract;

use super::*;

fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn rules(text: &str) -> Rules {
    Rules::parse(text, &Contract::of("hamlyn")).unwrap()
}

fn faults(text: &str) -> Faults {
    let mut faults = Faults::none();
    faults.start(rules(text), 7, ms(0));
    faults
}

/// Returns the numbers, from 1, of the accesses that fail.
fn failed(rule: &str) -> Vec<u64> {
    let mut faults = faults(rule);
    (1..=12).filter(|_| faults.fails(0x1000, 8, false)).collect()
}

#[test]
fn conditions_choose_the_events() {
    assert_eq!(failed("dma fail").len(), 12);
    assert_eq!(failed("dma fail nth=3"), [3]);
    assert_eq!(failed("dma fail every=5"), [5, 10]);
    assert_eq!(failed("dma fail every=2 times=3"), [2, 4, 6]);
    assert!(failed("dma fail chance=0").is_empty());
    let some = failed("dma fail chance=0.5");
    assert!((1..12).contains(&some.len()), "{some:?}");
    assert_eq!(failed("dma fail chance=0.5"), some, "the same seed");
    assert!(failed("dma fail access=write").is_empty() && failed("dma fail page=0x2000").is_empty());
    assert_eq!(failed("dma fail page=0x1fff").len(), 12, "any address of the page");
}

#[test]
fn rules_count_events_and_faults() {
    let mut faults = faults("dma fail every=2\ninterrupt drop vector=3");
    (0..5).for_each(|_| _ = faults.fails(0, 1, true));
    assert_eq!(faults.raise(3, ms(0)), Raise::Now(0));
    assert_eq!(faults.raise(4, ms(0)), Raise::Now(1));
    let counts: Vec<_> = faults.tallies().iter().map(|tally| (tally.events, tally.faults)).collect();
    assert_eq!(counts, [(5, 2), (1, 1)]);
    assert_eq!(faults.take_notes(), ["dma fail every=2", "dma fail every=2", "interrupt drop vector=3"]);
    assert!(faults.take_notes().is_empty());
}

#[test]
fn interrupts_are_delayed_and_coalesced() {
    let mut late = faults("interrupt delay by=5ms");
    assert_eq!((late.raise(1, ms(10)), late.raise(1, ms(11))), (Raise::Later, Raise::Later));
    assert_eq!((late.alarm(true), late.due_interrupt(ms(14))), (Some(ms(15)), None));
    assert_eq!([15, 15, 16].map(|now| late.due_interrupt(ms(now))), [Some(1), None, Some(1)]);
    let mut one = faults("interrupt coalesce by=5ms");
    (0..4).for_each(|now| _ = one.raise(2, ms(now)));
    assert_eq!([4, 5, 100].map(|now| one.due_interrupt(ms(now))), [None, Some(2), None]);
}

#[test]
fn registers_stick_and_read_as_told() {
    let mut stuck = faults("read stick at=LINK every=2");
    let values: Vec<_> = (1..=4).map(|value| stuck.read(0, 0x10, value)).collect();
    assert_eq!(values, [1, 2, 3, 2], "the first value that it kept");
    assert_eq!(stuck.read(0, 0x14, 9), 9);
    assert_eq!(stuck.read(2, 0x10, 9), 9);
    assert_eq!(faults("read ones").read(4, 0, 5), u64::MAX);
    let mut writes = faults("write drop at=4:\nwrite twice at=CONTROL");
    let times = [(4, 8), (0, 0x20), (0, 0)].map(|(bar, offset)| writes.write(bar, offset));
    assert_eq!(times, [0, 2, 1]);
}

#[test]
fn commands_have_another_status_until_the_next() {
    let mut faults = faults("command refuse status=IN_USE opcode=TEST_DMA nth=1\ncommand drop nth=1");
    assert!(faults.has_commands());
    assert_eq!((faults.command(10), faults.status()), (Command::Refuse(3), Some(3)));
    assert_eq!((faults.command(10), faults.status()), (Command::Times(0), None));
    assert_eq!(faults.command(9), Command::Times(1));
}

#[test]
fn packets_are_changed_by_rule() {
    let deliver = |rule: &str, count: u8| {
        let mut faults = faults(rule);
        assert!(faults.takes_packets());
        (1..=count).for_each(|number| faults.arrive(5, vec![number; 4], ms(0)));
        std::iter::from_fn(|| faults.next_packet(ms(100))).map(|packet| packet.bytes).collect::<Vec<_>>()
    };
    assert_eq!(deliver("packet drop nth=1", 2), [[2; 4]]);
    assert_eq!(deliver("packet twice nth=1", 2), [[1; 4], [1; 4], [2; 4]]);
    assert_eq!(deliver("packet reorder nth=1", 2), [[2; 4], [1; 4]]);
    assert_eq!(deliver("packet cut bytes=3", 1), [[1]]);
    assert_eq!(deliver("packet cut bytes=9", 1), [[0_u8; 0]]);
    assert_eq!(deliver("packet drop from=4", 1).len(), 1);
    let corrupt = deliver("packet corrupt", 1).concat();
    let wrong: u32 = corrupt.iter().map(|byte| (byte ^ 1).count_ones()).sum();
    assert_eq!(wrong, 1, "{corrupt:?}");
    assert!(!faults("dma fail").takes_packets());
}

#[test]
fn states_begin_and_end_in_time() {
    let mut faults = faults("link down after=10ms for=5ms every=100ms times=2\ncard reset after=20ms");
    let mut tick = |now| {
        let due = faults.tick(ms(now));
        (due.link_changed, faults.is(State::Down), due.reset, faults.alarm(true))
    };
    assert_eq!(tick(0), (false, false, false, Some(ms(10))));
    assert_eq!(tick(10), (true, true, false, Some(ms(15))));
    assert_eq!(tick(15), (true, false, false, Some(ms(20))));
    assert_eq!(tick(20), (false, false, true, Some(ms(110))));
    assert_eq!(tick(110), (true, true, false, Some(ms(115))));
    assert_eq!(tick(115), (true, false, false, None));
}

#[test]
fn accesses_wait_as_long_as_told() {
    let mut faults = faults("access delay by=5ms nth=1");
    faults.access(0, ms(0));
    assert_eq!([0, 4, 5].map(|now| faults.holds(0, ms(now))), [true, true, false]);
    assert!(!faults.holds(1, ms(0)) && faults.alarm(true) == Some(ms(5)));
    faults.tick(ms(5));
    faults.access(0, ms(6));
    assert!(!faults.holds(0, ms(6)) && faults.alarm(true).is_none());
}

#[test]
fn removed_card_does_nothing() {
    let mut faults = faults("card remove for=1s");
    faults.tick(ms(0));
    assert_eq!(faults.read(0, 0, 5), u64::MAX);
    assert_eq!((faults.write(0, 0), faults.raise(0, ms(0))), (0, Raise::Now(0)));
    assert!(faults.fails(0, 8, true) && faults.takes_packets());
    faults.arrive(1, vec![1], ms(0));
    assert!(faults.next_packet(ms(1)).is_none());
}

#[test]
fn ended_rules_leave_what_waits() {
    let mut faults = faults("interrupt delay by=5s\npacket delay by=5s\ncard stick for=9s\nlink down for=9s");
    faults.tick(ms(0));
    faults.raise(3, ms(0));
    faults.arrive(1, vec![1], ms(0));
    faults.start(rules(""), 0, ms(0));
    assert!(!faults.is_over() && faults.alarm(true) == Some(ms(0)));
    assert!(faults.tick(ms(1)).link_changed && !faults.is(State::Stuck));
    assert_eq!((faults.due_interrupt(ms(1)), faults.alarm(false)), (Some(3), None));
    assert!(faults.next_packet(ms(1)).is_some() && faults.is_over());
}
