//! `hamlyn-bench`: what `./scripts/bench` runs.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use hamlyn_bench::effort::Effort;
use hamlyn_bench::figures::Name;
use hamlyn_bench::goals::{self, Goal};
use hamlyn_bench::progress::Progress;
use hamlyn_bench::run::{Request, run};
use hamlyn_cli::lab::Accel;
use serde_json::Value;

/// Measure the card between two virtual machines, beside what people would use instead, and draw it
#[derive(Debug, Parser)]
#[command(name = "./scripts/bench", version)]
struct Options {
    /// More points and more rounds
    #[arg(long)]
    full: bool,
    /// Only the figures to reach: a line for each
    #[arg(long, conflicts_with = "figure")]
    goals: bool,
    /// Write the figures to reach as JSON objects too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only this figure of the paper: 7, 8, 9 or 10 (may be given again)
    #[arg(long, value_name = "N", value_parser = figure)]
    figure: Vec<Name>,
    /// What runs the machines
    #[arg(long, value_enum, default_value_t)]
    accel: Accel,
    /// Where the report goes
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Arguments for each card: see hamlyn card --help
    #[arg(last = true)]
    card_args: Vec<String>,
}

fn figure(text: &str) -> Result<Name, String> {
    let number = text.parse().ok().and_then(Name::from_number);
    number.ok_or_else(|| format!("the paper has no measured figure {text} (there are 7, 8, 9 and 10)"))
}

fn main() -> ExitCode {
    match bench(Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// True if all that was asked for could be measured.
fn bench(options: Options) -> anyhow::Result<bool> {
    let progress = Progress::new();
    // Where ./scripts/bench keeps what it fetched.
    let home = std::env::var_os("HAMLYN_BENCH").map(PathBuf::from);
    let all = !options.goals && options.figure.is_empty();
    let request = Request {
        effort: if options.full { Effort::Full } else { Effort::Quick },
        accel: options.accel,
        goals: options.goals || all,
        figures: if all { Name::ALL.to_vec() } else { options.figure },
        card_args: options.card_args,
        peers: home.as_ref().map(|home| home.join("root")).filter(|root| root.is_dir()),
    };
    eprintln!("measuring");
    let results = run(&request, &progress)?;
    print!("{}", goals::lines(&results.goals));
    if let Some(file) = options.json {
        let objects: Value = results.goals.iter().map(Goal::json).collect();
        fs::write(&file, format!("{objects:#}\n"))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let folder = options.output.or_else(|| home.map(|home| home.join("report")));
    let folder = folder.unwrap_or_else(|| PathBuf::from("bench-report"));
    results.write(&folder)?;
    eprintln!(
        "  {:.0} s in all; the report: {}",
        progress.elapsed().as_secs_f64(),
        folder.join("index.html").display()
    );
    for track in results.failures() {
        eprintln!("not measured: {}", track.name);
    }
    Ok(results.failures().is_empty())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
        let error = |words: &[&str]| Options::try_parse_from(words).unwrap_err().to_string();
        assert!(error(&["bench", "--figure", "11"]).contains("there are 7, 8, 9 and 10"));
        let parsed = Options::try_parse_from(["bench", "--figure", "7", "--", "--spin", "50"]).unwrap();
        assert_eq!((parsed.figure, parsed.card_args.len()), (vec![Name::Seven], 2));
    }
}
