//! Fabrics of CLAN cards, from seeds.

use hamlyn_sim::clan::simulate;

/// Runs seeds, in which so much must have happened that they show something.
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

/// Who asked for more than a packet of the answering card holds had its link broken by the answer.
#[test]
fn what_is_asked_for_is_answered_in_packets_of_the_card_s_own_length() {
    hold(26..27, None, [0; 6]);
    hold(34..35, None, [0; 6]);
}

/// A burst that reaches beyond its aperture was refused whole, or not, as it happened to be cut.
#[test]
fn words_within_an_aperture_arrive_though_others_behind_them_are_beyond_it() {
    for seed in [19, 42, 48, 55, 60, 61, 64, 74, 93] {
        hold(seed..seed + 1, None, [0; 6]);
    }
}

/// There was a word in the memory of an endpoint that was refused, as its event queue had no room for it.
#[test]
fn an_endpoint_that_is_refused_finds_nothing_in_its_memory() {
    hold(8..9, None, [0; 6]);
    hold(10..11, None, [0; 6]);
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [3, 17, 2_311_230] {
        assert_eq!(simulate(seed, Some(3)), simulate(seed, Some(3)));
    }
}
