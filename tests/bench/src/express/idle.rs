//! Goal 22: a program that sleeps at a channel costs nothing.

use crate::engine::experiment::Experiment;
use crate::engine::goals::{Goal, Need};
use crate::engine::idle::{self, Idle};
use crate::express::pairs::EXPRESS;

pub(crate) const IDLE: Experiment = Experiment {
    name: "idle",
    has_goal: true,
    pairs: &[EXPRESS],
    also: |run, running, _| {
        let (effort, progress) = (run.request.effort, run.progress);
        let idle = running.get(EXPRESS).and_then(|machines| {
            let measure = || idle::measure(machines, "channel-doze", effort.pick(3, 20), progress);
            run.noted(progress.part("express memory: idle (goal 22)", measure))
        });
        run.goals.extend(goals(idle.as_ref()));
        Ok(())
    },
    ..Experiment::NEW
};

/// Goal 22, with the same limits as goal 6.
fn goals(idle: Option<&Idle>) -> Vec<Goal> {
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
        let verdicts = |idle| goals(idle).iter().map(Goal::verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(Some(&idle)), [Verdict::Met, Verdict::Short]);
        assert_eq!(verdicts(None), [Verdict::NotMeasured; 2]);
    }
}
