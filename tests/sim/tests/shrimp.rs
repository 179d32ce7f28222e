//! Fabrics of SHRIMP cards, from seeds.

use hamlyn_sim::shrimp::simulate;

#[test]
fn nothing_goes_wrong() {
    let (mut deposits, mut faults) = (0, 0);
    for seed in 0..300 {
        let report = simulate(seed, None);
        if let Some(violation) = &report.violation {
            panic!("seed {seed}: {violation}\n{}", report.events.join("\n"));
        }
        let deposited = report.figures.iter().filter(|(name, _)| *name == "deposits");
        deposits += deposited.map(|(_, count)| count).sum::<u64>();
        faults += report.faults;
    }
    assert!(
        deposits > 10_000 && faults > 1000,
        "{deposits} deposits, {faults} faults: too few to show anything"
    );
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [3, 17, 2_311_230] {
        assert_eq!(simulate(seed, Some(3)), simulate(seed, Some(3)));
    }
}
