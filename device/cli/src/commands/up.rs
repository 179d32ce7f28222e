//! `hamlyn up`

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;

use super::demo::SHOWS;
use super::demo::show::{Hints, Show};
use super::demo::stage::Stage;
use super::layout::Layout;
use super::{MachineArgs, tell};
use hamlyn_lab::plain::plain;
use hamlyn_lab::{Added, Kit, Lab, Packages, Subnet, System, Vm};

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
  hamlyn up --kernel ./bzImage --append 'loglevel=7'")]
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
    let (count, accelerator) = (args.count, args.machine.accel.decide()?);
    let s = if count == 1 { "" } else { "s" };
    let layout = args.machine.layout.choose(count.into());
    let title = format!("start a switch, {count} card{s} and {count} machine{s} ({accelerator})");
    let mut lab = stage.step(&title, |tell| start(&args, &layout, tell))?;
    stage.note(&layout.to_string());
    stage.note_each(lab.stores());
    lab.open_door()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signal_hook::consts::TERM_SIGNALS {
        signal_hook::flag::register(*signal, stop.clone()).context("cannot catch signals")?;
    }
    explain(&lab, show)?;
    let failed = watch(&lab, &layout, &stop)?;
    writeln!(stdout(), "\nending")?;
    ensure!(failed == 0, "of {count} machine{s}, {failed} failed");
    Ok(())
}

/// `up` does not restart a switch that ends within this time of its last restart.
const SOON: Duration = Duration::from_secs(10);

/// Waits until all machines are off or `stop` is set. Returns the number of machines that failed,
/// or whose card did; the others continue. Restarts a switch that has its own process. Fails if any
/// other switch fails.
fn watch(lab: &Lab, layout: &Layout, stop: &AtomicBool) -> anyhow::Result<usize> {
    let mut started: Option<Instant> = None;
    let mut failed = BTreeSet::new();
    let mut fail = |index: usize, name: &str, error: anyhow::Error| {
        if failed.insert(index) {
            tell(&plain(&format!("{name} has failed, the other machines go on: {error:#}")));
        }
    };
    let mut machines: Vec<(usize, &Vm)> = lab.vms().iter().enumerate().collect();
    while !stop.load(Ordering::Relaxed) && !machines.is_empty() {
        if let Err(error) = lab.check_switch() {
            if *layout != Layout::Isolated || started.is_some_and(|started| started.elapsed() < SOON) {
                return Err(error);
            }
            tell(&plain(&format!("the switch has failed and is restarted: {error:#}")));
            lab.restart_switch()?;
            started = Some(Instant::now());
        }
        machines.retain(|&(index, vm)| {
            let goes_on = lab.check_card(index).and_then(|()| vm.check());
            match goes_on {
                Ok(true) => return true,
                Ok(false) => tell(&format!("{} is off", vm.name())),
                Err(error) => fail(index, vm.name(), error),
            }
            false
        });
        sleep(Duration::from_millis(200));
    }
    Ok(failed.len())
}

fn start(args: &UpArgs, layout: &Layout, tell: impl Fn(&str) + 'static) -> anyhow::Result<Lab> {
    let mut kit = Kit::find()?;
    for (part, other) in [(&mut kit.kernel, &args.kernel), (&mut kit.initrd, &args.initrd)] {
        if let Some(other) = other {
            File::open(other).with_context(|| format!("cannot read {}", other.display()))?;
            part.clone_from(other);
        }
    }
    if args.initrd.is_some() {
        kit.disk = None;
    }
    let system = match (&args.packages, &args.image) {
        (Some(packages), _) => {
            tell("the image of packages");
            Some(System::of_packages(&kit, packages)?)
        }
        (None, image) => image.as_deref().map(System::open).transpose()?,
    };
    let lab = args
        .machine
        .lab(args.count.into(), layout, &args.card)
        .reboots(true)
        .kit(kit)
        .kernel_args(&args.append);
    let words = args.qemu_args.clone();
    let lab = lab
        .programs(args.add.iter().cloned())
        .network(args.net)
        .ip(args.ip)
        .system(system)
        .qemu_args(move |_, _| words.clone());
    lab.wait_for_guests(args.initrd.is_none()).progress(tell).start()
}

fn explain(lab: &Lab, show: &Show) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "\nIn other terminals:")?;
    for vm in lab.vms() {
        writeln!(out, "  hamlyn console {:6}  a shell in {} (Ctrl-] leaves it)", vm.name(), vm.name())?;
    }
    writeln!(out, "  hamlyn exec vm0 -- COMMAND  runs a program there; hamlyn cp FILE vm0: brings it")?;
    writeln!(out, "  hamlyn stat --watch    what cards and switch are doing")?;
    writeln!(out, "\nTo see messages pass, in the machines:")?;
    let Hints { first, does, second, asks, more } = &show.hints;
    writeln!(out, "  vm0:~# {first:26}  {does}")?;
    writeln!(out, "  vm1:~# {second:26}  {asks}")?;
    if !more.is_empty() {
        writeln!(out, "More there: {}, each with --help;", more.join(", "))?;
    }
    writeln!(out, "{} as root;", show.self_test)?;
    writeln!(out, "su - user1 for an ordinary user; reboot; poweroff.")?;
    writeln!(out, "\nSockets and logs: {}", lab.directory().display())?;
    writeln!(out, "Ctrl-C here ends everything; so does poweroff in every machine.")?;
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
