//! `hamlyn driver-test`

mod amounts;
mod cases;
mod coverage;
mod faults;
mod guest;
mod tasks;
mod watch;

use std::io::{self, Write, stdout};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;

use super::MachineArgs;
use super::demo::SHOWS;
use amounts::Amounts;
use guest::Guest;
use hamlyn_lab::plain::plain;
use hamlyn_lab::{Added, Kit, Lab, MODULE, first_complaint, without_foreign_races};

/// The module's file in the machines' image.
const FILE: &str = "/lib/hamlyn.ko";

/// Default of `--stuck`, in seconds.
const STUCK: u64 = 10;

/// How often quantities are read until they are within their limits, and how long is between two
/// readings. The kernel frees some memory later.
const READINGS: usize = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Load the kernel module in a fresh machine and test it there
///
/// Loads the module. Then runs the card's self-test, and programs that use all kinds of its
/// objects, two times. After the second time the kernel must have no more in use than before it:
/// memory, slab, objects, pinned pages, files. Then unloads the module, loads it again, and runs
/// the self-test once more. Prints the machine's kernel log from the first loading on, and fails
/// if the kernel reports an error in it.
///
/// A program that has printed nothing for some seconds while threads wait in the kernel is stuck.
/// The test then fails with the stack of each, and ends the machine.
///
/// The loaded module must be the one of the kit: both have the same build id. If the test fails, it
/// prints the end of the machine's kernel log and the blocked tasks.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn driver-test
  hamlyn driver-test --model clan    with another card
  hamlyn driver-test --accel tcg     by emulation, even where KVM works
  hamlyn driver-test --faults        with a card that misbehaves, fault by fault
  hamlyn driver-test -- dyndbg=+p    with parameters of the module: here it shows its debug messages")]
pub(super) struct DriverTestArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Time without output of a program after which threads that wait in the kernel are an error.
    /// 10 by default; a slow kit, such as the debug kernel's, has a longer time
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    stuck: Option<u64>,
    /// Add a program to the machine, and run it after the others; it must be linked statically
    /// (docs/your-program.md). May be repeated
    #[arg(long, value_name = "FILE[:NAME]")]
    add: Vec<Added>,
    /// Let the card misbehave instead, fault by fault, and print for each whether the module
    /// handled it, hung, crashed, leaked, or did not work afterwards. NAMES are those of the
    /// faults, else all of them
    #[arg(long, value_name = "NAMES", num_args = 0..=1, require_equals = true)]
    #[arg(value_delimiter = ',', default_missing_value = "all")]
    faults: Option<Vec<String>>,
    /// Keep the machine, and test again whenever the kit's module has changed, until Ctrl-C. See
    /// ./scripts/driver --watch, which builds it
    #[arg(long, conflicts_with = "faults")]
    watch: bool,
    /// Write how often each line of the module was executed into this file, as a tar archive of
    /// gcov's .gcda files. The module must be built to count: see ./scripts/driver --coverage
    #[arg(long, value_name = "FILE", conflicts_with_all = ["faults", "watch"])]
    counts: Option<PathBuf>,
    /// Parameters of the module
    #[arg(last = true, value_name = "NAME=VALUE")]
    parameters: Vec<String>,
}

pub(super) fn run(args: DriverTestArgs) -> anyhow::Result<()> {
    let model = args.machine.model.one()?;
    let show = SHOWS.of(model)?;
    let layout = args.machine.layout(1);
    let kit = Kit::find()?;
    let stuck = args.stuck.unwrap_or_else(|| STUCK.max(kit.host.patience_s / 10));
    // A module that hangs while it is loaded must not stop the boot.
    let start = || {
        let lab = args.machine.lab(1, &layout)?.kernel_args("hamlyn.noload").programs(args.add.clone());
        lab.kit(kit.clone()).start()
    };
    let programs = [show.self_test].into_iter().chain(show.exercises.iter().copied());
    let programs: Vec<&str> = programs.chain(args.add.iter().map(Added::name)).collect();
    let silence = Duration::from_secs(stuck);
    let test = |lab: &Lab, act: &mut dyn FnMut(&Test<'_>) -> anyhow::Result<()>| {
        act(&Test::new(lab, silence, &kit, model.name, &args.parameters))
    };
    if let Some(names) = &args.faults {
        return faults::run(names, &programs, &start, &test);
    }
    if args.watch {
        return watch::run(&kit.module, &programs, &start, &test);
    }
    // Before the machine starts: a test in vain takes long.
    let counts = args.counts.as_deref().map(coverage::create).transpose()?;
    let mut lab = start()?;
    if counts.is_some() {
        lab.open_door()?;
    }
    let test = Test::new(&lab, silence, &kit, model.name, &args.parameters);
    let all = || {
        test.all(&programs)?;
        counts.map_or(Ok(()), |file| coverage::write(&lab, file))
    };
    all().map_err(|error| {
        // If the reader of standard output has closed it, the test has not failed.
        if error.is::<io::Error>() || test.guest.is_lost.get() {
            return error;
        }
        anyhow!("{error:#}\n{}", lab.vm(0).kernel_log())
    })
}

/// Calls a function with the test of a lab's machine.
type WithTest<'a> = dyn Fn(&Lab, &mut dyn FnMut(&Test<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> + 'a;

/// A test of the module.
struct Test<'a> {
    lab: &'a Lab,
    guest: Guest<'a>,
    kit: &'a Kit,
    model: &'a str,
    parameters: &'a [String],
}

impl<'a> Test<'a> {
    fn new(lab: &'a Lab, silence: Duration, kit: &'a Kit, model: &'a str, parameters: &'a [String]) -> Self {
        let (is_lost, is_stuck) = Default::default();
        let guest = Guest { vm: lab.vm(0), silence, is_lost, is_stuck };
        Test { lab, guest, kit, model, parameters }
    }

    fn all(&self, programs: &[&str]) -> anyhow::Result<()> {
        // 4 stops the kernel's message about each later use of the file.
        self.guest.ask("echo 4 >/proc/sys/vm/drop_caches; dmesg -c >/dev/null")?;
        self.step("load the module", || self.load(FILE))?;
        self.runs(programs, "first time")?;
        let first = self.amounts()?;
        self.runs(programs, "second time")?;
        let second = self.amounts_after(&first, "when its files were closed")?;
        self.step("unload the module", || self.guest.run(&["rmmod", MODULE]))?;
        self.step("load it again", || self.load(FILE))?;
        self.runs(programs, "third time")?;
        self.amounts_after(&second, "when it was unloaded")?;
        self.lab.check().context("after the self-test")?;
        writeln!(stdout(), "the module {} is loaded and works", self.kit.module.display())?;
        Ok(())
    }

    /// Does a part of the test, and prints its result, and what the kernel has logged meanwhile.
    fn step(&self, title: &str, act: impl FnOnce() -> anyhow::Result<Vec<String>>) -> anyhow::Result<()> {
        writeln!(stdout(), "{title}")?;
        if let Some(line) = act().with_context(|| title.to_owned())?.last() {
            writeln!(stdout(), "  {}", plain(line))?;
        }
        let log = without_foreign_races(self.guest.ask("dmesg -c")?);
        for line in &log {
            writeln!(stdout(), "  kernel: {}", plain(line))?;
        }
        match first_complaint(&log) {
            Some(at) => bail!("{title}: the kernel reports an error: {}", plain(&log[at])),
            None => Ok(()),
        }
    }

    fn is_loaded(&self) -> anyhow::Result<bool> {
        let modules = self.guest.ask("cut -d' ' -f1 /proc/modules")?;
        Ok(modules.iter().any(|module| module == MODULE))
    }

    fn insmod(&self, file: &str) -> anyhow::Result<Vec<String>> {
        let parameters = self.parameters.iter().map(String::as_str);
        self.guest.run(&["insmod", file].into_iter().chain(parameters).collect::<Vec<_>>())
    }

    fn load(&self, file: &str) -> anyhow::Result<Vec<String>> {
        let said = self.insmod(file)?;
        self.guest.vm.require_module(MODULE)?;
        self.guest.vm.require_build(MODULE, &self.kit.module)?;
        Ok(said)
    }

    /// Runs those of the programs that the image has.
    fn runs(&self, programs: &[&str], when: &str) -> anyhow::Result<()> {
        for program in programs {
            let words: Vec<&str> = program.split(' ').collect();
            if self.guest.run(&["sh", "-c", "command -v \"$1\" || true", "sh", words[0]])?.is_empty() {
                writeln!(stdout(), "{program}: the image does not have it (./scripts/prepare makes it)")?;
                continue;
            }
            self.step(&format!("{program}, {when}"), || self.guest.run(&words))?;
        }
        Ok(())
    }

    fn amounts(&self) -> anyhow::Result<Amounts> {
        let lines = self.guest.run(&["sh", "-c", &amounts::script(self.model)])?;
        Amounts::of(&lines, MODULE).context("what the kernel has in use")
    }

    /// Returns what is in use now, which must be within the limits at once or after some seconds.
    fn amounts_after(&self, before: &Amounts, event: &str) -> anyhow::Result<Amounts> {
        let mut now = self.amounts()?;
        for _ in 1..READINGS {
            if now.are_within_limits(before) {
                break;
            }
            sleep(PAUSE);
            now = self.amounts()?;
        }
        write!(stdout(), "{}", now.table(before))?;
        now.check(before, event)?;
        Ok(now)
    }
}
