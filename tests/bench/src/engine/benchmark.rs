//! The interface that a model provides, and a run of several models.

use anyhow::Context;
use criterion::Criterion;
use hamlyn_host::catalogue::Model;

use crate::engine::experiment::{self, Experiment};
use crate::engine::progress::Progress;
use crate::engine::report::{Facts, Results};
use crate::engine::run::{Request, Run};

/// A model's benchmark: its figures and goals, and its components if they are measured alone.
#[derive(Debug, Clone, Copy)]
pub struct Benchmark {
    /// The names that `--figure` accepts, in the order of the help.
    pub names: &'static [&'static str],
    /// The error message for other names.
    pub unknown: &'static str,
    /// The experiments, in the order of measurement.
    pub experiments: &'static [Experiment],
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
    /// Fails if `--figure` does not accept the name.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let message = || format!("{} (there are {})", self.unknown, self.names.join(", "));
        self.names.contains(&name).then_some(()).ok_or_else(message)
    }

    /// Returns the components. Fails if there are none.
    pub fn parts(&self) -> anyhow::Result<Parts> {
        self.parts.context("no part of this model is measured by itself")
    }
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
        experiment::measure(&mut run, benchmark.experiments)?;
    }
    Ok(run.results(facts))
}
