//! A lab: one switch, cards and virtual machines that start together and leave nothing behind.
//!
//! ```no_run
//! use hamlyn_lab::Lab;
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
mod build_id;
mod builder;
mod cloud_hypervisor;
mod complaints;
mod debugger;
mod door;
mod dump;
mod evidence;
mod functions;
mod hybrid_vsock;
mod image;
mod kit;
mod log;
mod machine;
mod memory;
mod monitor;
mod name;
mod network;
mod own;
pub mod plain;
mod processes;
mod qemu;
mod remote;
mod run;
mod service;
mod stores;
mod subnet;
mod system;
mod vm;
mod vmm;

pub use accel::{Accel, Accelerator};
pub use builder::Builder;
pub use complaints::{COMPLAINTS, first_complaint, without_foreign_races};
pub use debugger::Debugger;
pub use door::{Doorway, owner};
pub use dump::{Dump, DumpFormat};
pub use functions::{CARD_SLOT, Functions};
pub use hamlyn_agent::loader::Needs;
pub use hamlyn_agent::protocol::{Exit, Program, What};
pub use image::Added;
pub use kit::{Host, Kit};
pub use memory::Memory;
pub use name::Name;
pub use own::Own;
pub use processes::{Held, cores, hamlyn, keep, tether};
pub use qemu::{card_arguments, snoop_arguments};
pub use remote::{Input, Remote};
pub use run::{Heard, Run};
pub use stores::{Snoop, Stores, plugin};
pub use subnet::Subnet;
pub use system::{Packages, System};
pub use vm::{MODULE, SELDOM_PROBES, SWAP, Vm};
pub use vmm::Vmm;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use door::Door;
use processes::Directory;
use service::Service;

/// Index of the service that is the switch, or contains it.
const SWITCH: usize = 0;

/// A running lab. Dropping it ends all its processes and removes its directory.
#[derive(Debug)]
pub struct Lab {
    // Dropped in this order: the machines before their cards, the directory last.
    door: Option<Door>,
    vms: Vec<Vm>,
    cards: Vec<Card>,
    services: Vec<Service>,
    stores: Option<Stores>,
    directory: Directory,
}

/// A card of the lab.
#[derive(Debug)]
struct Card {
    /// The socket that its one client connects to.
    socket: PathBuf,
    /// Index of the service that runs it.
    service: usize,
    /// Location of its counters in those of its process, as a JSON pointer.
    counters: String,
}

impl Lab {
    /// Returns a description of a lab, with two machines by default.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the machine with this index.
    ///
    /// # Panics
    /// Panics if there is no such machine.
    pub fn vm(&self, index: usize) -> &Vm {
        &self.vms[index]
    }

    /// Returns all machines.
    pub fn vms(&self) -> &[Vm] {
        &self.vms
    }

    /// Returns how stores reach the cards that snoop them, if there are such cards.
    pub fn stores(&self) -> Option<&Stores> {
        self.stores.as_ref()
    }

    /// Returns the counters of card `index`. Spare cards come after the machines' cards.
    pub fn card_counters(&self, index: usize) -> anyhow::Result<Value> {
        let card = self.card(index)?;
        let counters = self.services[card.service].counters()?;
        let of_card = counters.pointer(&card.counters).cloned();
        of_card.with_context(|| format!("card {index} has no counters: {counters}"))
    }

    /// Returns the counters of the switch.
    pub fn switch_counters(&self) -> anyhow::Result<Value> {
        let mut counters = self.services[SWITCH].counters()?;
        Ok(counters.get_mut("switch").map(Value::take).unwrap_or(counters))
    }

    /// Returns the number of all refusals of a card: the sum of its counters that begin with
    /// `refused_`.
    pub fn refused(&self, index: usize) -> anyhow::Result<u64> {
        let counters = self.card_counters(index)?;
        let Some(counters) = counters.get("card").and_then(Value::as_object) else {
            bail!("card {index} does not count what it refuses")
        };
        let refusals = counters.iter().filter(|(name, _)| name.starts_with("refused_"));
        Ok(refusals.filter_map(|(_, count)| count.as_u64()).sum())
    }

    /// Returns the socket where card `index` listens for its one client. Useful only for spare
    /// cards.
    pub fn card_socket(&self, index: usize) -> anyhow::Result<&Path> {
        Ok(&self.card(index)?.socket)
    }

    /// Returns the directory of the lab's sockets and logs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Stops the process of card `index`, which then neither receives nor sends. It continues when
    /// the returned value is dropped.
    pub fn hold_card(&self, index: usize) -> anyhow::Result<Held> {
        self.services[self.card(index)?.service].hold()
    }

    /// Kills the switch: the links of all cards go down.
    pub fn kill_switch(&self) {
        self.services[SWITCH].kill();
    }

    /// Kills the switch and starts another. The cards reconnect to it by themselves.
    pub fn restart_switch(&self) -> anyhow::Result<()> {
        self.services[SWITCH].restart()
    }

    /// Kills the process of card `index` and starts another, which has no machine yet. Not for a
    /// lab of one process.
    pub fn restart_card(&self, index: usize) -> anyhow::Result<()> {
        self.services[self.card(index)?.service].restart()
    }

    /// Lets other processes of this user run programs in the machines, see [`Remote`].
    pub fn open_door(&mut self) -> anyhow::Result<()> {
        let machines = self.vms.iter().map(|vm| (vm.name().to_owned(), vm.speaks())).collect();
        self.door = Some(Door::open(self.directory.path(), machines)?);
        Ok(())
    }

    /// Fails with the reason if the switch or a card has ended.
    pub fn check(&self) -> anyhow::Result<()> {
        self.services.iter().try_for_each(Service::check)
    }

    /// Fails with the reason if the switch has ended, or the process that contains it and all
    /// cards.
    pub fn check_switch(&self) -> anyhow::Result<()> {
        self.services[SWITCH].check()
    }

    /// Fails with the reason if the process of card `index` has ended.
    pub fn check_card(&self, index: usize) -> anyhow::Result<()> {
        self.services[self.card(index)?.service].check()
    }

    fn card(&self, index: usize) -> anyhow::Result<&Card> {
        let count = self.cards.len();
        self.cards.get(index).with_context(|| format!("there is no card {index} (limit {count})"))
    }
}
