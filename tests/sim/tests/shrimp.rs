//! Seeded simulations of fabrics of SHRIMP cards.

use hamlyn_sim::shrimp::simulate;

/// Runs seeds. Checks that enough happened for the run to be meaningful.
fn hold(seeds: std::ops::Range<u64>, cards: Option<u16>, least: (u64, u64)) {
    let (mut deposits, mut faults) = (0, 0);
    for seed in seeds {
        let report = simulate(seed, cards);
        if let Some(violation) = &report.violation {
            panic!("seed {seed}: {violation}\n{}", report.events.join("\n"));
        }
        let deposited = report.figures.iter().filter(|(name, _)| *name == "deposits");
        deposits += deposited.map(|(_, count)| count).sum::<u64>();
        faults += report.faults;
    }
    assert!(
        deposits > least.0 && faults > least.1,
        "{deposits} deposits, {faults} faults: too few to show anything"
    );
}

#[test]
fn nothing_goes_wrong() {
    hold(0..300, None, (10_000, 1000));
}

/// Most of these fabrics use a mesh, like the paper's multicomputer.
#[test]
fn nothing_goes_wrong_among_sixteen_nodes() {
    hold(1000..1030, Some(16), (1000, 500));
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [3, 17, 2_311_230] {
        assert_eq!(simulate(seed, Some(3)), simulate(seed, Some(3)));
    }
}
