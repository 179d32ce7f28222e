//! Description and start of a lab.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, bail, ensure};
use hamlyn_host::catalogue::{self, Choice, Model};

use super::functions::{CARD_SLOT, Functions};
use super::machine::Machine;
use super::name::Name;
use super::own::{Own, settings_of_all};
use super::processes::Directory;
use super::service::{Recipe, Service};
use super::stores::{self, Snoop, Stores};
use super::subnet::Subnet;
use super::system::System;
use super::{Accel, Accelerator, Added, Card, Host, Kit, Lab, Memory, Vm, Vmm, image};
use super::{network, system};

/// Returns more arguments for a machine's QEMU, given its index and the lab's directory.
type QemuArgs = dyn Fn(usize, &Path) -> Vec<String>;

/// Pages of a MiB, and the largest number of entries of a card's page table.
const PAGES_OF_MIB: u32 = 256;
const MOST_PAGES: u32 = 1 << 24;

/// Description of a lab.
pub struct Builder {
    models: Vec<&'static Model>,
    vms: usize,
    name: Option<Name>,
    own: Vec<Own>,
    spare_cards: usize,
    vmm: Vmm,
    accel: Accel,
    snoop: Snoop,
    reboots: bool,
    memory: Memory,
    kit: Option<Kit>,
    added: Vec<Added>,
    append: String,
    one_process: bool,
    doorbell_function: bool,
    cores: Vec<u16>,
    card_args: Vec<String>,
    card_program: Option<(usize, PathBuf, Vec<String>)>,
    switch_args: Vec<String>,
    qemu_args: Box<QemuArgs>,
    network: bool,
    ip: Option<Subnet>,
    system: Option<System>,
    patience: Duration,
    wait_for_guests: bool,
    progress: Box<dyn Fn(&str)>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            models: vec![catalogue::default()],
            vms: 2,
            name: None,
            own: Vec::new(),
            spare_cards: 0,
            vmm: Vmm::Qemu,
            accel: Accel::Auto,
            snoop: Snoop::Auto,
            reboots: false,
            memory: Memory::DEFAULT,
            kit: None,
            added: Vec::new(),
            append: String::new(),
            one_process: false,
            doorbell_function: true,
            cores: Vec::new(),
            card_args: Vec::new(),
            card_program: None,
            switch_args: Vec::new(),
            qemu_args: Box::new(|_, _| Vec::new()),
            network: false,
            ip: None,
            system: None,
            patience: Duration::from_secs(120),
            wait_for_guests: true,
            progress: Box::new(|_| {}),
        }
    }
}

impl Builder {
    /// Sets the cards' models: one for all, or one for each.
    pub fn models(mut self, models: &[&'static Model]) -> Builder {
        self.models = models.to_vec();
        self
    }

    /// Sets the number of virtual machines, each of which has a card.
    pub fn vms(mut self, count: usize) -> Builder {
        self.vms = count;
        self
    }

    /// Returns the number of virtual machines.
    pub fn machines(&self) -> usize {
        self.vms
    }

    /// Names the lab. Its logs then stay when it ends, until the next lab of this name.
    pub fn name(mut self, name: Name) -> Builder {
        self.name = Some(name);
        self
    }

    /// Sets what each machine has of its own, and with it the number of machines.
    pub fn each(mut self, own: Vec<Own>) -> Builder {
        self.vms = own.len();
        self.own = own;
        self
    }

    /// Sets the number of additional cards without a machine, for processes of the host.
    pub fn spare_cards(mut self, count: usize) -> Builder {
        self.spare_cards = count;
        self
    }

    /// Sets the program that runs the machines.
    pub fn vmm(mut self, vmm: Vmm) -> Builder {
        self.vmm = vmm;
        self
    }

    /// Sets the accelerator of the machines.
    pub fn accel(mut self, accel: Accel) -> Builder {
        self.accel = accel;
        self
    }

    /// Sets how stores of the machines reach cards that snoop them.
    pub fn snoop(mut self, snoop: Snoop) -> Builder {
        self.snoop = snoop;
        self
    }

    /// Sets whether a machine boots again when its guest asks for it. Otherwise it ends, also on a
    /// kernel panic. Cloud Hypervisor always boots it again.
    pub fn reboots(mut self, reboots: bool) -> Builder {
        self.reboots = reboots;
        self
    }

    /// Sets each machine's memory.
    pub fn memory(mut self, memory: Memory) -> Builder {
        self.memory = memory;
        self
    }

    /// Sets a kit with another emulator, kernel or image than the prepared one.
    pub fn kit(mut self, kit: Kit) -> Builder {
        self.kit = Some(kit);
        self
    }

    /// Adds programs to the image.
    pub fn programs(mut self, programs: impl IntoIterator<Item = Added>) -> Builder {
        self.added.extend(programs);
        self
    }

    /// Sets words for the kernel's command line. `hamlyn.noload` leaves the module unloaded.
    pub fn kernel_args(mut self, words: &str) -> Builder {
        self.append = words.to_owned();
        self
    }

    /// Sets whether cards and switch are one process, `hamlyn fabric`. Otherwise each is a separate
    /// process.
    pub fn one_process(mut self, one: bool) -> Builder {
        self.one_process = one;
        self
    }

    /// Sets whether machines have the card's second function. Without it, a doorbell is a round
    /// trip.
    pub fn doorbell_function(mut self, has: bool) -> Builder {
        self.doorbell_function = has;
        self
    }

    /// Sets the host's cores that the machines are pinned to, reused from the first if there are
    /// more machines. In a lab of one process, cards share their machine's core (`hamlyn fabric
    /// --cores`), and machines give way to them once they are ready. Without cores, nothing is
    /// pinned.
    pub fn cores(mut self, cores: impl IntoIterator<Item = u16>) -> Builder {
        self.cores = cores.into_iter().collect();
        self
    }

    /// Sets arguments for each `hamlyn card`.
    pub fn card_args(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Builder {
        self.card_args = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Runs another program instead of `hamlyn` for one card, with more arguments. It must accept
    /// the arguments of `hamlyn card` and provide counters in the same way.
    pub fn card_program(
        mut self,
        card: usize,
        program: PathBuf,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Builder {
        self.card_program = Some((card, program, arguments.into_iter().map(Into::into).collect()));
        self
    }

    /// Sets arguments for `hamlyn switch`, or those of `hamlyn fabric` for its switch.
    /// `--express-part 4M` gives more express memory, `--express none` gives none.
    pub fn switch_args(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Builder {
        self.switch_args = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Sets more arguments for each machine's QEMU, given the machine's index and the lab's
    /// directory.
    pub fn qemu_args(mut self, arguments: impl Fn(usize, &Path) -> Vec<String> + 'static) -> Builder {
        self.qemu_args = Box::new(arguments);
        self
    }

    /// Sets whether the machines, which must be two, also have a virtio-net device each, linked
    /// with each other.
    pub fn network(mut self, has: bool) -> Builder {
        self.network = has;
        self
    }

    /// Gives the machines IP addresses of this range, for a network over their cards.
    pub fn ip(mut self, range: Option<Subnet>) -> Builder {
        self.ip = range;
        self
    }

    /// Gives each machine a disk image as its root. Their writes to it do not last.
    pub fn system(mut self, system: Option<System>) -> Builder {
        self.system = system;
        self
    }

    /// Sets how long to wait for a guest to become ready, and for each output of a program in it.
    pub fn patience(mut self, patience: Duration) -> Builder {
        self.patience = patience;
        self
    }

    /// Sets whether to wait until the guests are ready. A foreign image has no agent that could
    /// report it.
    pub fn wait_for_guests(mut self, wait: bool) -> Builder {
        self.wait_for_guests = wait;
        self
    }

    /// Sets a function that is called with each step that is waited for.
    pub fn progress(mut self, tell: impl Fn(&str) + 'static) -> Builder {
        self.progress = Box::new(tell);
        self
    }

    /// Starts everything and waits until it is ready.
    pub fn start(mut self) -> anyhow::Result<Lab> {
        let mut kit = match &self.kit {
            Some(kit) => kit.clone(),
            None => Kit::find()?,
        };
        self.adapt(&kit.host);
        let accelerator = self.vmm.decide(self.accel)?;
        let program = match self.vmm {
            Vmm::Qemu => kit.qemu.clone(),
            Vmm::CloudHypervisor => Vmm::find_cloud_hypervisor()?,
        };
        ensure!(!self.network || self.vms == 2, "the network links two machines, not {}", self.vms);
        if let Some(most) = self.ip.map(Subnet::machines) {
            ensure!(self.vms <= most, "the range of addresses is for {most} machines, not {}", self.vms);
        }
        let cards = self.vms + self.spare_cards;
        if let Some((card, program, _)) = &self.card_program {
            let program = program.display();
            ensure!(!self.one_process, "{program} cannot be card {card}: all cards are one process");
            ensure!(*card < cards, "{program} cannot be card {card}: there are {cards} cards");
        }
        self.models = catalogue::each(&self.models, cards)?;
        catalogue::check_together(&self.models)?;
        self.cover_memory(&kit);
        let snooped = self.models[..self.vms].iter().any(|model| catalogue::is_snooped(model));
        let stores = self.snoop.decide(snooped, accelerator, stores::plugin())?;
        self.own.resize(self.vms, Own::default());
        for (index, own) in self.own.iter_mut().enumerate() {
            own.name.get_or_insert_with(|| Name::of_machine(index));
        }
        let directory = Directory::make(self.name.as_ref())?;
        let run = directory.path();
        self.extend_images(&mut kit, run)?;
        for index in 0..self.vms {
            let initrd = self.own[index].initrd.as_ref().unwrap_or(&kit.initrd);
            let image = fs::metadata(initrd).with_context(|| format!("no image {}", initrd.display()))?;
            let memory = self.memory_of(&self.own[index], &kit);
            memory
                .check_image(image.len())
                .map_err(Error::msg)
                .context(self.machine_name(index).to_owned())?;
        }
        let sockets: Vec<PathBuf> = (0..cards).map(|index| run.join(format!("card{index}.sock"))).collect();
        let services =
            if self.one_process { self.fabric(run, &sockets) } else { self.switch(run, &sockets) }?;
        let card = |(index, socket): (usize, PathBuf)| {
            let (service, counters) = if self.one_process {
                (0, format!("/cards/card{index}"))
            } else {
                (1 + index, String::new())
            };
            Card { socket, service, counters }
        };
        let cards: Vec<Card> = sockets.into_iter().enumerate().map(card).collect();
        let vms: Vec<Vm> = (0..self.vms)
            .map(|index| {
                let machine = self.machine(&kit, accelerator, stores.as_ref(), run, index, &cards[index])?;
                let service = &services[cards[index].service];
                Ok(Vm::new(machine, &program, run, service.log(), self.patience))
            })
            .collect::<anyhow::Result<_>>()?;
        for vm in &vms {
            (self.progress)(vm.name());
            vm.launch()?;
        }
        for (vm, own) in vms.iter().zip(&self.own) {
            if self.wait_for_guests && own.initrd.is_none() {
                (self.progress)(&format!("{} boots", vm.name()));
                vm.wait_until_ready()?;
            }
        }
        Ok(Lab { door: None, vms, cards, services, stores, directory })
    }

    /// Applies the kit's host settings.
    fn adapt(&mut self, host: &Host) {
        self.vmm = host.vmm.unwrap_or(self.vmm);
        self.accel = host.accel.unwrap_or(self.accel);
        if !host.kernel_args.is_empty() {
            self.append = format!("{} {}", host.kernel_args, self.append);
        }
        self.patience = self.patience.max(Duration::from_secs(host.patience_s));
        if let Some(period) = host.handshake_ms {
            self.suggest("handshake", period);
        }
    }

    /// Sets a setting of the cards that have none of their own, unless the arguments of all cards
    /// set it.
    fn suggest(&mut self, setting: &'static str, value: u32) {
        let flag = format!("--{setting}");
        let is_said = |word: &String| word.split('=').next() == Some(&flag);
        if self.card_args.iter().any(is_said) {
            return;
        }
        if !self.own.iter().any(|own| own.settings.contains_key(setting)) {
            self.card_args.push(format!("{flag}={value}"));
            return;
        }
        for own in &mut self.own {
            own.settings.entry(setting).or_insert(value);
        }
    }

    /// Adds the programs to the images that machines boot.
    fn extend_images(&mut self, kit: &mut Kit, run: &Path) -> anyhow::Result<()> {
        if self.added.is_empty() {
            return Ok(());
        }
        let own = self.own.iter_mut().filter_map(|own| own.initrd.as_mut());
        for (index, image) in [&mut kit.initrd].into_iter().chain(own).enumerate() {
            let extended = run.join(format!("image{index}"));
            image::extend(image, &self.added, &extended)?;
            *image = extended;
        }
        Ok(())
    }

    /// Returns a machine's memory, with what the kit's kernel needs in addition.
    fn memory_of(&self, own: &Own, kit: &Kit) -> Memory {
        own.memory.unwrap_or(self.memory).with(kit.extra_memory)
    }

    /// Returns a machine's name. All have one once the lab starts.
    fn machine_name(&self, index: usize) -> &str {
        self.own[index].name.as_ref().map_or("", Name::as_str)
    }

    /// Gives cards with a page table an entry for each page of the largest machine's memory, unless
    /// their arguments set a number.
    fn cover_memory(&mut self, kit: &Kit) {
        let have = |model: &&'static Model| Choice::of(model).get("pages").is_ok();
        let memories = self.own.iter().map(|own| self.memory_of(own, kit));
        let largest = memories.chain([self.memory_of(&Own::default(), kit)]).map(Memory::end).max();
        let (pages, default) = (largest.unwrap_or(0) * PAGES_OF_MIB, Memory::DEFAULT.end() * PAGES_OF_MIB);
        if pages > default && self.models.iter().all(have) {
            self.suggest("pages", pages.min(MOST_PAGES));
        }
    }

    /// Starts a switch process and a process for each card.
    fn switch(&self, run: &Path, sockets: &[PathBuf]) -> anyhow::Result<Vec<Service>> {
        let uplink = run.join("switch.sock").to_string_lossy().into_owned();
        let mut services =
            vec![self.service(run, "switch", "switch", None, &["--socket", &uplink], &self.switch_args)?];
        for (index, (socket, model)) in sockets.iter().zip(&self.models).enumerate() {
            let socket = socket.to_string_lossy();
            let fixed = ["--socket", &socket, "--model", model.name, "--switch", &uplink];
            let other = self.card_program.as_ref().filter(|(card, ..)| *card == index);
            let program = other.map(|(_, program, _)| program.clone());
            let more = other.map_or(&[][..], |(.., arguments)| arguments);
            let own = self.own.get(index).map(|own| &own.settings).into_iter().flatten();
            let own: Vec<String> = own.map(|(name, value)| format!("--{name}={value}")).collect();
            let more = [&self.card_args[..], &own, more].concat();
            services.push(self.service(run, "card", &format!("card{index}"), program, &fixed, &more)?);
        }
        Ok(services)
    }

    /// Starts one process for the switch and all cards.
    fn fabric(&self, run: &Path, sockets: &[PathBuf]) -> anyhow::Result<Vec<Service>> {
        let models = self.models.iter().map(|model| model.name).collect::<Vec<_>>().join(",");
        let sockets: Vec<_> = sockets.iter().map(|socket| socket.to_string_lossy()).collect();
        let fixed = sockets.iter().flat_map(|socket| ["--socket", socket]);
        let fixed: Vec<&str> = fixed.chain(["--model", &models]).collect();
        let cores = self.cores.iter().map(|core| format!("--cores={core}")).collect::<Vec<_>>();
        let own = settings_of_all(&self.own, &self.models);
        // Cloud Hypervisor does not seal the memory of its machines against shrinking.
        let trust = if self.vmm == Vmm::Qemu { Vec::new() } else { vec!["--trust-memory".to_owned()] };
        let more = [&self.card_args[..], &own, &self.switch_args[..], &cores, &trust].concat();
        Ok(vec![self.service(run, "fabric", "fabric", None, &fixed, &more)?])
    }

    fn service(
        &self,
        run: &Path,
        kind: &'static str,
        name: &str,
        program: Option<PathBuf>,
        fixed: &[&str],
        more: &[String],
    ) -> anyhow::Result<Service> {
        (self.progress)(name);
        let fixed = fixed.iter().map(Into::into);
        Service::start(Recipe {
            kind,
            name: name.to_owned(),
            program,
            arguments: fixed.chain(more.iter().map(Into::into)).collect(),
            run: run.to_owned(),
            patience: self.patience,
        })
    }

    /// Returns the PCI functions of a machine's card, which already listens.
    fn functions(&self, index: usize, card: &Card) -> anyhow::Result<Functions> {
        let doorbells = self.doorbell_function && catalogue::has_doorbells(self.models[index]);
        Functions::of(&card.socket, CARD_SLOT, doorbells).map_err(Error::msg)
    }

    /// Returns the words for a machine's kernel command line.
    fn words(&self, index: usize) -> String {
        let own = &self.own[index];
        let names: Vec<&str> = (0..self.vms).map(|index| self.machine_name(index)).collect();
        let network = self.network.then(|| format!("hamlyn.net={}", network::address(index)));
        let ip = self.ip.map(|range| range.words(index, &names));
        let image = self.drive(own).map(|_| system::WORD.to_owned());
        let append = [&self.append, &own.append].into_iter().filter(|words| !words.is_empty()).cloned();
        network.into_iter().chain(ip).chain(image).chain(append).collect::<Vec<_>>().join(" ")
    }

    /// Returns the drive of a machine's disk image, if it has one.
    fn drive(&self, own: &Own) -> Option<String> {
        own.system.as_ref().or(self.system.as_ref()).map(System::drive)
    }

    /// Returns the arguments for a machine's other devices.
    fn devices(&self, index: usize, run: &Path) -> Vec<String> {
        let mut arguments = if self.network { network::device(index, run) } else { Vec::new() };
        arguments.extend((self.qemu_args)(index, run));
        arguments.extend(self.own[index].qemu_args.iter().cloned());
        arguments
    }

    fn machine(
        &self,
        kit: &Kit,
        accelerator: Accelerator,
        stores: Option<&Stores>,
        run: &Path,
        index: usize,
        card: &Card,
    ) -> anyhow::Result<Machine> {
        let (name, own) = (self.machine_name(index).to_owned(), &self.own[index]);
        let file = |ending: &str| run.join(format!("{name}.{ending}"));
        let stores = stores.filter(|_| catalogue::is_snooped(self.models[index]));
        let more = self.devices(index, run);
        if self.vmm == Vmm::CloudHypervisor {
            let system = self.drive(own).is_some();
            let parts = [(!more.is_empty(), "devices of QEMU's"), (system, "a disk image")];
            if let Some((_, part)) = parts.iter().find(|(has, _)| *has) {
                bail!("{name} cannot have {part} under Cloud Hypervisor: --vmm qemu can");
            }
        }
        Ok(Machine {
            vmm: self.vmm,
            accelerator,
            reboots: self.reboots,
            memory: self.memory_of(own, kit),
            processors: kit.host.processors.unwrap_or(1),
            core: self.cores.get(index % self.cores.len().max(1)).copied(),
            kernel: own.kernel.as_ref().unwrap_or(&kit.kernel).clone(),
            initrd: own.initrd.as_ref().unwrap_or(&kit.initrd).clone(),
            disk: kit.disk.clone().filter(|_| own.initrd.is_none()),
            system: self.drive(own),
            append: self.words(index),
            card: card.socket.clone(),
            functions: self.functions(index, card)?,
            plugin: stores.and_then(Stores::plugin).map(Into::into),
            console: file("console"),
            console_log: file("log"),
            agent: file("agent"),
            monitor: file(if self.vmm == Vmm::Qemu { "monitor" } else { "api" }),
            more,
            name,
        })
    }
}
