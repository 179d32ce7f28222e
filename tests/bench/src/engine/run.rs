//! One run: its request and its results. Also the interface that a model provides.

use std::path::PathBuf;

use anyhow::Context;
use criterion::Criterion;
use hamlyn_host::catalogue::{self, Model};
use hamlyn_lab::{Accel, Snoop};

use crate::engine::effort::Effort;
use crate::engine::estimates::{self, Estimates};
use crate::engine::foreign::Peer;
use crate::engine::goals::Goal;
use crate::engine::machines::{Layout, Machines, Wish};
use crate::engine::plot::Figure;
use crate::engine::progress::Progress;
use crate::engine::report::{Facts, Results, Table};
use crate::engine::track::Track;

/// A model's benchmark: its figures and goals, and its components if they are measured alone.
#[derive(Debug, Clone, Copy)]
pub struct Benchmark {
    /// The names that `--figure` accepts, for users.
    pub figures: &'static str,
    /// Fails if `--figure` does not accept the name.
    pub check: fn(&str) -> Result<(), String>,
    /// Measures what a run requests.
    pub measure: fn(&mut Run<'_>) -> anyhow::Result<()>,
    /// The model's components.
    pub parts: Option<Parts>,
}

/// The measurements of a model that need no machine.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// Criterion's benchmarks of its card.
    pub benchmark: fn(&mut Criterion) -> anyhow::Result<()>,
    /// Sends a number of messages on each path whose instructions are counted.
    pub walk: fn(u64) -> anyhow::Result<()>,
}

impl Benchmark {
    /// Returns the components. Fails if there are none.
    pub fn parts(&self) -> anyhow::Result<Parts> {
        self.parts.context("no part of this model is measured by itself")
    }
}

/// A request.
#[derive(Debug)]
pub struct Request {
    /// How much to measure.
    pub effort: Effort,
    /// The accelerator that runs the machines.
    pub accel: Accel,
    /// Whether to measure only what the goals need.
    pub goals_only: bool,
    /// The model's figures to measure, by names that have been checked; empty for all.
    pub figures: Vec<String>,
    /// Arguments for the cards.
    pub card_args: Vec<String>,
    /// The folder with UCX, libfabric and valgrind, if they are available.
    pub peers: Option<PathBuf>,
}

/// The measurements so far.
#[derive(Debug)]
pub struct Run<'a> {
    /// The model whose cards are measured.
    pub(crate) model: &'static Model,
    pub(crate) request: &'a Request,
    pub(crate) progress: &'a Progress,
    pub(crate) goals: Vec<Goal>,
    pub(crate) plots: Vec<Figure>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) tables: Vec<(String, Vec<Track>)>,
    pub(crate) others: Vec<Table>,
}

/// Measures the request for these models, one after the other.
pub fn run(
    models: &[(&'static Model, &Benchmark)],
    request: &Request,
    progress: &Progress,
) -> anyhow::Result<Results> {
    let facts = Facts::gather(&request.accel.decide()?.to_string());
    let mut run = Run::new(request, progress);
    for (model, benchmark) in models {
        run.model = model;
        (benchmark.measure)(&mut run)?;
    }
    run.goals.sort_by_key(|goal| goal.number);
    let Run { goals, plots: figures, peers, tables, others, .. } = run;
    Ok(Results { facts, goals, figures, peers, tables, others })
}

impl<'a> Run<'a> {
    fn new(request: &'a Request, progress: &'a Progress) -> Self {
        let (goals, plots, peers, tables, others) = Default::default();
        let model = catalogue::default();
        Self { model, request, progress, goals, plots, peers, tables, others }
    }

    /// Starts two machines, with these arguments for their cards in addition to the user's.
    pub(crate) fn machines(
        &self,
        layout: Layout,
        card_args: &[String],
        peers: bool,
    ) -> anyhow::Result<Machines> {
        let card_args = [card_args, &self.request.card_args].concat();
        let (model, accel) = (self.model, self.request.accel);
        self.start(Wish { model, accel, layout, snoop: Snoop::Auto, card_args: &card_args, peers })
    }

    /// Starts two machines with cards of that model, whose stores go to window pages if the model
    /// has any. `peers` adds the alternatives to a card.
    pub(crate) fn machines_of(&self, model: &str, layout: Layout, peers: bool) -> anyhow::Result<Machines> {
        let (model, accel) = (catalogue::find(model)?, self.request.accel);
        self.start(Wish { model, accel, layout, snoop: Snoop::No, card_args: &[], peers })
    }

    /// Starts two machines with the given properties.
    pub(crate) fn start(&self, wish: Wish<'_>) -> anyhow::Result<Machines> {
        let Wish { model, layout, snoop, card_args, .. } = wish;
        let model = if model.name == self.model.name { "" } else { model.name };
        let snoop = if snoop == Snoop::No { "--snoop no" } else { "" };
        let words = [layout.text(), model, snoop, &card_args.join(" ")].map(str::to_owned);
        let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let title = format!("start 2 machines, {}", words.join(" "));
        self.progress.part(&title, || Machines::start(wish, self.progress))
    }

    /// Measures the components alone.
    pub(crate) fn estimates(&self, title: &str) -> Estimates {
        let effort = self.request.effort;
        let parts = self.progress.part(title, || estimates::measure(self.model, effort, self.progress));
        self.noted(parts).unwrap_or_default()
    }

    /// Prints an error. A part that fails leaves its goals unmeasured, and the others unaffected.
    pub(crate) fn noted<T>(&self, result: anyhow::Result<T>) -> Option<T> {
        result.inspect_err(|error| self.progress.note(&format!("{error:#}"))).ok()
    }
}
