//! Seeded simulations of fabrics of echo cards.

use hamlyn_sim::echo::simulate;

#[test]
fn nothing_goes_wrong() {
    let (mut messages, mut faults) = (0, 0);
    for seed in 0..300 {
        let report = simulate(seed, None);
        if let Some(violation) = &report.violation {
            panic!("seed {seed}: {violation}\n{}", report.events.join("\n"));
        }
        messages += report.figures.iter().map(|(_, count)| count).sum::<u64>();
        faults += report.faults;
    }
    assert!(
        messages > 10_000 && faults > 1000,
        "{messages} messages, {faults} faults: too few to show anything"
    );
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [3, 17, 2_311_230] {
        assert_eq!(simulate(seed, Some(3)), simulate(seed, Some(3)));
    }
}
