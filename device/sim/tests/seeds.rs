//! Some thousands of seeds, and a few fabrics written by hand.

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_sim::{Outcome, Scenario, run, run_as};

fn sound(outcome: &Outcome) {
    if let Some(violation) = &outcome.violation {
        let Outcome { seed, events, .. } = outcome;
        let events = events.join("\n");
        panic!("{events}\nseed {seed}: {violation}\nagain: hamlyn sim --seeds 1 --from {seed}");
    }
}

#[test]
fn thousands_of_seeds_hold() {
    let mut all = Outcome { counters: vec![0; Statistic::ALL.len()], ..Outcome::default() };
    for seed in 0..3000 {
        let outcome = run(seed, None);
        sound(&outcome);
        all.steps += outcome.steps;
        all.faults += outcome.faults;
        all.messages += outcome.messages;
        all.delivered += outcome.delivered;
        all.counters.iter_mut().zip(outcome.counters).for_each(|(sum, count)| *sum += count);
    }
    println!(
        "steps {}, faults {}, messages {}, delivered {}",
        all.steps, all.faults, all.messages, all.delivered
    );
    for statistic in Statistic::ALL {
        println!("{} {}", statistic.name(), all.counters[statistic as usize]);
    }
    // A simulation in which nothing happens would hold, too.
    assert!(all.faults > 10_000 && all.delivered > 100_000);
}
