//! Thousands of seeds, and a few handwritten scenarios.

use hamlyn::EndReason;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_sim::Report;
use hamlyn_sim::hamlyn::{CHANNEL_ENDS, Outcome, Scenario, run, run_as};

/// Returns the size of a long test: `all` for `./scripts/test --long`, else `part`.
fn if_long(all: u64, part: u64) -> u64 {
    if std::env::var_os("HAMLYN_LONG").is_some() { all } else { part }
}

fn sound(outcome: &Outcome) {
    let Report { seed, events, violation, .. } = &outcome.report;
    if let Some(violation) = violation {
        let events = events.join("\n");
        panic!("{events}\nseed {seed}: {violation}\nagain: hamlyn sim --seeds 1 --from {seed}");
    }
}

/// Runs seeds and adds up their outcomes.
fn run_seeds(seeds: std::ops::Range<u64>) -> Outcome {
    let mut all = Outcome {
        counters: vec![0; Statistic::ALL.len()],
        connection_ends: vec![0; EndReason::ALL.len()],
        ..Outcome::default()
    };
    for seed in seeds {
        let outcome = run(seed, None);
        sound(&outcome);
        all.report.steps += outcome.report.steps;
        all.report.faults += outcome.report.faults;
        all.report.packets += outcome.report.packets;
        all.messages += outcome.messages;
        all.delivered += outcome.delivered;
        all.blocked += outcome.blocked;
        all.dozed += outcome.dozed;
        all.bystanders += outcome.bystanders;
        all.filled += outcome.filled;
        all.overwritten += outcome.overwritten;
        all.streamed += outcome.streamed;
        all.streams += outcome.streams;
        all.broken_streams += outcome.broken_streams;
        all.connections += outcome.connections;
        all.refused_connections += outcome.refused_connections;
        all.channels += outcome.channels;
        all.said += outcome.said;
        all.slept += outcome.slept;
        all.channel_ends.iter_mut().zip(outcome.channel_ends).for_each(|(sum, count)| *sum += count);
        all.answers.iter_mut().zip(outcome.answers).for_each(|(sum, count)| *sum += count);
        all.connection_ends.iter_mut().zip(outcome.connection_ends).for_each(|(sum, count)| *sum += count);
        all.counters.iter_mut().zip(outcome.counters).for_each(|(sum, count)| *sum += count);
    }
    println!("streams {}, broken {}, bytes {}", all.streams, all.broken_streams, all.streamed);
    let ends: Vec<_> = EndReason::ALL.iter().zip(&all.connection_ends).collect();
    println!("connections {}, refused {}, ends {ends:?}", all.connections, all.refused_connections);
    println!("ends of channels {}, messages {}, slept {}", all.channels, all.said, all.slept);
    println!("channels ended {:?}: {:?}", CHANNEL_ENDS, all.channel_ends);
    println!("names asked for: listened to, not, no answer: {:?}", all.answers);
    println!(
        "steps {}, faults {}, messages {}, delivered {}, blocked {}, dozed {}, bystanders {}, overwritten {}",
        all.report.steps,
        all.report.faults,
        all.messages,
        all.delivered,
        all.blocked,
        all.dozed,
        all.bystanders,
        all.overwritten
    );
    all
}

/// A simulation in which nothing happens would pass too. So each kind of event must have happened,
/// often enough for this number of seeds.
fn eventful(all: &Outcome, seeds: u64) {
    let often = |count: u64, of_ten_thousand: u64| count > of_ten_thousand * seeds / 10_000;
    assert!(often(all.report.faults, 50_000) && often(all.delivered, 100_000), "{all:?}");
    assert!(often(all.blocked, 100) && often(all.dozed, 1000), "{all:?}");
    assert!(often(all.filled, 1000), "{all:?}");
    assert!(often(all.overwritten, 100) && often(all.bystanders, 5000), "{all:?}");
    assert!(often(all.streamed, 1_000_000) && often(all.streams, 1000), "{all:?}");
    assert!(often(all.broken_streams, 1000) && often(all.connections, 1000), "{all:?}");
    assert!(often(all.refused_connections, 1000), "{all:?}");
    assert!(often(all.channels, 500) && often(all.said, 5000) && often(all.slept, 500), "{all:?}");
    // A lost host mostly comes back within a run, and its restart is what the other side is told.
    let [closed, abandoned, process, _host, reset, link] = all.channel_ends;
    assert!([closed, abandoned, process, reset, link].iter().all(|count| *count > 0), "{all:?}");
    assert!(all.answers.iter().all(|count| often(*count, 500)), "{all:?}");
    for (reason, count) in EndReason::ALL.into_iter().zip(&all.connection_ends) {
        // The reset of a card also ends its processes: no process is left to get this reason.
        assert_eq!(*count == 0, reason == EndReason::CardReset, "{reason}: {count}");
    }
    for statistic in Statistic::ALL {
        let count = all.counters[statistic as usize];
        println!("{} {count}", statistic.name());
        // All memory is accessible. An honest driver's commands are refused only if the card's
        // memory is full: any other refusal is a violation.
        let never = [
            Statistic::RefusedSendDma,
            Statistic::RefusedReceiveDma,
            // These fabrics never owe more than a thousand answers to one host.
            Statistic::RefusedFetchOverrun,
        ];
        assert_eq!(count == 0, never.contains(&statistic), "{}: {count}", statistic.name());
    }
}

#[test]
fn thousands_of_seeds_hold() {
    let seeds = if_long(10_000, 4000);
    eventful(&run_seeds(0..seeds), seeds);
}

#[test]
fn thousands_more_seeds_hold() {
    let seeds = if_long(10_000, 4000);
    eventful(&run_seeds(10_000..10_000 + seeds), seeds);
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..10 {
        assert_eq!(run(seed, None), run(seed, None));
        assert_eq!(run(seed, Some(5)), run(seed, Some(5)));
    }
    assert_ne!(run(7, None), run(8, None));
}

#[test]
fn eight_saturated_cards_come_to_rest_without_loss() {
    for seed in 0..4 {
        let outcome = run_as(seed, Scenario::saturation(8));
        sound(&outcome);
        assert_eq!(outcome.delivered, outcome.messages);
        assert_eq!(outcome.pairs, 64, "each to each, and to itself");
        assert!(outcome.blocked > 0 && outcome.counters[Statistic::LinkStalls as usize] > 50, "{outcome:?}");
    }
}

#[test]
fn stalled_card_blocks_only_its_senders() {
    for paths in [1, 4] {
        let mut bystanders = 0;
        for seed in 0..20 {
            let scenario = Scenario { stands_still: true, steps: 1000, paths, ..Scenario::saturation(4) };
            let outcome = run_as(seed, scenario);
            sound(&outcome);
            assert_eq!(outcome.delivered, outcome.messages);
            bystanders += outcome.bystanders;
        }
        assert!(bystanders > 100, "{bystanders}");
    }
}

#[test]
fn slow_switch_and_reordering_lose_nothing() {
    for seed in 0..4 {
        let scenario = Scenario { switch_share: 1, reorder: true, paths: 4, ..Scenario::saturation(4) };
        let outcome = run_as(seed, scenario);
        sound(&outcome);
        assert_eq!(outcome.delivered, outcome.messages);
    }
}

#[test]
fn direct_and_ring_packets_keep_order_without_loss() {
    for seed in 0..4 {
        let scenario = Scenario { by_hand: 50, switch_share: 20, ..Scenario::saturation(4) };
        let outcome = run_as(seed, scenario);
        sound(&outcome);
        assert_eq!(outcome.delivered, outcome.messages);
    }
}

#[test]
fn streams_complete_over_a_reordering_fabric() {
    let (mut streamed, mut streams) = (0, 0);
    for seed in 0..100 {
        let scenario = Scenario {
            streams: true,
            processes: 1,
            steps: 2000,
            traffic: 50,
            switch_share: 5,
            reorder: true,
            paths: 4,
            ..Scenario::saturation(3)
        };
        let outcome = run_as(seed, scenario);
        sound(&outcome);
        assert!(outcome.broken_streams <= outcome.streams, "only those of stale seeds: {outcome:?}");
        streamed += outcome.streamed;
        streams += outcome.streams;
    }
    assert!(streams > 500 && streamed > 200_000, "{streams} streams, {streamed} bytes");
}

#[test]
fn channels_hold_whatever_goes_wrong() {
    let (mut said, mut slept) = (0, 0);
    for (seed, faults) in (0..if_long(1000, 60)).zip([0, 10, 40, 200].into_iter().cycle()) {
        let scenario = Scenario {
            express: true,
            faults,
            forgers: seed % 3 == 0,
            reorder: true,
            paths: 3,
            steps: 6000,
            peer_timeout_ms: 1000,
            ..talkative(2 + seed as u16 % 3)
        };
        let outcome = run_as(seed, scenario);
        sound(&outcome);
        said += outcome.said;
        slept += outcome.slept;
    }
    println!("messages of channels {said}, sleeps {slept}");
    assert!(said > 1000 && slept > 100, "{said} messages, {slept} sleeps");
}

/// Returns a scenario whose programs only connect to each other.
fn talkative(cards: u16) -> Scenario {
    Scenario {
        packet_sizes: vec![320; cards.into()],
        connections: true,
        processes: 0,
        traffic: 0,
        fetches: 0,
        switch_share: 20,
        step_ms: 1,
        handshake_steps: 500,
        ..Scenario::saturation(cards)
    }
}

#[test]
fn connections_end_cleanly_without_faults() {
    let mut connections = 0;
    for seed in 0..50 {
        let scenario =
            Scenario { streams: seed % 2 == 0, reorder: true, paths: 4, steps: 10_000, ..talkative(3) };
        let outcome = run_as(seed, scenario);
        sound(&outcome);
        for (reason, count) in EndReason::ALL.into_iter().zip(&outcome.connection_ends) {
            let said = [
                EndReason::Closed,
                EndReason::Died,
                EndReason::NoName,
                EndReason::BacklogFull,
                EndReason::Rejected,
            ];
            assert!(*count == 0 || said.contains(&reason), "{reason}: {outcome:?}");
        }
        connections += outcome.connections;
    }
    assert!(connections > 1000, "{connections}");
}

#[test]
fn thousands_of_connections_leak_nothing() {
    let connections = if_long(10_000, 2000);
    let scenario = Scenario { steps: 160 * connections, ..talkative(3) };
    let outcome = run_as(1, scenario);
    sound(&outcome);
    assert!(outcome.connections >= connections, "{outcome:?}");
}

#[test]
fn connections_hold_under_many_faults() {
    for seed in 0..50 {
        let scenario = Scenario {
            faults: 100,
            forgers: true,
            streams: seed % 2 == 0,
            reorder: true,
            paths: 3,
            steps: 3000,
            peer_timeout_ms: 1000,
            ..talkative(4)
        };
        sound(&run_as(seed, scenario));
    }
}

#[test]
fn fabric_holds_under_many_faults() {
    for seed in 0..50 {
        let scenario = Scenario {
            faults: 300,
            forgers: true,
            streams: seed % 2 == 0,
            reorder: true,
            steps: 2000,
            ..Scenario::saturation(4)
        };
        sound(&run_as(seed, scenario));
    }
}

/// The judge assumed that a fetch-and-op was carried out. The card had refused it, because a
/// metadata entry had changed meanwhile.
#[test]
fn refused_fetch_and_op_is_answered_as_refused() {
    sound(&run(3692, None));
}

/// A listener got a request twice. The asking host had missed the acceptance, and repeated the
/// request to the listener's next incarnation.
#[test]
fn no_request_is_taken_by_two_incarnations() {
    [7_013_866, 7_064_660, 7_081_583].into_iter().for_each(|seed| sound(&run(seed, None)));
}

/// The ledger confused a packet with another one of the same sender. Both were empty and for the
/// same place.
#[test]
fn empty_messages_are_matched_by_metadata() {
    sound(&run(3_141_623_859, None));
}

/// A sender reported that its peer had left. The peer's process had died, and the sender had read
/// the page that is shown in place of the peer's memory.
#[test]
fn sender_tells_death_from_leaving() {
    [8_008_178, 8_015_821].into_iter().for_each(|seed| sound(&run(seed, None)));
}

/// The page lists of a slot's message area could be allocated, but not those of its metadata. The
/// pages of the first lists leaked.
#[test]
fn failed_slot_open_leaks_no_pages() {
    sound(&run(2_718_393_656, None));
}
