//! `hamlyn lab`

mod build;
mod check;
mod expect;
pub(super) mod file;
mod found;
mod logs;
mod parse;
mod runs;
pub(super) mod stay;
pub(super) mod value;

use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use hamlyn_lab::{Lab, Name};
use serde_json::Value;

use super::demo::stage::Stage;
use super::{cp, fault, tell};
use file::Description;
use runs::{Started, Watched};

/// Start, check and end labs that a file describes
///
/// The file is TOML. It names the machines, their cards and the network between them, and
/// optionally programs to run and what to expect of them. docs/labs.md describes every key.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn lab up docs/labs/pair.toml      starts what the file says, runs its programs, ends
  hamlyn lab check docs/labs/*.toml      finds all errors and starts nothing
  hamlyn lab down pair                   ends a lab that runs in another terminal")]
pub(super) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    Up(UpArgs),
    Check(CheckArgs),
    /// Print the JSON schema of lab files, by which editors complete and check them
    #[command(after_help = "\
Example:
  hamlyn lab schema > lab.schema.json")]
    Schema,
    Down(found::DownArgs),
    Logs(logs::LogsArgs),
}

/// Start the lab that a file describes
///
/// Without runs and expectations in the file, the lab stays until Ctrl-C or until all machines are
/// off. Otherwise it ends after them. The exit status is 0 only if every run and every expectation
/// is as the file says.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn lab up docs/labs/pair.toml
  hamlyn lab up --keep docs/labs/redis.toml            stays after the runs, to look around
  hamlyn lab up --name other docs/labs/pair.toml       the same lab once more, side by side")]
struct UpArgs {
    /// The lab file
    file: PathBuf,
    /// Stay after the runs, until Ctrl-C or until all machines are off
    #[arg(long)]
    keep: bool,
    /// Name of the lab instead of the file's
    #[arg(long)]
    name: Option<Name>,
    /// End once standard input is closed, so that the lab does not outlive the program that has
    /// its other end
    #[arg(long)]
    until_eof: bool,
}

/// Check lab files without starting anything
///
/// Prints all errors with line and key. The exit status is 0 only if there are none.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  hamlyn lab check docs/labs/pair.toml")]
struct CheckArgs {
    /// The lab files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) fn run(args: LabArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        LabCommand::Up(args) => return up(&args),
        LabCommand::Check(args) => return check_all(&args),
        LabCommand::Schema => writeln!(stdout(), "{}", serde_json::to_string_pretty(&schema())?)?,
        LabCommand::Down(args) => found::down(&args)?,
        LabCommand::Logs(args) => logs::collect(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the JSON schema of lab files.
fn schema() -> Value {
    let mut schema = schemars::schema_for!(Description).to_value();
    unwrap_lines(&mut schema);
    schema
}

/// Joins the lines of descriptions, which are wrapped in the sources.
fn unwrap_lines(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.replace('\n', " "),
        Value::Array(items) => items.iter_mut().for_each(unwrap_lines),
        Value::Object(map) => map.values_mut().for_each(unwrap_lines),
        _ => {}
    }
}

/// Largest lab file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Reads a lab file and checks it.
fn load(path: &Path) -> anyhow::Result<Description> {
    let found = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    if found.len() > LARGEST {
        bail!("{} has {} bytes (limit {LARGEST})", path.display(), found.len());
    }
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let folder = path.canonicalize()?.parent().map(Path::to_owned).unwrap_or_default();
    let wrong = match parse::parse(&text) {
        Err(wrong) => wrong,
        Ok((mut description, source)) => {
            description.resolve(&folder);
            let wrong = check::check(&description, &source);
            if wrong.is_empty() {
                return Ok(description);
            }
            wrong
        }
    };
    let lines: Vec<String> = wrong.iter().map(|wrong| format!("{}:{wrong}", path.display())).collect();
    bail!("{} found\n{}", plural(lines.len(), "mistake"), lines.join("\n"))
}

/// Returns a number of things in words.
fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn check_all(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let mut status = ExitCode::SUCCESS;
    for file in &args.files {
        match load(file) {
            Ok(lab) => {
                let counts = [
                    ("machine", lab.machines.len()),
                    ("run", lab.runs.len()),
                    ("expectation", lab.expectations.len()),
                ];
                let counts = counts.map(|(what, count)| plural(count, what));
                writeln!(stdout(), "{}: {}", file.display(), counts.join(", "))?;
            }
            Err(error) => {
                tell(&hamlyn_lab::plain::plain(&format!("error: {error:#}")));
                status = ExitCode::FAILURE;
            }
        }
    }
    Ok(status)
}

fn up(args: &UpArgs) -> anyhow::Result<ExitCode> {
    let mut description = load(&args.file)?;
    if let Some(name) = &args.name {
        description.name = Some(name.clone());
    }
    let stage = Stage::new();
    let layout = description.layout();
    let (count, accelerator) = (description.machines.len(), description.vmm.0.decide(description.accel.0)?);
    let machines = plural(count, "machine");
    let title = format!("start a switch and {machines} ({accelerator})");
    let lab = stay::start(&stage, &title, &description, &layout)?;
    copy_files(&description, &lab)?;
    start_faults(&description, &lab)?;
    let stop = stay::stop_by_signals()?;
    if args.until_eof {
        stay::stop_by_eof(stop.clone());
    }
    let is_tried = !description.runs.is_empty() || !description.expectations.is_empty();
    // Programs in the background run as long as the lab.
    let mut background = Vec::new();
    let failures = tries(&description, &lab, &stage, &stop, &mut background);
    let mut status = if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if args.keep || !is_tried {
        let mut out = stdout().lock();
        stay::write_ways_in(&mut out, &lab)?;
        stay::write_ways_out(&mut out, &lab)?;
        drop(out);
        let failed = stay::watch(&lab, &layout, &stop)?;
        if failed != 0 {
            tell(&format!("error: of {machines}, {failed} failed"));
            status = ExitCode::FAILURE;
        }
    }
    Ok(status)
}

/// Runs all programs, and checks all expectations. Returns how many are not as expected. A run that
/// fails is the last.
fn tries<'d>(
    description: &'d Description,
    lab: &Lab,
    stage: &Stage,
    stop: &AtomicBool,
    background: &mut Vec<(String, Started<'d>)>,
) -> usize {
    let watched = Watched { lab, stop };
    let mut failures = 0;
    let mut step = |title: &str, act: &mut dyn FnMut() -> anyhow::Result<()>| {
        let result = stage.step(title, |_| act());
        if let Err(error) = &result {
            failures += 1;
            tell(&hamlyn_lab::plain::plain(&format!("    {error:#}")));
        }
        result.is_ok()
    };
    for (number, run) in description.runs.iter().enumerate() {
        let title = format!("{}: {}", run.machine, run.command.shortened());
        let is_done = step(&title, &mut || {
            let started = Started::start(lab.directory(), number, run)?;
            if !run.background {
                return started.finish(&watched);
            }
            if run.ready.is_some() {
                started.wait_until_ready(&watched)?;
            }
            background.push((title.clone(), started));
            Ok(())
        });
        if !is_done {
            let left = description.runs.len() - number - 1;
            if left > 0 {
                stage.note(&format!("{left} later runs are left out"));
            }
            break;
        }
    }
    if stop.load(Ordering::Relaxed) {
        return failures;
    }
    for (title, started) in background.iter() {
        step(&format!("end of {title}"), &mut || started.finish_in_background(&watched));
    }
    for expect in &description.expectations {
        step(&expect.title(), &mut || expect.check(lab, description));
    }
    failures
}

/// Starts the rules of cards that misbehave.
fn start_faults(description: &Description, lab: &Lab) -> anyhow::Result<()> {
    for (index, machine) in description.machines.iter().enumerate() {
        if !machine.faults.is_empty() {
            let (card, rules) = (format!("card{index}"), machine.faults.join("\n"));
            fault::start(lab.directory(), card, rules, machine.fault_seed)?;
        }
    }
    Ok(())
}

fn copy_files(description: &Description, lab: &Lab) -> anyhow::Result<()> {
    for (index, machine) in description.machines.iter().enumerate() {
        let name = description.machine_name(index);
        for file in &machine.files {
            let mode = file.mode.map(|mode| mode.0);
            cp::place(&file.source, lab.directory(), &name, &file.destination, mode)?;
        }
    }
    Ok(())
}
