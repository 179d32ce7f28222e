//! Seeded simulations of fabrics of CLAN cards.

use hamlyn_sim::clan::simulate;

/// Runs seeds. Checks that enough happened for the run to be meaningful.
fn hold(seeds: std::ops::Range<u64>, cards: Option<u16>, least: [u64; 6]) {
    let (mut figures, mut faults) = ([0; 6], 0);
    for seed in seeds {
        let report = simulate(seed, cards);
        if let Some(violation) = &report.violation {
            panic!("seed {seed}: {violation}\n{}", report.events.join("\n"));
        }
        figures.iter_mut().zip(&report.figures).for_each(|(sum, (_, count))| *sum += count);
        faults += report.faults;
    }
    let enough = figures.iter().zip(least).all(|(sum, least)| *sum >= least);
    assert!(enough, "{figures:?}, {faults} faults: too few to show anything");
}

#[test]
fn nothing_goes_wrong() {
    hold(0..300, None, [100_000, 1000, 1000, 1000, 100, 100]);
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [3, 17, 2_311_230] {
        assert_eq!(simulate(seed, Some(3)), simulate(seed, Some(3)));
    }
}

/// Copies for a group wait while a card begins anew: its earlier words are lost, and no copy.
#[test]
fn beginning_card_loses_no_waiting_copy() {
    for seed in [91_000_103_339, 91_000_099_384, 91_000_002_838] {
        hold(seed..seed + 1, None, [0; 6]);
    }
}
