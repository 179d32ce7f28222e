//! The test programs: building, running, and the verdict.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::group::{Group, Interrupted, Said};
use super::packages::Packages;
use super::{Mutant, Tree};

/// Time limit for one build or test program of the unbroken tree.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Additional time for a broken program, on top of four times the unbroken program's time.
const GRACE: Duration = Duration::from_secs(10);

/// The verdict on a break.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A test failed, hung or died: its name.
    Caught(String),
    /// All tests passed.
    Missed,
    /// It is not a break: the compiler refuses it, for this reason.
    Unbuildable(String),
}

/// A test program.
#[derive(Debug)]
struct Program {
    /// Its main file, relative to the root of the repository.
    name: String,
    executable: PathBuf,
    /// The folder in which cargo would run it.
    folder: PathBuf,
    /// Whether it was rebuilt now, because part of it has changed.
    new: bool,
}

/// The tests of a tree, which pass when nothing is broken.
#[derive(Debug)]
pub struct Suites<'a> {
    tree: &'a Tree,
    interrupted: Interrupted,
    cargo: PathBuf,
    packages: Packages,
    /// The time of each unbroken program, for those packages whose tests were needed.
    usual: BTreeMap<String, BTreeMap<String, Duration>>,
}

impl<'a> Suites<'a> {
    /// Prepares the tests of this tree.
    pub fn new(tree: &'a Tree, interrupted: Interrupted) -> Result<Self> {
        let cargo = env::var_os("CARGO").map_or("cargo".into(), PathBuf::from);
        let packages = Packages::of(&tree.root, &cargo)?;
        Ok(Self { tree, interrupted, cargo, packages, usual: BTreeMap::new() })
    }

    /// Makes a break, and runs the tests, its own package's first. Fails if a test fails without
    /// the break.
    pub fn judge(&mut self, mutant: &Mutant) -> Result<Verdict> {
        for package in self.packages.that_see(&mutant.file) {
            self.learn(&package)?;
            let verdict = self.tree.broken(mutant, || self.look(&package))?;
            if verdict != Verdict::Missed {
                return Ok(verdict);
            }
        }
        Ok(Verdict::Missed)
    }

    /// Builds a package's tests and runs them with nothing broken, unless that has been done.
    fn learn(&mut self, package: &str) -> Result<()> {
        if self.usual.contains_key(package) {
            return Ok(());
        }
        let programs = match self.build(package)? {
            Ok(programs) => programs,
            Err(reason) => bail!("the unbroken tree does not build: {reason}"),
        };
        let mut usual = BTreeMap::new();
        for program in programs {
            let start = Instant::now();
            if let Some(fault) = self.run(&program, PATIENCE)? {
                bail!("the unbroken tree does not pass its tests: {fault}");
            }
            usual.insert(program.name, start.elapsed());
        }
        self.usual.insert(package.to_owned(), usual);
        Ok(())
    }

    fn look(&self, package: &str) -> Result<Verdict> {
        let programs = match self.build(package)? {
            Ok(programs) => programs,
            Err(reason) => return Ok(Verdict::Unbuildable(reason)),
        };
        // A program that was not rebuilt cannot detect the break.
        for program in programs.iter().filter(|program| program.new) {
            let usual = self.usual[package].get(&program.name).context("a new test program")?;
            if let Some(fault) = self.run(program, *usual * 4 + GRACE)? {
                return Ok(Verdict::Caught(fault));
            }
        }
        Ok(Verdict::Missed)
    }

    /// Builds a package's test programs. Returns them, the library's own first, or the compiler's
    /// first error.
    fn build(&self, package: &str) -> Result<Result<Vec<Program>, String>> {
        let mut command = Command::new(&self.cargo);
        command.args(["test", "--no-run", "--tests", "--message-format=json", "--package", package]);
        command.current_dir(&self.tree.root).stderr(Stdio::null());
        command.env("CARGO_TARGET_DIR", &self.tree.target);
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
        programs.sort_by_key(|program| (!program.name.ends_with("src/lib.rs"), program.name.clone()));
        Ok(Ok(programs))
    }

    /// Returns the test program of a message from cargo.
    fn program(&self, message: &Value) -> Option<Program> {
        let path = |value: &Value| value.as_str().map(PathBuf::from);
        let main = path(&message["target"]["src_path"])?;
        // Cargo builds a package's examples, too, which are not tests.
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

    /// Runs a program until a test fails. Returns the failure, if any.
    fn run(&self, program: &Program, limit: Duration) -> Result<Option<String>> {
        let Program { name, executable, folder, .. } = program;
        let mut command = Command::new(executable);
        command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).stderr(Stdio::null());
        set_up_tests(&mut command);
        let deadline = Instant::now() + limit;
        let mut tests = Group::start(&mut command, &self.interrupted)?;
        loop {
            let fault = match tests.next(deadline)? {
                Said::Line(line) => match failure_in(&line) {
                    None => continue,
                    Some(test) => format!("{name} {test}"),
                },
                Said::Ended(status) if status.success() => return Ok(None),
                Said::Ended(status) => format!("{name}, which died ({status})"),
                Said::Late => format!("{name}, which hung (limit {} s)", limit.as_secs()),
            };
            return Ok(Some(fault));
        }
    }
}

/// Makes the verdict of tests the same each time; one failure is enough.
pub(super) fn set_up_tests(command: &mut Command) {
    for (setting, value) in
        [("RNG_SEED", "1"), ("MAX_SHRINK_ITERS", "0"), ("DISABLE_FAILURE_PERSISTENCE", "1")]
    {
        command.env(format!("PROPTEST_{setting}"), value);
    }
    command.env("RUST_BACKTRACE", "0");
}

/// Returns the test that has failed if this line of a test program reports a failure.
fn failure_in(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Returns the error in a message from cargo.
fn error_in(message: &Value) -> Option<String> {
    let message = &message["message"];
    let text = message["message"].as_str().filter(|_| message["level"] == "error")?;
    Some(message["code"]["code"].as_str().map_or(text.to_owned(), |code| format!("{code}: {text}")))
}
