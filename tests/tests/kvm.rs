//! The tests with machines, under KVM: `./scripts/test --kvm`.
//!
//! The outer machine is emulated, and so is SVM in its processor: KVM works there. It runs the tests of `vm` as a program,
//! which starts its own machines under KVM (`host.accel` in the kit that `images/kvm` puts there).
//!
//! ```text
//! kvm [--short | NAME...]     NAME: every test of `vm` whose name contains it, instead of those listed here
//! ```

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hamlyn_lab::{Accel, Kit, Lab, Memory, Vm};

/// Tests that run one after the other, with a guest image that has no more programs than they need.
struct Part {
    programs: &'static [&'static str],
    tests: &'static [&'static str],
}

/// What `--short` runs.
const SHORT: Part = Part {
    programs: &["self-test", "driver-check", "ping-pong", "transfer", "programming"],
    tests: &[
        "driver::sleepers_are_woken_by_all_that_should_wake_them",
        "messages::two_machines_exchange_messages",
    ],
};

const PARTS: &[Part] = &[
    Part {
        programs: &["self-test", "driver-check", "ping-pong", "transfer", "programming", "notify", "intrude"],
        tests: &[
            // Polling, and 1 MiB by DMA in each direction.
            "messages::two_machines_exchange_messages",
            // Mapped and trapped pages, commands, pinned memory.
            "driver::every_call_does_what_it_says_and_refuses_the_rest",
            // Interrupts.
            "driver::sleepers_are_woken_by_all_that_should_wake_them",
            "notifications::only_a_sleeper_is_interrupted_and_only_if_asked",
            // Two processors.
            "driver::who_waits_is_interrupted_on_the_processor_where_he_is",
            // A function-level reset, the reset button, power off and on.
            "resets::a_reset_ends_what_was_open_and_leaves_a_card_that_works",
            "resets::a_machine_that_restarts_finds_its_card",
        ],
    },
    Part { programs: &["express", "express-desk"], tests: &["express::channels_between_two_machines"] },
    Part {
        programs: &["shrimp", "c-primitives"],
        tests: &[
            "shrimp::a_message_is_stored_in_the_other_machine_and_pages_are_sent",
            "shrimp_primitives::each_primitive_passes_messages_by_the_window",
            // CMPXCHG on trapped pages, by two processors.
            "shrimp_machines::two_processors_that_start_transfers_start_those_that_they_mean",
        ],
    },
    Part {
        programs: &["clan", "clan-driver", "c-clan"],
        tests: &[
            // Late reads.
            "clan::stores_loads_and_dma_reach_the_other_machines_memory",
            // Vector loads of trapped pages.
            "clan_c::windows_dma_and_tripwires_reach_another_machine_from_c",
        ],
    },
    Part {
        programs: &["dart", "dart-driver"],
        tests: &[
            "dart::messages_write_read_and_compute_at_the_other_machine",
            // Memory that is not pinned.
            "dart_memory::pages_that_are_swapped_out_are_brought_in_by_messages_at_both_ends",
        ],
    },
];

/// The longest that a test may be silent, in an outer machine that has hardly any processor.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What the outer machine's kernel must not say.
const COMPLAINTS: &str = "KVM internal error|BUG|WARNING|Oops|Call Trace|soft lockup";

const MODULES: &str =
    "set -e; while read -r module; do insmod /lib/kvm/$module.ko; done </lib/kvm/order; test -c /dev/kvm";

/// Makes the image of the guests, with the programs that are named, or with all.
const IMAGE: &str = "set -e; rm -rf /kvm/image; mkdir -p /kvm/image/bin; cd /kvm/overlay; cp -a lib /kvm/image; \
    if [ $# = 0 ]; then set -- $(ls bin); fi; for program; do cp -a bin/$program /kvm/image/bin; done; \
    cd /kvm/image; find . | cpio -o -H newc 2>/dev/null | cat /kvm/base.cpio - >/kvm/initrd.img";

/// Runs the tests' program, and says how it ended, which the last line alone tells.
const TESTS: &str = "mkdir -p -m 700 /kvm/run; cd /kvm; export HAMLYN_KIT=/kvm/kit.json HAMLYN_RUN=/kvm/run; \
    /kvm/tests \"$@\" 2>&1; echo \"status $?\"";

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<bool> {
    let begun = Instant::now();
    let lab = start()?;
    let outer = Outer { vm: lab.vm(0) };
    outer.script(MODULES, &[]).context("the emulated machine has no /dev/kvm")?;
    println!("the machine that has KVM is up ({:.1} s)", begun.elapsed().as_secs_f32());
    let all = outer.tests()?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (mut passed, mut failed) = (0, 0);
    match &words[..] {
        [] => PARTS.iter().try_for_each(|part| outer.part(part, &all, &mut passed, &mut failed))?,
        ["--short"] => outer.part(&SHORT, &all, &mut passed, &mut failed)?,
        names => {
            let tests: Vec<&str> = all
                .iter()
                .map(String::as_str)
                .filter(|test| names.iter().any(|name| test.contains(name)))
                .collect();
            ensure!(!tests.is_empty(), "no test's name contains any of {names:?}");
            outer.some(&[], &tests, &mut passed, &mut failed)?;
        }
    }
    let complaints = outer.script(&format!("dmesg | grep -E '{COMPLAINTS}' || true"), &[])?;
    ensure!(complaints.is_empty(), "the kernel that has KVM complains: {complaints:#?}");
    let outcome = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {outcome}. {passed} passed; {failed} failed; finished in {:.1}s",
        begun.elapsed().as_secs_f32()
    );
    Ok(failed == 0)
}

/// Starts the outer machine.
fn start() -> Result<Lab> {
    let mut kit = Kit::find()?;
    kit.initrd.set_file_name("kvm.img");
    ensure!(kit.initrd.exists(), "there is no {}: run ./scripts/test --kvm", kit.initrd.display());
    let processor = ["-smp", "2", "-accel", "tcg,thread=multi", "-cpu", "EPYC-v4"];
    Lab::builder()
        .vms(1)
        .kit(kit)
        .accel(Accel::Tcg)
        .memory(Memory::mib(4096))
        .qemu_args(move |_, _: &Path| processor.map(str::to_owned).to_vec())
        .kernel_args("mitigations=off nokaslr tsc=reliable")
        .patience(PATIENCE)
        .start()
}

struct Outer<'a> {
    vm: &'a Vm,
}

impl Outer<'_> {
    /// Runs a shell script, which must succeed; the lines that it prints.
    fn script(&self, script: &str, arguments: &[&str]) -> Result<Vec<String>> {
        let words = ["sh", "-c", script, "sh"].into_iter().chain(arguments.iter().copied());
        self.vm.run_as(0, words)?.finish_text()
    }

    /// The names of all tests.
    fn tests(&self) -> Result<BTreeSet<String>> {
        let lines = self.script(TESTS, &["--list"])?;
        Ok(lines.iter().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// Runs a part, each test of which must exist.
    fn part(&self, part: &Part, all: &BTreeSet<String>, passed: &mut u32, failed: &mut u32) -> Result<()> {
        let missing: Vec<_> = part.tests.iter().filter(|test| !all.contains(**test)).collect();
        ensure!(missing.is_empty(), "there are no such tests: {missing:?}");
        self.some(part.programs, part.tests, passed, failed)
    }

    /// Runs these tests, one after the other, and counts what came of them.
    fn some(&self, programs: &[&str], tests: &[&str], passed: &mut u32, failed: &mut u32) -> Result<()> {
        let always = ["hamlyn-agent", "hamlyn-tools", "hamlyn-info", "hamlyn-ping", "hamlyn-perf"];
        let programs = if programs.is_empty() { Vec::new() } else { [&always, programs].concat() };
        self.script(IMAGE, &programs).context("cannot make the guests' image")?;
        let script = ["sh", "-c", TESTS, "sh", "--exact", "--test-threads=1"];
        let mut run = self.vm.run_as(0, script.iter().chain(tests).copied())?;
        let (mut ok, mut bad, mut begun) = (0, 0, Instant::now());
        let status = loop {
            let line = run.line()?;
            if let Some(status) = line.strip_prefix("status ") {
                break status.to_owned();
            }
            match line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) {
                Some((_, "ok")) => ok += 1,
                Some((_, "FAILED")) => bad += 1,
                _ if bad == 0 => continue,
                _ => {
                    println!("{line}");
                    continue;
                }
            }
            println!("{line} ({:.1} s)", begun.elapsed().as_secs_f32());
            begun = Instant::now();
        };
        *passed += ok;
        *failed += bad;
        // A program that died, or tests that were not run, are no success.
        if ok + bad != u32::try_from(tests.len())? || (status == "0") != (bad == 0) {
            bail!(
                "{} tests were asked for, {ok} passed, {bad} failed, and their program ended with {status}",
                tests.len()
            );
        }
        Ok(())
    }
}
