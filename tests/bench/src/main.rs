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
use hamlyn_bench::run::{Request, Topic, run};
use hamlyn_bench::scratch::tidy_on_signals;
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
    /// Only this: a figure of the paper (7, 8, 9, 10), or machines, scale, all-to-all, host, parts, table-4, server
    /// (may be given again)
    #[arg(long, value_name = "NAME", value_parser = figure)]
    figure: Vec<Choice>,
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

/// What `--figure` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Paper(Name),
    Topic(Topic),
}

fn figure(text: &str) -> Result<Choice, String> {
    let topic = Topic::NAMED.into_iter().find(|(name, _)| *name == text).map(|(_, topic)| topic);
    let number = text.parse().ok().and_then(Name::from_number);
    topic.map(Choice::Topic).or(number.map(Choice::Paper)).ok_or_else(|| {
        let names = Topic::NAMED.map(|(name, _)| name).join(", ");
        format!("the paper has no measured figure {text} (there are 7, 8, 9 and 10; beside them {names})")
    })
}

impl Options {
    /// The paper's figures, and what else is measured.
    fn wanted(&self) -> (Vec<Name>, Vec<Topic>) {
        let all = !self.goals && self.figure.is_empty();
        let mut figures = if all { Name::ALL.to_vec() } else { Vec::new() };
        let mut topics = if all || self.goals { Topic::GOALS.to_vec() } else { Vec::new() };
        if all {
            topics.extend([Topic::AllToAll, Topic::Table4, Topic::Server]);
        }
        for choice in &self.figure {
            match choice {
                Choice::Paper(name) => figures.push(*name),
                Choice::Topic(topic) => topics.push(*topic),
            }
        }
        (figures, topics)
    }
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
    tidy_on_signals()?;
    let progress = Progress::new();
    // Where ./scripts/bench keeps what it fetched.
    let home = std::env::var_os("HAMLYN_BENCH").map(PathBuf::from);
    let (figures, topics) = options.wanted();
    let request = Request {
        effort: if options.full { Effort::Full } else { Effort::Quick },
        accel: options.accel,
        goals_only: options.goals,
        topics,
        figures,
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
        assert_eq!((parsed.figure, parsed.card_args.len()), (vec![Choice::Paper(Name::Seven)], 2));
        let parsed = Options::try_parse_from(["bench", "--figure", "parts"]).unwrap();
        assert_eq!(parsed.figure, [Choice::Topic(Topic::Parts)]);
        let wanted = |words: &[&str]| Options::try_parse_from(words).unwrap().wanted();
        assert_eq!(wanted(&["bench", "--figure", "table-4"]), (Vec::new(), vec![Topic::Table4]));
        assert_eq!(wanted(&["bench", "--goals"]).1, Topic::GOALS);
        assert!(wanted(&["bench"]).1.contains(&Topic::Server));
    }
}
