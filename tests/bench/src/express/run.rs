//! Runs all measurements of express memory.

use crate::engine::goals::{Goal, Need};
use crate::engine::idle::{self, Idle};
use crate::engine::run::Run;
use crate::engine::track::Track;
use crate::express::choice::{Topic, wanted};
use crate::express::{labs, streams, table, trips};

/// Measures the requested topics, between the same two machines.
pub(crate) fn measure(run: &mut Run<'_>) -> anyhow::Result<()> {
    let topics = wanted(&run.request.figures);
    let has = |topic| topics.contains(&topic);
    let (effort, progress) = (run.request.effort, run.progress);
    let machines = labs::express(run)?;
    let mut tracks: Vec<Track> = Vec::new();
    if has(Topic::Trips) {
        let title = "express memory: round trips (goals 18 and 21)";
        let trips = progress.part(title, || Ok(trips::measure(&machines, effort, progress)))?;
        run.goals.extend(trips::goals(&trips));
        tracks.extend(trips);
    }
    if has(Topic::Streams) {
        let title = "express memory: messages one way (goals 19 and 20)";
        let streams = progress.part(title, || Ok(streams::measure(&machines, effort, progress)))?;
        run.goals.extend(streams::goals(&streams));
        tracks.extend(streams);
    }
    if has(Topic::Idle) {
        let idle = progress.part("express memory: idle (goal 22)", || {
            idle::measure(&machines, "express-doze", effort.pick(3, 20), progress)
        });
        run.goals.extend(idle_goals(run.noted(idle).as_ref()));
    }
    if !tracks.is_empty() {
        run.others.push(table::table(&tracks));
        run.tables.push(("Express memory, beside others".to_owned(), tracks));
    }
    Ok(())
}

/// Goal 22, with the same limits as goal 6.
fn idle_goals(idle: Option<&Idle>) -> Vec<Goal> {
    let percent = |value: f64| value * 100.0;
    let services = idle.map(|idle| percent(idle.services));
    let application = idle.map(|idle| percent(idle.application));
    let (most, asleep) = (Need::AtMost(1.0), Need::AtMost(0.1));
    vec![
        Goal::own(22, "idle, with express memory", "% of a core", services, most),
        Goal::own(22, "a receiver that sleeps at a channel", "% of a core", application, asleep),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    #[test]
    fn sleeping_uses_no_processor_time() {
        let idle = Idle { layout: "", services: 0.001, application: 0.01 };
        let verdicts = |idle| idle_goals(idle).iter().map(Goal::verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(Some(&idle)), [Verdict::Met, Verdict::Short]);
        assert_eq!(verdicts(None), [Verdict::NotMeasured; 2]);
    }
}
