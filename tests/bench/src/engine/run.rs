//! One run: its request and its results.

use std::path::PathBuf;

use hamlyn_host::catalogue::{self, Model};
use hamlyn_lab::{Accel, Snoop};

use crate::engine::effort::Effort;
use crate::engine::estimates::{self, Estimates};
use crate::engine::exchange::words;
use crate::engine::foreign::Peer;
use crate::engine::goals::Goal;
use crate::engine::machines::{Machines, Pair};
use crate::engine::plot::Figure;
use crate::engine::progress::Progress;
use crate::engine::report::{Facts, Results, Table};
use crate::engine::track::Track;

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
    parts: Option<Estimates>,
}

#[cfg(test)]
impl Request {
    /// Makes a request for these figures.
    pub(crate) fn made_up(goals_only: bool, figures: &[&str]) -> Self {
        let figures = figures.iter().map(|name| (*name).to_owned()).collect();
        let (effort, accel, card_args) = (Effort::Quick, Accel::default(), Vec::new());
        Self { effort, accel, goals_only, figures, card_args, peers: None }
    }
}

impl<'a> Run<'a> {
    pub(crate) fn new(request: &'a Request, progress: &'a Progress) -> Self {
        let (goals, plots, peers, tables, others, parts) = Default::default();
        let model = catalogue::default();
        Self { model, request, progress, goals, plots, peers, tables, others, parts }
    }

    /// Returns the results, the goals by their numbers.
    pub(crate) fn results(mut self, facts: Facts) -> Results {
        self.goals.sort_by_key(|goal| goal.number);
        let Run { goals, plots: figures, peers, tables, others, .. } = self;
        Results { facts, goals, figures, peers, tables, others }
    }

    /// Starts two machines. The cards of the measured model also get the user's arguments.
    pub(crate) fn start(&self, pair: Pair) -> anyhow::Result<Machines> {
        let (model, mut card_args) = (catalogue::find(pair.model)?, words(pair.card_args));
        let is_own = model.name == self.model.name;
        if is_own && pair.host_cards == 0 {
            card_args.extend_from_slice(&self.request.card_args);
        }
        let hosts = match pair.host_cards {
            0 => "2 machines".to_owned(),
            cards => format!("{cards} cards"),
        };
        let name = if is_own { "" } else { model.name };
        let snoop = if pair.snoop == Snoop::No { "--snoop no" } else { "" };
        let words = [pair.layout.text(), name, snoop, &card_args.join(" ")];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let title = format!("start {hosts}, {}", words.join(" "));
        let accel = self.request.accel;
        self.progress.part(&title, || Machines::start(pair, model, accel, &card_args, self.progress))
    }

    /// Measures the components alone, once.
    pub(crate) fn estimates(&mut self, title: &str) -> Estimates {
        let measure = || estimates::measure(self.model, self.request.effort, self.progress);
        let parts = match self.parts.take() {
            Some(parts) => parts,
            None => self.noted(self.progress.part(title, measure)).unwrap_or_default(),
        };
        self.parts.insert(parts).clone()
    }

    /// Prints an error. A part that fails leaves its goals unmeasured, and the others unaffected.
    pub(crate) fn noted<T>(&self, result: anyhow::Result<T>) -> Option<T> {
        result.inspect_err(|error| self.progress.note(&format!("{error:#}"))).ok()
    }
}
