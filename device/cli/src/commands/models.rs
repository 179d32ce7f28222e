//! `hamlyn models`

use std::io::{Write, stdout};

use clap::Args;
use hamlyn_host::catalogue::{MODELS, Model};
use serde_json::{Value, json};

use crate::table;

/// List the card models: the values of --model
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn models
  hamlyn models --json | jq '.[] | {name, settings: [.settings[].name]}'")]
pub(super) struct ModelsArgs {
    /// Print one JSON array, with an object for each model and its settings
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ModelsArgs) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    if args.json {
        let all: Vec<Value> = MODELS.iter().copied().map(told).collect();
        writeln!(out, "{}", serde_json::to_string(&all)?)?;
        return Ok(());
    }
    let title = ["model", "paper", "what it does"].map(str::to_owned);
    let rows = MODELS.iter().map(|model| [model.name, model.paper, model.about].map(str::to_owned));
    for line in table::text_lines([title].into_iter().chain(rows)) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn told(model: &Model) -> Value {
    let settings = model.settings.iter().map(|setting| {
        json!({
            "name": setting.name,
            "unit": setting.unit,
            "about": setting.about,
            "default": setting.default,
        })
    });
    json!({
        "name": model.name,
        "paper": model.paper,
        "about": model.about,
        "settings": settings.collect::<Vec<_>>(),
    })
}
