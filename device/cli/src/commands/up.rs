//! `hamlyn up`

use std::io::{Write, stdout};
use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;

use super::MachineArgs;
use super::demo::SHOWS;
use super::demo::show::{Hints, Show};
use super::demo::stage::Stage;
use super::lab::file::Description;
use super::lab::stay;
use hamlyn_lab::{Added, Lab, Packages, Subnet};

/// Start virtual machines with cards, to use by hand, until Ctrl-C or until all have powered off
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn up                      two machines; then, in other terminals: hamlyn console vm0
  hamlyn up -n 4 --memory 512M
  hamlyn up --isolate                     a process for each card, to be limited or killed by itself
  hamlyn up --add target/x86_64-unknown-linux-musl/release/hello    a program of yours: hamlyn exec vm0 -- hello
  hamlyn up --model dart --ip 10.7.0.0/24   a network over the cards, for any program: ping vm1
  hamlyn up --ip 10.7.0.0/24 --packages iperf3,redis-server   with programs of Debian's
  hamlyn up --net                         two machines that can also speak TCP, to compare
  hamlyn up --paths 4                     packets of a message overtake each other in the switch
  hamlyn up -- --packet-size 1024         what follows -- is for the cards: see hamlyn card --help
  hamlyn up --kernel ./bzImage --append 'loglevel=7'
  hamlyn up --vmm cloud-hypervisor        where KVM works: docs/cloud-hypervisor.md")]
pub(super) struct UpArgs {
    /// Number of machines
    #[arg(short = 'n', long = "machines", value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    count: u16,
    #[command(flatten)]
    machine: MachineArgs,
    /// Add a program to the machines, as /bin/NAME; it must be linked statically
    /// (docs/your-program.md). May be repeated
    #[arg(long, value_name = "FILE[:NAME]")]
    add: Vec<Added>,
    /// Give the machines a network over their cards, with addresses of this range. vm0 has the
    /// first
    #[arg(long, value_name = "RANGE")]
    ip: Option<Subnet>,
    /// Install these Debian packages in the machines, with commas between them. The first time this
    /// takes half a minute and needs the network; then the image is kept
    #[arg(long, value_name = "LIST", conflicts_with_all = ["image", "initrd"])]
    packages: Option<Packages>,
    /// Disk image, raw or qcow2, that becomes the root of each machine: ext4, on the disk or in its
    /// first partition. What machines write to it is gone when they end
    #[arg(long, value_name = "FILE", conflicts_with = "initrd")]
    image: Option<PathBuf>,
    /// Also link two machines by a virtio-net network: vm0 is 192.0.2.1 there, vm1 192.0.2.2
    #[arg(long)]
    net: bool,
    /// Additional word for each machine's QEMU. May be repeated: --qemu-arg=-device
    /// --qemu-arg=virtio-rng-pci
    #[arg(long = "qemu-arg", value_name = "WORD", allow_hyphen_values = true)]
    qemu_args: Vec<String>,
    /// Kernel to use instead of the prepared one
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Image to use instead of the prepared one; its boot is not waited for
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// Words for the kernels' command lines
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true)]
    append: String,
    /// Arguments for each card: see hamlyn card --help
    #[arg(last = true, value_name = "CARD ARGUMENTS")]
    card: Vec<String>,
}

pub(super) fn run(args: UpArgs) -> anyhow::Result<()> {
    // If models are mixed, show the first one's programs.
    let show = SHOWS.of(args.machine.model.models[0])?;
    let stage = Stage::new();
    let (count, accelerator) = (args.count, args.machine.accelerator()?);
    let s = if count == 1 { "" } else { "s" };
    let description = args.description()?;
    let layout = description.layout();
    let title = format!("start a switch, {count} card{s} and {count} machine{s} ({accelerator})");
    let lab = stay::start(&stage, &title, &description, &layout)?;
    let stop = stay::stop_by_signals()?;
    explain(&lab, show)?;
    let failed = stay::watch(&lab, &layout, &stop)?;
    writeln!(stdout(), "\nending")?;
    ensure!(failed == 0, "of {count} machine{s}, {failed} failed");
    Ok(())
}

impl UpArgs {
    /// Returns what a lab file would say.
    fn description(self) -> anyhow::Result<Description> {
        let mut lab = self.machine.description(self.count.into())?;
        (lab.programs, lab.ip, lab.net) = (self.add, self.ip, self.net);
        lab.fabric.card_arguments = self.card;
        for machine in &mut lab.machines {
            machine.kernel.clone_from(&self.kernel);
            machine.initrd.clone_from(&self.initrd);
            machine.append.clone_from(&self.append);
            machine.image.clone_from(&self.image);
            machine.packages.clone_from(&self.packages);
            machine.qemu.clone_from(&self.qemu_args);
        }
        Ok(lab)
    }
}

fn explain(lab: &Lab, show: &Show) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    stay::write_ways_in(&mut out, lab)?;
    writeln!(out, "\nTo see messages pass, in the machines:")?;
    let Hints { first, does, second, asks, more } = &show.hints;
    writeln!(out, "  vm0:~# {first:26}  {does}")?;
    writeln!(out, "  vm1:~# {second:26}  {asks}")?;
    if !more.is_empty() {
        writeln!(out, "More there: {}, each with --help;", more.join(", "))?;
    }
    writeln!(out, "{} as root;", show.self_test)?;
    writeln!(out, "su - user1 for an ordinary user; reboot; poweroff.")?;
    stay::write_ways_out(&mut out, lab)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hamlyn_host::catalogue;

    use super::*;

    #[test]
    fn programs_named_in_hints_are_in_the_image() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let examples = root.join("guest-lib/examples");
        let build = std::fs::read_to_string(root.join("scripts/lib/build.sh")).unwrap();
        let tools = build.lines().find_map(|line| line.strip_prefix("TOOLS=(")).unwrap();
        let tools: Vec<&str> = tools.trim_end_matches(')').split(' ').collect();
        let shows = SHOWS.names().map(|name| SHOWS.of(catalogue::find(name).unwrap()).unwrap());
        let lines = shows.flat_map(|show| {
            let hints = &show.hints;
            hints.more.iter().copied().chain([hints.first, hints.second]).chain([show.self_test])
        });
        for name in lines.map(|line| line.split(' ').next().unwrap()) {
            let is_example =
                examples.join(format!("{name}.rs")).exists() || examples.join(name).join("main.rs").exists();
            assert!(is_example || tools.contains(&name), "hamlyn up names {name}, which no image has");
        }
    }
}
