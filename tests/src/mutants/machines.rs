//! Breaks of the driver that only machines can detect. The module is built with the break, and one
//! test with machines runs with it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::group::{Group, Interrupted, Said};
use super::{Mutant, Tree, Verdict};

/// Time limit for the build of the module, and for the test.
const PATIENCE: Duration = Duration::from_secs(900);

/// The test program with machines, and the module of a tree.
#[derive(Debug)]
pub struct Machines<'a> {
    tree: &'a Tree,
    interrupted: Interrupted,
    repository: PathBuf,
    /// The folder with the broken module and its kit.
    folder: PathBuf,
    tests: PathBuf,
}

impl<'a> Machines<'a> {
    /// Builds the test program, and runs each test that the breaks name, with nothing broken.
    pub fn new(
        tree: &'a Tree,
        repository: &Path,
        folder: &Path,
        interrupted: Interrupted,
        mutants: &[Mutant],
    ) -> Result<Self> {
        let cargo = env::var_os("CARGO").map_or("cargo".into(), PathBuf::from);
        let mut command = Command::new(cargo);
        command.args(["test", "--workspace", "--test", "vm", "--no-run", "--message-format=json"]);
        let output = command.current_dir(repository).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "the tests with machines do not build");
        let said = String::from_utf8_lossy(&output.stdout);
        let messages = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let programs = messages.filter(|message| message["target"]["name"] == "vm");
        let tests =
            programs.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
        let tests = tests.context("cargo names no program of the tests with machines")?;
        let (repository, folder) = (repository.to_owned(), folder.to_owned());
        let machines = Self { tree, interrupted, repository, folder, tests };
        if let Err(reason) = machines.build()? {
            bail!("the unbroken module does not build: {reason}");
        }
        let mut names: Vec<&str> = mutants.iter().filter_map(|mutant| mutant.test.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        if let Some(fault) = machines.run(&names)? {
            bail!("the unbroken tree does not pass its tests: {fault}");
        }
        Ok(machines)
    }

    /// Makes a break, and runs its test.
    pub fn judge(&self, mutant: &Mutant) -> Result<Verdict> {
        let test = mutant.test.as_deref().context("a break without a test with machines")?;
        self.tree.broken(mutant, || {
            Ok(match self.build()? {
                Err(reason) => Verdict::Unbuildable(reason),
                Ok(()) => self.run(&[test])?.map_or(Verdict::Missed, Verdict::Caught),
            })
        })
    }

    /// Builds the module and its kit. Returns the compiler's first error if it fails.
    fn build(&self) -> Result<Result<(), String>> {
        let mut command = Command::new("bash");
        command
            .arg(self.tree.root.join("scripts/lib/broken_module.sh"))
            .args([&self.folder, &self.repository]);
        command.stderr(Stdio::null());
        let mut build = Group::start(&mut command, &self.interrupted)?;
        let (deadline, mut last) = (Instant::now() + PATIENCE, String::new());
        loop {
            match build.next(deadline)? {
                Said::Line(line) => last = line,
                Said::Ended(status) if status.success() => return Ok(Ok(())),
                Said::Ended(status) => return Ok(Err(format!("{status}; it said last: {last}"))),
                Said::Late => bail!("the module is not built in {} s", PATIENCE.as_secs()),
            }
        }
    }

    /// Runs tests with the module that was built last. Returns the failure, if any.
    fn run(&self, tests: &[&str]) -> Result<Option<String>> {
        let mut command = Command::new(&self.tests);
        command.arg("--exact").args(tests).env("HAMLYN_KIT", self.folder.join("kit.json"));
        command.current_dir(self.repository.join("tests")).stderr(Stdio::null());
        let mut run = Group::start(&mut command, &self.interrupted)?;
        let (deadline, mut passed) = (Instant::now() + PATIENCE, 0);
        loop {
            match run.next(deadline)? {
                Said::Line(line) if line.ends_with("FAILED") && line.starts_with("test ") => {
                    return Ok(Some(line["test ".len()..].trim_end_matches(" ... FAILED").to_owned()));
                }
                Said::Line(line) => {
                    passed += usize::from(line.starts_with("test ") && line.ends_with(" ... ok"))
                }
                Said::Ended(status) if status.success() && passed == tests.len() => return Ok(None),
                Said::Ended(status) if status.success() => {
                    bail!("of the tests {tests:?} {passed} were run: is one's name wrong?")
                }
                Said::Ended(status) => return Ok(Some(format!("the tests, which died ({status})"))),
                Said::Late => {
                    return Ok(Some(format!("the tests, which hung (limit {} s)", PATIENCE.as_secs())));
                }
            }
        }
    }
}
