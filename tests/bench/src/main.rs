//! `hamlyn-bench`: the program that `./scripts/bench` runs.

use std::ffi::OsString;
use std::fs;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use clap::error::ErrorKind;
use clap::{Command, CommandFactory, FromArgMatches, Parser};
use hamlyn_bench::engine::benchmark::{Benchmark, run};
use hamlyn_bench::engine::effort::Effort;
use hamlyn_bench::engine::goals::{self, Goal};
use hamlyn_bench::engine::progress::Progress;
use hamlyn_bench::engine::run::Request;
use hamlyn_bench::engine::scratch::tidy_on_signals;
use hamlyn_bench::{BENCHMARKS, compare, express, programs};
use hamlyn_host::catalogue::{self, Model};
use hamlyn_lab::Accel;
use serde_json::Value;

/// Measure the card between two virtual machines, compare it with its alternatives, and plot the
/// results
#[derive(Debug, Parser)]
#[command(name = "./scripts/bench", version)]
struct Options {
    /// Measure more points and more rounds
    #[arg(long)]
    full: bool,
    /// Measure only the figures with goals, and print a line for each goal
    #[arg(long, conflicts_with = "figure")]
    goals: bool,
    /// Also write the goals as JSON objects
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only compare the cards: round trips, bandwidth and the hosts' time of all of them, in turn
    #[arg(long, conflicts_with_all = ["goals", "figure", "model", "card_args"])]
    compare: bool,
    /// Measure only express memory: channels compared with ivshmem, memcpy, UDP and vsock
    #[arg(long, conflicts_with_all = ["compare", "model"])]
    express: bool,
    /// Measure only programs that know nothing of the cards, over IP and beside virtio-net
    #[arg(long, conflicts_with_all = ["compare", "express", "model", "card_args"])]
    programs: bool,
    /// Measure only this (may be given again)
    #[arg(long, value_name = "NAME")]
    figure: Vec<String>,
    /// Model of card; by default all models that have a benchmark, one after the other, or the
    /// usual one with --figure or arguments for cards
    #[arg(long, value_name = "NAME", value_parser = model_parser())]
    model: Option<&'static Model>,
    /// What runs the machines
    #[arg(long, value_enum, default_value_t)]
    accel: Accel,
    /// Folder for the report
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Arguments for each card: see hamlyn card --help
    #[arg(last = true)]
    card_args: Vec<String>,
}

fn model_parser() -> ValueParser {
    let names = catalogue::MODELS.iter().map(|model| PossibleValue::new(model.name).help(model.about));
    PossibleValuesParser::new(names).try_map(|name| catalogue::find(&name)).into()
}

/// Builds the command line, whose `--figure` accepts the names of the models.
fn command() -> Command {
    let all = catalogue::MODELS.iter().filter_map(|model| Some((model.name, BENCHMARKS.of(model).ok()?)));
    let names = all.map(|(name, benchmark)| match name {
        name if name == catalogue::default().name => benchmark.names.join(", "),
        name => format!("with --model {name}: {}", benchmark.names.join(", ")),
    });
    let names = names.chain([format!("with --express: {}", express::BENCHMARK.names.join(", "))]);
    let names = names.collect::<Vec<_>>().join("; ");
    Options::command().mut_arg("figure", |arg| arg.help(format!("Only this: {names} (may be given again)")))
}

/// Models with their benchmarks.
type Benchmarks = Vec<(&'static Model, &'static Benchmark)>;

/// Parses the options, and selects the benchmarks of the models.
fn options(words: impl IntoIterator<Item = OsString>) -> Result<(Options, Benchmarks), clap::Error> {
    let mut command = command();
    let options = Options::from_arg_matches(&command.try_get_matches_from_mut(words)?)?;
    // Figures and arguments belong to one model.
    let one = !options.figure.is_empty() || !options.card_args.is_empty();
    let models = match options.model {
        None if options.compare || options.express || options.programs => Vec::new(),
        Some(model) => vec![model],
        None if one => vec![catalogue::default()],
        None => catalogue::MODELS.iter().copied().filter(|model| BENCHMARKS.of(model).is_ok()).collect(),
    };
    let with = |model| BENCHMARKS.of(model).map(|benchmark| (model, benchmark));
    let benchmarks: Result<Benchmarks, _> = models.into_iter().map(with).collect();
    let mut benchmarks = benchmarks.map_err(|error| command.error(ErrorKind::ValueValidation, error))?;
    // Neither belongs to one model alone. The second one uses the hosts of the default cards.
    let whole = options.model.is_none() && !one && !options.compare && !options.programs;
    if options.programs {
        benchmarks.push((catalogue::default(), &programs::BENCHMARK));
    }
    if options.express || whole {
        benchmarks.push((catalogue::default(), &express::BENCHMARK));
    }
    if options.compare || whole && !options.goals && !options.express {
        benchmarks.push((catalogue::default(), &compare::BENCHMARK));
    }
    for (figure, benchmark) in
        benchmarks.iter().flat_map(|one| options.figure.iter().map(move |name| (name, one.1)))
    {
        benchmark.check(figure).map_err(|error| {
            let message = format!("invalid value '{figure}' for '--figure <NAME>': {error}");
            command.error(ErrorKind::ValueValidation, message)
        })?;
    }
    Ok((options, benchmarks))
}

fn main() -> ExitCode {
    let (options, benchmarks) = options(std::env::args_os()).unwrap_or_else(|error| error.exit());
    match bench(options, &benchmarks) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns true if all requested measurements succeeded.
fn bench(options: Options, benchmarks: &[(&'static Model, &'static Benchmark)]) -> anyhow::Result<bool> {
    tidy_on_signals()?;
    let progress = Progress::new();
    // The folder in which ./scripts/bench keeps fetched files.
    let home = std::env::var_os("HAMLYN_BENCH").map(PathBuf::from);
    let request = Request {
        effort: match options.figure.len() {
            _ if options.full => Effort::Full,
            1 => Effort::Alone,
            _ => Effort::Quick,
        },
        accel: options.accel,
        goals_only: options.goals,
        figures: options.figure,
        card_args: options.card_args,
        peers: home.as_ref().map(|home| home.join("root")).filter(|root| root.is_dir()),
    };
    eprintln!("measuring");
    let results = run(benchmarks, &request, &progress)?;
    if let Some(file) = options.json {
        let objects: Value = results.goals.iter().map(Goal::json).collect();
        fs::write(&file, format!("{objects:#}\n"))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let folder = options.output.or_else(|| home.map(|home| home.join("report")));
    let folder = folder.unwrap_or_else(|| PathBuf::from("bench-report"));
    results.write(&folder)?;
    // Write the files first: a closed standard output ends the program here.
    let mut output = stdout();
    write!(output, "{}", goals::lines(&results.goals))?;
    if !request.goals_only {
        write!(output, "\n{}", results.tables_text())?;
    }
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
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
        let parse = |line: &str| options(line.split(' ').map(OsString::from));
        let error = parse("bench --figure 11").unwrap_err().to_string();
        assert!(
            error.starts_with("error: invalid value '11' for '--figure <NAME>': the paper has no"),
            "{error}"
        );
        let (options, benchmarks) = parse("bench --figure 7 -- --spin 50").unwrap();
        assert_eq!((options.figure, options.card_args.len()), (vec!["7".to_owned()], 2));
        let refused = parse("bench --model echo").unwrap_err().to_string();
        assert!(refused.contains("model echo has no benchmark; these have: hamlyn, shrimp"), "{refused}");
        let names = |benchmarks: Benchmarks| benchmarks.iter().map(|one| one.0.name).collect::<Vec<_>>();
        assert_eq!(names(benchmarks), ["hamlyn"], "a figure is one model's own");
        let goals = names(parse("bench --goals").unwrap().1);
        assert_eq!(goals, ["hamlyn", "shrimp", "clan", "dart", "hamlyn"], "all, and channels");
        assert_eq!(names(parse("bench --full").unwrap().1).len(), 6, "and all side by side");
        assert_eq!(names(parse("bench --compare").unwrap().1).len(), 1);
        assert!(parse("bench --compare --goals").is_err());
        for line in [
            "bench --express",
            "bench --express --goals",
            "bench --express --figure trips",
            "bench --programs",
            "bench --programs --figure nfs",
        ] {
            assert_eq!(names(parse(line).unwrap().1), ["hamlyn"], "{line}");
        }
        assert!(parse("bench --programs --figure trips").is_err());
        assert!(parse("bench --express --figure 7").is_err() && parse("bench --figure trips").is_err());
        assert_eq!(names(parse("bench --model shrimp --figure flags").unwrap().1), ["shrimp"]);
        assert_eq!(names(parse("bench --model clan --figure raw --figure joining").unwrap().1), ["clan"]);
        assert!(parse("bench --model shrimp --figure 7").is_err() && parse("bench --figure flags").is_err());
    }
}
