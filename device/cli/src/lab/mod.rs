//! A lab: one switch, cards and virtual machines, that come up together and leave nothing behind.
//!
//! ```no_run
//! use hamlyn_cli::lab::Lab;
//!
//! # fn main() -> anyhow::Result<()> {
//! let lab = Lab::builder().vms(2).start()?;
//! let mut echo = lab.vm(0).run(["ping-pong", "serve"])?;
//! let ticket = echo.answer_text("ticket")?;
//! let mut ping = lab.vm(1).run(["ping-pong", "run", "--ticket", &ticket, "--count", "100"])?;
//! echo.say(&ping.answer_text("ticket")?)?;
//! println!("{:?}", ping.finish()?);
//! # Ok(())
//! # }
//! ```

mod accel;
mod agent;
mod builder;
mod evidence;
mod kit;
mod monitor;
mod processes;
mod qemu;
mod run;
mod vm;

pub use accel::{Accel, Accelerator};
pub use builder::Builder;
pub use hamlyn_agent::protocol::Exit;
pub use kit::Kit;
pub use processes::{hamlyn, keep, tether};
pub use qemu::{Memory, card_arguments};
pub use run::Run;
pub use vm::{MODULE, Vm};

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::stat;
use processes::{Directory, Process};

/// A running lab. Dropping it ends all its processes and removes its directory.
#[derive(Debug)]
pub struct Lab {
    // Dropped in this order: the machines before their cards, the directory last.
    vms: Vec<Vm>,
    cards: Vec<Service>,
    switch: Service,
    directory: Directory,
}

/// A card or a switch: a process with a socket to connect to and one for its counters.
#[derive(Debug)]
struct Service {
    process: Mutex<Process>,
    socket: PathBuf,
    stat: PathBuf,
    log: PathBuf,
}

impl Lab {
    /// A lab to be described: two machines unless it says otherwise.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The machine with this index.
    ///
    /// # Panics
    /// If there is no such machine.
    pub fn vm(&self, index: usize) -> &Vm {
        &self.vms[index]
    }

    /// All machines.
    pub fn vms(&self) -> &[Vm] {
        &self.vms
    }

    /// What the card of machine `index` has counted; spare cards come after the machines'.
    pub fn card_counters(&self, index: usize) -> anyhow::Result<Value> {
        self.card(index)?.counters()
    }

    /// How much the card has refused, for whatever reason: the sum of its counters under `refused`.
    pub fn refused(&self, index: usize) -> anyhow::Result<u64> {
        let counters = self.card_counters(index)?;
        let Some(refused) = counters.get("refused") else {
            bail!("card {index} does not count what it refuses")
        };
        Ok(stat::flatten(refused).iter().filter_map(|(_, count)| count.as_u64()).sum())
    }

    /// Where card `index` listens for its one client; of use with spare cards only.
    pub fn card_socket(&self, index: usize) -> anyhow::Result<&Path> {
        Ok(&self.card(index)?.socket)
    }

    /// Where the lab keeps its sockets and logs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Fails if the switch or a card has ended, with the reason.
    pub fn check(&self) -> anyhow::Result<()> {
        self.cards.iter().chain([&self.switch]).try_for_each(Service::check)
    }

    fn card(&self, index: usize) -> anyhow::Result<&Service> {
        let count = self.cards.len();
        self.cards.get(index).with_context(|| format!("there is no card {index} (limit {count})"))
    }
}

impl Service {
    fn counters(&self) -> anyhow::Result<Value> {
        self.check()?;
        Ok(stat::read(&self.stat)?.counters)
    }

    fn check(&self) -> anyhow::Result<()> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(status) = process.ended() {
            bail!("{} ended ({status})\n{}", process.name(), evidence::tail(&self.log));
        }
        Ok(())
    }
}
