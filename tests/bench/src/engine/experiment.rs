//! Experiments: what is exchanged between which machines, and how the report shows it.

use std::collections::BTreeMap;

use crate::engine::effort::Effort;
use crate::engine::goals::Goal;
use crate::engine::machines::{Machines, Pair};
use crate::engine::plan::Planned;
use crate::engine::plot::Figure;
use crate::engine::report::Table;
use crate::engine::run::{Request, Run};
use crate::engine::track::{Track, interleave};

/// Measurements that are made in turn, and their place in the report.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// Its name for `--figure`. Experiments may share a name.
    pub name: &'static str,
    /// Its title while it runs.
    pub title: &'static str,
    /// The heading of its measurements. Those with the same heading are shown together, after the
    /// last of them.
    pub heading: &'static str,
    /// Whether a goal is about it.
    pub has_goal: bool,
    /// Machines in addition to those of its exchanges.
    pub pairs: &'static [Pair],
    /// Prepares the machines.
    pub prepare: fn(&Run<'_>, &Running) -> anyhow::Result<()>,
    /// The number of rounds.
    pub rounds: fn(Effort) -> usize,
    /// The exchanges of a round.
    pub plan: fn(Effort) -> Vec<Planned>,
    /// The goals, from its own measurements.
    pub goals: fn(&[Track]) -> Vec<Goal>,
    /// Measurements of another kind, after the exchanges. It may add to those below the heading.
    pub also: fn(&mut Run<'_>, &Running, &mut Vec<Track>) -> anyhow::Result<()>,
    /// The plots of all measurements below the heading.
    pub figures: fn(&[Track]) -> Vec<Figure>,
    /// Their tables.
    pub tables: fn(&[Track]) -> Vec<Table>,
}

impl Experiment {
    /// The rounds of a goal, and nothing to measure or to show.
    pub const NEW: Self = Self {
        name: "",
        title: "",
        heading: "",
        has_goal: false,
        pairs: &[],
        prepare: |_, _| Ok(()),
        rounds: Effort::rounds,
        plan: |_| Vec::new(),
        goals: |_| Vec::new(),
        also: |_, _, _| Ok(()),
        figures: |_| Vec::new(),
        tables: |_| Vec::new(),
    };

    /// Returns whether a request with names that have been checked includes it. No names: all, or
    /// those with goals.
    fn is_wanted(&self, request: &Request) -> bool {
        match &request.figures[..] {
            [] => self.has_goal || !request.goals_only,
            names => names.iter().any(|name| name == self.name),
        }
    }

    /// Returns the exchanges that a run needs, and all machines.
    fn planned(&self, request: &Request) -> (Vec<Planned>, Vec<Pair>) {
        let mut plan = (self.plan)(request.effort);
        plan.retain(|planned| !(request.goals_only && planned.is_extra));
        let pairs = self.pairs.iter().copied().chain(plan.iter().map(|planned| planned.pair)).collect();
        (plan, pairs)
    }

    /// Shows all measurements below its heading.
    pub(crate) fn show(&self, run: &mut Run<'_>, tracks: Vec<Track>) {
        run.plots.extend((self.figures)(&tracks));
        run.others.extend((self.tables)(&tracks));
        run.tables.push((self.heading.to_owned(), tracks));
    }

    /// Makes the exchanges, all in turn.
    fn exchange(&self, run: &Run<'_>, running: &mut Running) -> anyhow::Result<Vec<Track>> {
        let (plan, pairs) = self.planned(run.request);
        running.start(run, &pairs)?;
        (self.prepare)(run, running)?;
        let exchange = |planned: Planned| Some((planned.between(running.get(planned.pair)?)?, planned));
        let (exchanges, plan): (Vec<_>, Vec<_>) = plan.into_iter().filter_map(exchange).unzip();
        if plan.is_empty() {
            return Ok(Vec::new());
        }
        let named: Vec<_> = plan.iter().map(|planned| &planned.name).zip(exchanges).collect();
        let rounds = (self.rounds)(run.request.effort);
        let mut tracks = run.progress.part(self.title, || Ok(interleave(&named, rounds, run.progress)))?;
        tracks.iter_mut().zip(&plan).for_each(|(track, planned)| planned.place(track));
        Ok(tracks)
    }
}

/// The machines that run.
#[derive(Debug, Default)]
pub struct Running(Vec<(Pair, Option<Machines>)>);

impl Running {
    /// Returns a pair, or none if it is optional and could not start.
    pub fn get(&self, pair: Pair) -> Option<&Machines> {
        self.0.iter().find(|(other, _)| *other == pair)?.1.as_ref()
    }

    /// Stops the machines that neither this experiment nor a later one needs. Stops all if this
    /// experiment uses none of them, so that idle machines do not disturb it.
    fn keep(&mut self, own: &[Pair], needed: &[Pair]) {
        let is_used = self.0.iter().any(|(pair, _)| own.contains(pair));
        self.0.retain(|(pair, _)| is_used && needed.contains(pair));
    }

    /// Starts those that do not run.
    fn start(&mut self, run: &Run<'_>, pairs: &[Pair]) -> anyhow::Result<()> {
        for pair in pairs {
            if self.0.iter().all(|(other, _)| other != pair) {
                let started = run.start(*pair);
                self.0.push((*pair, if pair.optional { run.noted(started) } else { Some(started?) }));
            }
        }
        Ok(())
    }
}

/// Runs the requested experiments.
pub(crate) fn measure(run: &mut Run<'_>, experiments: &[Experiment]) -> anyhow::Result<()> {
    let wanted: Vec<_> = experiments.iter().filter(|one| one.is_wanted(run.request)).collect();
    let (mut running, mut headings) = (Running::default(), BTreeMap::<_, Vec<Track>>::new());
    for (index, experiment) in wanted.iter().enumerate() {
        let needed: Vec<Pair> = wanted[index..].iter().flat_map(|one| one.planned(run.request).1).collect();
        running.keep(&experiment.planned(run.request).1, &needed);
        let tracks = experiment.exchange(run, &mut running)?;
        run.goals.extend((experiment.goals)(&tracks));
        let all = headings.entry(experiment.heading).or_default();
        all.extend(tracks);
        (experiment.also)(run, &running, all)?;
        let is_last = wanted[index + 1..].iter().all(|later| later.heading != experiment.heading);
        if is_last && !all.is_empty() {
            experiment.show(run, std::mem::take(all));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: Pair = Pair::of("a model");
    const ALL: [Experiment; 2] = [
        Experiment { name: "trips", has_goal: true, ..Experiment::NEW },
        Experiment {
            name: "streams",
            pairs: &[PAIR],
            plan: |_| vec![PAIR.alone("a", "x"), Pair::of("another").alone("b", "x").extra()],
            ..Experiment::NEW
        },
    ];

    #[test]
    fn experiments_are_found_by_name() {
        let found = |names: &[&str], goals_only| {
            let request = Request::made_up(goals_only, names);
            ALL.iter().filter(|one| one.is_wanted(&request)).map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(found(&["streams"], false), ["streams"]);
        assert_eq!(found(&[], true), ["trips"]);
        assert_eq!(found(&[], false), ["trips", "streams"]);
    }

    #[test]
    fn machines_run_until_their_last_use() {
        let [a, b, c] = ["a", "b", "c"].map(Pair::of);
        let left = |own: &[Pair], needed: &[Pair]| {
            let mut running = Running(vec![(a, None), (b, None)]);
            running.keep(own, needed);
            running.0.into_iter().map(|(pair, _)| pair).collect::<Vec<_>>()
        };
        assert_eq!(left(&[a], &[a, b, c]), [a, b]);
        assert_eq!(left(&[b], &[b, c]), [b]);
        assert_eq!(left(&[c], &[c, a]), [], "none of them is used");
    }

    #[test]
    fn goals_need_no_extra_exchange() {
        let models = |goals_only| {
            let (plan, pairs) = ALL[1].planned(&Request::made_up(goals_only, &[]));
            (plan.len(), pairs.into_iter().map(|pair| pair.model).collect::<Vec<_>>())
        };
        assert_eq!(models(false), (2, vec!["a model", "a model", "another"]));
        assert_eq!(models(true), (1, vec!["a model"; 2]));
    }
}
