//! Processes of a lab that have counters: a switch, cards, or a fabric of both.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::bail;
use hamlyn_host::stat::{self, StatError};
use serde_json::Value;

use super::evidence;
use super::processes::{Held, Process, Words, hamlyn};

/// Description of how to start a service.
#[derive(Debug)]
pub(super) struct Recipe {
    /// Its command, by which `hamlyn stat` identifies it.
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// Program to run instead of `hamlyn`.
    pub(super) program: Option<PathBuf>,
    /// Arguments after the command.
    pub(super) arguments: Vec<OsString>,
    /// The lab's directory.
    pub(super) run: PathBuf,
    /// How long it may take to become ready.
    pub(super) patience: Duration,
}

/// One of these processes.
#[derive(Debug)]
pub(super) struct Service {
    recipe: Recipe,
    log: PathBuf,
    running: Mutex<Running>,
}

#[derive(Debug)]
struct Running {
    process: Process,
    stat: PathBuf,
}

impl Service {
    pub(super) fn start(recipe: Recipe) -> anyhow::Result<Service> {
        let log = recipe.run.join(format!("{}.log", recipe.name));
        let running = Mutex::new(recipe.start(&log)?);
        Ok(Service { recipe, log, running })
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Returns its counters. A process that is silent is asked again for the lab's patience: it may
    /// run on a loaded host.
    pub(super) fn counters(&self) -> anyhow::Result<Value> {
        let deadline = Instant::now() + self.recipe.patience;
        loop {
            self.check()?;
            let socket = self.lock().stat.clone();
            match stat::read(&socket) {
                Err(StatError::Silent { .. }) if Instant::now() < deadline => {}
                report => return Ok(report?.counters),
            }
        }
    }

    /// Fails with the reason if it has ended.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let process = &mut self.lock().process;
        if let Some(status) = process.ended() {
            bail!("{} ended ({status})\n{}", process.name(), evidence::tail(&self.log));
        }
        Ok(())
    }

    pub(super) fn hold(&self) -> anyhow::Result<Held> {
        Held::stop(&self.lock().process)
    }

    pub(super) fn kill(&self) {
        self.lock().process.kill();
    }

    /// Kills it if it runs, and starts it again.
    pub(super) fn restart(&self) -> anyhow::Result<()> {
        let mut running = self.lock();
        running.process.kill();
        *running = self.recipe.start(&self.log)?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recipe {
    fn start(&self, log: &Path) -> anyhow::Result<Running> {
        let Recipe { kind, name, run, .. } = self;
        let arguments = [OsString::from(kind)].into_iter().chain(self.arguments.iter().cloned());
        let program = self.program.clone().map_or_else(hamlyn, Ok)?;
        let mut process = Process::start(name, &program, arguments, Words::One(log), run, None)?;
        let stat = stat::socket(run, kind, process.pid());
        let deadline = Instant::now() + self.patience;
        // A process provides its counters only after all else is ready.
        while stat::read(&stat).is_err() {
            if let Some(status) = process.ended() {
                bail!("{name} ended at once ({status})\n{}", evidence::tail(log));
            }
            if Instant::now() > deadline {
                bail!("{name} is not ready after {:?}\n{}", self.patience, evidence::tail(log));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(Running { process, stat })
    }
}
