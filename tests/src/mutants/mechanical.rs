//! The mechanical breaks: cargo-mutants replaces operators, conditions and the bodies of functions.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::Tree;
use super::group::Interrupted;
use super::packages::Packages;
use super::suite::set_up_tests;

/// Variable with the path of cargo-mutants. `./scripts/mutants` installs it and sets this.
const TOOL: &str = "HAMLYN_CARGO_MUTANTS";

/// Which mechanical breaks to make.
#[derive(Debug, Default, clap::Args)]
#[group(id = "mechanical-breaks", requires = "mechanical", multiple = true)]
pub struct Mechanical {
    /// With --mechanical: only in these packages
    #[arg(value_name = "PACKAGE")]
    packages: Vec<String>,
    /// With --mechanical: only in this file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// With --mechanical: only part K of N, counted from 0
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
}

impl Mechanical {
    /// Makes the breaks in a copy of the repository and runs the tests of their own packages.
    /// cargo-mutants prints each break that is missed, and writes `mutants.out` to `folder`.
    pub fn run(&self, tree: &Tree, repository: &Path, folder: &Path) -> Result<ExitStatus> {
        let cargo = env::var_os("CARGO").map_or("cargo".into(), PathBuf::from);
        let tool = env::var_os(TOOL).with_context(|| format!("{TOOL} is not set: use ./scripts/mutants"))?;
        let mut command = Command::new(tool);
        // The copy may be broken in place: the next run restores what an interrupted one leaves.
        command.args(["mutants", "--in-place"]);
        command.arg("--dir").arg(&tree.root).arg("--output").arg(folder);
        // The copy is without hidden folders.
        command.arg("--config").arg(repository.join(".cargo/mutants.toml"));
        let known = Packages::of(&tree.root, &cargo)?;
        let named = self.packages.iter().map(String::as_str);
        let all = known.mechanical().filter(|_| self.packages.is_empty() && self.file.is_none());
        for package in named.chain(all) {
            command.args(["--package", package]);
        }
        if let Some(file) = &self.file {
            command.arg("--file").arg(file);
        }
        if let Some(shard) = &self.shard {
            command.args(["--shard", shard]);
        }
        command.env("CARGO", cargo).env("CARGO_TARGET_DIR", &tree.target);
        set_up_tests(&mut command);
        wait(&mut command, &Interrupted::watch()?)
    }
}

/// Runs a program to its end. A signal ends it early, by SIGINT: cargo-mutants then restores the
/// broken file.
fn wait(command: &mut Command, interrupted: &Interrupted) -> Result<ExitStatus> {
    let mut child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Err(interrupted) = interrupted.check() {
            kill_process(Pid::from_child(&child), Signal::INT)?;
            child.wait()?;
            return Err(interrupted);
        }
        thread::sleep(Duration::from_millis(50));
    }
}
