//! Goal 9: the card's logic compared with copies of the same bytes, in turn.

use std::time::Duration;

use crate::engine::copies::Copies;
use crate::engine::effort::Effort;
use crate::engine::estimates;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{Goal, Need};
use crate::engine::paths;
use crate::hamlyn::parts::Delivery;
use crate::hamlyn::paths::PATHS;

/// Goal 9, the other components, and the library's instructions.
pub(crate) const PARTS: Experiment = Experiment {
    name: "parts",
    has_goal: true,
    also: |run, _, _| {
        let (effort, progress, model) = (run.request.effort, run.progress, run.model);
        let parts = run.estimates(ESTIMATES);
        run.others.push(estimates::table(&parts, PACKET_TOOK));
        let turns = progress.part("card and copies in turn (goal 9)", || measure(effort));
        run.goals.extend(goals(&run.noted(turns).unwrap_or_default()));
        if let Some(folder) = run.request.peers.as_ref().filter(|_| !run.request.goals_only) {
            let measure = || paths::measure(folder, model, &PATHS);
            let costs = run.noted(progress.part("instructions of the library", measure));
            run.others.extend(costs.map(|costs| paths::table(&costs, &PATHS)));
        }
        Ok(())
    },
    ..Experiment::NEW
};

/// The title of the components' measurement.
pub(crate) const ESTIMATES: &str = "the parts by themselves (goal 9)";

/// The note below the table of the components.
const PACKET_TOOK: &str = "What a packet took the paper's interface processor: 12.5 us (section 4.2).";

/// The measurements of goal 9, round by round: card and copies in turn.
#[derive(Debug, Default)]
struct Turns {
    /// 64-byte packets, in million a second.
    small: Vec<f64>,
    /// 4 KiB packets, in MB/s.
    large: Vec<f64>,
    /// Copies of 4 KiB, in MB/s.
    copied: Vec<f64>,
}

/// Delivers packets and copies the same number of bytes, in turn.
fn measure(effort: Effort) -> anyhow::Result<Turns> {
    const SMALL: u64 = 1 << 20;
    const LARGE: u64 = 1 << 16;
    let mut turns = Turns::default();
    let (mut small, mut large) = (Delivery::create(64, 1)?, Delivery::create(4096, 16)?);
    let mut copies = Copies::create(4096)?;
    let rate = |count: u64, bytes: u64, time: Duration| (count * bytes) as f64 / time.as_secs_f64() / 1e6;
    for round in 0..=effort.pick(9, 25) {
        // Before the first round, processor and memory are cold.
        let share = if round == 0 { 8 } else { 1 };
        let packets = rate(SMALL / share, 1, small.run(SMALL / share)?);
        let [mut delivered, mut copied] = [0.0; 2];
        // Each of them comes first equally often.
        for card in [round % 2 == 0, round % 2 != 0] {
            if card {
                delivered = rate(LARGE / share, 4096, large.run(LARGE / share)?);
            } else {
                copied = rate(LARGE / share, 4096, copies.run(LARGE / share)?);
            }
        }
        if round > 0 {
            turns.small.push(packets);
            turns.large.push(delivered);
            turns.copied.push(copied);
        }
    }
    small.finish()?;
    large.finish()?;
    Ok(turns)
}

/// Goal 9.
fn goals(turns: &Turns) -> Vec<Goal> {
    let (small, large) =
        ("card logic: 64-byte packets delivered", "card logic: 4 KiB packets of 64 KiB messages");
    vec![
        Goal::in_rounds(9, small, "million/s", &turns.small, Need::AtLeast(10.0)),
        Goal::beside(9, large, "MB/s", &turns.large, ("memcpy", &turns.copied), Need::RatioAtLeast(0.8)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    #[test]
    fn a_ratio_is_that_of_one_round() {
        let turns = Turns { small: vec![9.0, 20.0], large: vec![80.0, 40.0], copied: vec![100.0, 50.0] };
        let goals = goals(&turns);
        assert_eq!(goals[0].verdict(), Verdict::WithinNoise);
        assert_eq!((goals[1].ratio(), goals[1].verdict()), (Some(0.8), Verdict::Met));
    }
}
