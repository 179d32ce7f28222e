//! One run: what is asked for, and what came of it. What a model brings.

use std::path::PathBuf;

use criterion::Criterion;
use hamlyn_host::catalogue::Model;
use hamlyn_lab::Accel;

use crate::engine::effort::Effort;
use crate::engine::estimates::{self, Estimates};
use crate::engine::foreign::Peer;
use crate::engine::goals::Goal;
use crate::engine::machines::{Layout, Machines};
use crate::engine::plot::Figure;
use crate::engine::progress::Progress;
use crate::engine::report::{Facts, Results, Table};
use crate::engine::track::Track;

/// What a model brings: its figures and goals, and its parts.
#[derive(Debug, Clone, Copy)]
pub struct Benchmark {
    /// What `--figure` may name, for people.
    pub figures: &'static str,
    /// Fails if that is not what `--figure` may name.
    pub check: fn(&str) -> Result<(), String>,
    /// Measures what a run is asked for.
    pub measure: fn(&mut Run<'_>) -> anyhow::Result<()>,
    /// Criterion's benchmarks of its card.
    pub parts: fn(&mut Criterion) -> anyhow::Result<()>,
    /// Makes so many messages by each of the paths whose instructions are counted.
    pub walk: fn(u64) -> anyhow::Result<()>,
}

/// What is asked for.
#[derive(Debug)]
pub struct Request {
    /// Whose cards.
    pub model: &'static Model,
    /// How much.
    pub effort: Effort,
    /// What runs the machines.
    pub accel: Accel,
    /// Whether no more is measured than the goals need.
    pub goals_only: bool,
    /// Which of the model's figures, by names that have been checked; none: all.
    pub figures: Vec<String>,
    /// Arguments for the cards.
    pub card_args: Vec<String>,
    /// The folder with UCX, libfabric and valgrind, if they are there.
    pub peers: Option<PathBuf>,
}

/// What has been measured so far.
#[derive(Debug)]
pub struct Run<'a> {
    pub(crate) request: &'a Request,
    pub(crate) progress: &'a Progress,
    pub(crate) goals: Vec<Goal>,
    pub(crate) plots: Vec<Figure>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) tables: Vec<(String, Vec<Track>)>,
    pub(crate) others: Vec<Table>,
}

/// Measures what is asked for.
pub fn run(benchmark: &Benchmark, request: &Request, progress: &Progress) -> anyhow::Result<Results> {
    let facts = Facts::gather(&request.accel.decide()?.to_string());
    let mut run = Run::new(request, progress);
    (benchmark.measure)(&mut run)?;
    run.goals.sort_by_key(|goal| goal.number);
    let Run { goals, plots: figures, peers, tables, others, .. } = run;
    Ok(Results { facts, goals, figures, peers, tables, others })
}

impl<'a> Run<'a> {
    fn new(request: &'a Request, progress: &'a Progress) -> Self {
        let (goals, plots, peers, tables, others) = Default::default();
        Self { request, progress, goals, plots, peers, tables, others }
    }

    /// Two machines, with these arguments for their cards and those that a person asked for.
    pub(crate) fn machines(
        &self,
        layout: Layout,
        card_args: &[String],
        peers: bool,
    ) -> anyhow::Result<Machines> {
        let Request { model, accel, card_args: asked_for, .. } = self.request;
        let arguments = [card_args, asked_for].concat();
        let title = format!("start 2 machines, {} {}", layout.text(), arguments.join(" "));
        let start = || Machines::start(model, *accel, layout, &arguments, peers, self.progress);
        self.progress.part(title.trim_end(), start)
    }

    /// The parts by themselves.
    pub(crate) fn estimates(&self, title: &str) -> Estimates {
        let Request { model, effort, .. } = self.request;
        let parts = self.progress.part(title, || estimates::measure(model, *effort, self.progress));
        self.noted(parts).unwrap_or_default()
    }

    /// A part that does not work leaves its goals unmeasured, and the others as they are.
    pub(crate) fn noted<T>(&self, result: anyhow::Result<T>) -> Option<T> {
        result.inspect_err(|error| self.progress.note(&format!("{error:#}"))).ok()
    }
}
