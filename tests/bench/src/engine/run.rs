//! One run: what is asked for, and what came of it. What a model brings.

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

/// What a model brings: its figures and goals, and its parts if any of them is measured by itself.
#[derive(Debug, Clone, Copy)]
pub struct Benchmark {
    /// What `--figure` may name, for people.
    pub figures: &'static str,
    /// Fails if that is not what `--figure` may name.
    pub check: fn(&str) -> Result<(), String>,
    /// Measures what a run is asked for.
    pub measure: fn(&mut Run<'_>) -> anyhow::Result<()>,
    /// Its parts.
    pub parts: Option<Parts>,
}

/// What is measured of a model without any machine.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// Criterion's benchmarks of its card.
    pub benchmark: fn(&mut Criterion) -> anyhow::Result<()>,
    /// Makes so many messages by each of the paths whose instructions are counted.
    pub walk: fn(u64) -> anyhow::Result<()>,
}

impl Benchmark {
    /// Its parts. Fails if there are none.
    pub fn parts(&self) -> anyhow::Result<Parts> {
        self.parts.context("no part of this model is measured by itself")
    }
}

/// What is asked for.
#[derive(Debug)]
pub struct Request {
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
    /// Whose cards.
    pub(crate) model: &'static Model,
    pub(crate) request: &'a Request,
    pub(crate) progress: &'a Progress,
    pub(crate) goals: Vec<Goal>,
    pub(crate) plots: Vec<Figure>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) tables: Vec<(String, Vec<Track>)>,
    pub(crate) others: Vec<Table>,
}

/// Measures what is asked for of these models, one after the other.
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

    /// Two machines, with these arguments for their cards and those that a person asked for.
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

    /// Two machines with cards of that model, whose stores go to window pages if they have any;
    /// with what people would use instead, or without it.
    pub(crate) fn machines_of(&self, model: &str, layout: Layout, peers: bool) -> anyhow::Result<Machines> {
        let (model, accel) = (catalogue::find(model)?, self.request.accel);
        self.start(Wish { model, accel, layout, snoop: Snoop::No, card_args: &[], peers })
    }

    /// Two machines as they are wished for.
    pub(crate) fn start(&self, wish: Wish<'_>) -> anyhow::Result<Machines> {
        let Wish { model, layout, snoop, card_args, .. } = wish;
        let model = if model.name == self.model.name { "" } else { model.name };
        let snoop = if snoop == Snoop::No { "--snoop no" } else { "" };
        let words = [layout.text(), model, snoop, &card_args.join(" ")].map(str::to_owned);
        let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let title = format!("start 2 machines, {}", words.join(" "));
        self.progress.part(&title, || Machines::start(wish, self.progress))
    }

    /// The parts by themselves.
    pub(crate) fn estimates(&self, title: &str) -> Estimates {
        let effort = self.request.effort;
        let parts = self.progress.part(title, || estimates::measure(self.model, effort, self.progress));
        self.noted(parts).unwrap_or_default()
    }

    /// A part that does not work leaves its goals unmeasured, and the others as they are.
    pub(crate) fn noted<T>(&self, result: anyhow::Result<T>) -> Option<T> {
        result.inspect_err(|error| self.progress.note(&format!("{error:#}"))).ok()
    }
}
