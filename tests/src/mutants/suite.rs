//! The test programs: built, run, and who noticed.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::group::{Group, Interrupted, Said};
use super::{Mutant, Tree};

/// The packages whose tests must notice, from fast to slow, and what their folders end with.
const PACKAGES: [(&str, &str); 9] = [
    ("hamlyn-door", "door"),
    ("hamlyn-sys", "sys"),
    ("hamlyn-system", "system"),
    ("hamlyn", "guest-lib"),
    ("hamlyn-models", "models"),
    ("hamlyn-bus", "bus"),
    ("hamlyn-fabric", "fabric"),
    ("hamlyn-switch", "switch"),
    ("hamlyn-sim", "sim"),
];
/// How long the unbroken tree may take for one build or test program.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How long a program may take with a break in it, besides four times what it takes without.
const GRACE: Duration = Duration::from_secs(10);

/// What became of a break.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A test failed, hung or died: which.
    Caught(String),
    /// All tests passed.
    Missed,
    /// It is none: the compiler refuses it, for this reason.
    Unbuildable(String),
}

/// A test program.
#[derive(Debug)]
struct Program {
    /// Its main file, from the root of the repository.
    name: String,
    executable: PathBuf,
    /// Where cargo would run it.
    folder: PathBuf,
    /// Built now, since something in it has changed.
    new: bool,
}

/// The tests of a tree that pass when nothing is broken.
#[derive(Debug)]
pub struct Suites<'a> {
    tree: &'a Tree,
    interrupted: Interrupted,
    /// How many tests there are.
    pub tests: usize,
    /// How long each program took.
    usual: BTreeMap<String, Duration>,
}

impl<'a> Suites<'a> {
    /// Builds the unbroken tree and runs all its tests. An error if one fails.
    pub fn new(tree: &'a Tree, interrupted: Interrupted) -> Result<Self> {
        let mut suites = Self { tree, interrupted, tests: 0, usual: BTreeMap::new() };
        let programs = match suites.build(Stdio::inherit())? {
            Ok(programs) => programs,
            Err(reason) => bail!("the unbroken tree does not build: {reason}"),
        };
        for program in &programs {
            let start = Instant::now();
            let (passed, fault) = suites.run(program, PATIENCE)?;
            if let Some(fault) = fault {
                bail!("the unbroken tree does not pass its tests: {fault}");
            }
            suites.tests += passed;
            suites.usual.insert(program.name.clone(), start.elapsed());
        }
        Ok(suites)
    }

    /// Makes a break, and lets the tests look at it.
    pub fn judge(&self, mutant: &Mutant) -> Result<Verdict> {
        self.tree.broken(mutant, || {
            let programs = match self.build(Stdio::null())? {
                Ok(programs) => programs,
                Err(reason) => return Ok(Verdict::Unbuildable(reason)),
            };
            // A program that was not built anew cannot see the break.
            for program in programs.iter().filter(|program| program.new) {
                let usual = self.usual.get(&program.name).context("a new test program")?;
                let (_, fault) = self.run(program, *usual * 4 + GRACE)?;
                if let Some(fault) = fault {
                    return Ok(Verdict::Caught(fault));
                }
            }
            Ok(Verdict::Missed)
        })
    }

    /// Builds the test programs: those, from fast to slow, or the compiler's first error.
    fn build(&self, errors: Stdio) -> Result<Result<Vec<Program>, String>> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["test", "--no-run", "--message-format=json"]);
        command.args(PACKAGES.map(|(package, _)| format!("--package={package}")));
        command.current_dir(&self.tree.root).stderr(errors);
        // Nobody will look for lines in a debugger, and linking without them is faster.
        command.env("CARGO_TARGET_DIR", &self.tree.target).env("CARGO_PROFILE_DEV_DEBUG", "0");
        let mut cargo = Group::start(&mut command, &self.interrupted)?;
        let (mut programs, mut error) = (Vec::new(), None);
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match cargo.next(deadline)? {
                Said::Line(line) => {
                    let message = serde_json::from_str(&line).unwrap_or_default();
                    programs.extend(self.program(&message));
                    error = error.or(error_in(&message));
                }
                Said::Ended(status) => break status,
                Said::Late => bail!("cargo has not finished in {} s", PATIENCE.as_secs()),
            }
        };
        if !status.success() {
            return Ok(Err(error.unwrap_or_else(|| format!("cargo failed ({status})"))));
        }
        programs.sort_by_key(|program| (rank(program), program.name.clone()));
        Ok(Ok(programs))
    }

    /// The test program that a message of cargo is about.
    fn program(&self, message: &Value) -> Option<Program> {
        let path = |value: &Value| value.as_str().map(PathBuf::from);
        let main = path(&message["target"]["src_path"])?;
        // Cargo builds a package's examples, too, which are no tests.
        if message["profile"]["test"] != true {
            return None;
        }
        Some(Program {
            name: main.strip_prefix(&self.tree.root).ok()?.display().to_string(),
            executable: path(&message["executable"])?,
            folder: path(&message["manifest_path"])?.parent()?.to_owned(),
            new: message["fresh"] == false,
        })
    }

    /// Runs a program until a test fails: how many passed, and what was wrong.
    fn run(&self, program: &Program, limit: Duration) -> Result<(usize, Option<String>)> {
        let Program { name, executable, folder, .. } = program;
        let mut command = Command::new(executable);
        command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).stderr(Stdio::null());
        // A verdict is the same each time, and one that fails has said enough.
        for (setting, value) in
            [("RNG_SEED", "1"), ("MAX_SHRINK_ITERS", "0"), ("DISABLE_FAILURE_PERSISTENCE", "1")]
        {
            command.env(format!("PROPTEST_{setting}"), value);
        }
        command.env("RUST_BACKTRACE", "0");
        let deadline = Instant::now() + limit;
        let mut tests = Group::start(&mut command, &self.interrupted)?;
        let mut passed = 0;
        loop {
            let fault = match tests.next(deadline)? {
                Said::Line(line) => match result_in(&line) {
                    None => continue,
                    Some((_, "ok")) => {
                        passed += 1;
                        continue;
                    }
                    Some((test, _)) => format!("{name} {test}"),
                },
                Said::Ended(status) if status.success() => return Ok((passed, None)),
                Said::Ended(status) => format!("{name}, which died ({status})"),
                Said::Late => format!("{name}, which hung (limit {} s)", limit.as_secs()),
            };
            return Ok((passed, Some(fault)));
        }
    }
}

fn rank(program: &Program) -> Option<usize> {
    PACKAGES.iter().position(|(_, folder)| program.folder.ends_with(folder))
}

/// A test's name and result, if this line of a test program tells them.
fn result_in(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("test ")?.split_once(" ... ").filter(|(_, result)| ["ok", "FAILED"].contains(result))
}

/// The error that a message of cargo carries.
fn error_in(message: &Value) -> Option<String> {
    let message = &message["message"];
    let text = message["message"].as_str().filter(|_| message["level"] == "error")?;
    Some(message["code"]["code"].as_str().map_or(text.to_owned(), |code| format!("{code}: {text}")))
}
