//! The tests with machines, under KVM: `./scripts/test --kvm`.
//!
//! The outer machine is emulated, and so is SVM in its processor: KVM works there. It runs the
//! tests of `vm` as a program, which starts its own machines under KVM (`host.accel` in the kit
//! that `images/kvm` puts there).
//!
//! ```text
//! kvm [--short | NAME...]     NAME: all tests of `vm` whose name contains it, not the list below
//! ```

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hamlyn_lab::{Accel, Kit, Lab, Memory, Vm};

/// The tests that `--short` runs.
const SHORT: &[&str] =
    &["driver::sleepers_are_woken_by_every_wake_source", "messages::two_machines_exchange_messages"];

const TESTS: &[&str] = &[
    // Polling, and 1 MiB by DMA in each direction.
    "messages::two_machines_exchange_messages",
    // Mapped and trapped pages, commands, pinned memory.
    "driver::every_call_works_and_refuses_invalid_arguments",
    // Interrupts.
    "driver::sleepers_are_woken_by_every_wake_source",
    "notifications::only_sleepers_are_interrupted_and_only_on_request",
    // Two processors.
    "driver::interrupt_arrives_on_the_waiters_processor",
    // A function-level reset, the reset button, power off and on.
    "resets::reset_ends_open_files_and_card_works_again",
    "resets::a_machine_that_restarts_finds_its_card",
    "express::channels_between_two_machines",
    "shrimp::messages_and_pages_arrive_in_the_other_machine",
    "shrimp_primitives::each_primitive_passes_messages_by_the_window",
    // CMPXCHG on trapped pages, by two processors.
    "shrimp_machines::concurrent_processors_start_only_the_intended_transfers",
    // Late reads.
    "clan::stores_loads_and_dma_reach_remote_memory",
    // Vector loads of trapped pages.
    "clan_c::windows_dma_and_tripwires_work_from_c",
    "dart::messages_write_read_and_compute_remotely",
    // Memory that is not pinned.
    "dart_memory::messages_bring_in_swapped_pages_at_both_ends",
];

/// The longest time without output from a test, in an outer machine with very little processor
/// time.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The maximum number of panics of the outer machine's kernel. It panics where QEMU emulates SVM (a
/// page fault between the end of a guest's turn and the load of the host's registers). A program in
/// that machine cannot be the cause, so the tests continue in a new one.
const MAX_PANICS: usize = 4;
const PANIC: &str = "Kernel panic";

/// Kernel messages of the outer machine that make the run fail.
const COMPLAINTS: &str = "KVM internal error|BUG|WARNING|Oops|Call Trace|soft lockup";

const MODULES: &str =
    "set -e; while read -r module; do insmod /lib/kvm/$module.ko; done </lib/kvm/order; test -c /dev/kvm";

/// Runs the tests' program. Only the last line gives its exit status.
const PROGRAM: &str = "mkdir -p -m 700 /kvm/run; cd /kvm; export HAMLYN_KIT=/kvm/kit.json HAMLYN_RUN=/kvm/run; \
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
    let mut outer = Outer::start()?;
    let all = outer.tests()?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut tests: Vec<&str> = match &words[..] {
        [] => TESTS.to_vec(),
        ["--short"] => SHORT.to_vec(),
        names => {
            let named = |test: &&str| names.iter().any(|name| test.contains(name));
            all.iter().map(String::as_str).filter(named).collect()
        }
    };
    ensure!(!tests.is_empty(), "no test's name contains any of {words:?}");
    let missing: Vec<_> = tests.iter().filter(|test| !all.contains(**test)).collect();
    ensure!(missing.is_empty(), "there are no such tests: {missing:?}");
    let (mut passed, mut failed, mut panics) = (0, 0, 0);
    while !tests.is_empty() {
        let mut results = Vec::new();
        let outcome = outer.run(&tests, &mut results);
        failed += results.iter().filter(|(_, ok)| !ok).count();
        passed += results.iter().filter(|(_, ok)| *ok).count();
        tests.retain(|test| !results.iter().any(|(name, _)| name == test));
        let Err(error) = outcome else {
            outer.check_log()?;
            continue;
        };
        let console = outer.vm().console().unwrap_or_default();
        println!("--- the console of the machine that has KVM ---\n{console}");
        panics += 1;
        if !console.contains(PANIC) || panics > MAX_PANICS {
            return Err(error);
        }
        println!(
            "its kernel panicked ({panics} of at most {MAX_PANICS}): the other {} tests in a new one",
            tests.len()
        );
        drop(outer);
        outer = Outer::start()?;
    }
    let outcome = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {outcome}. {passed} passed; {failed} failed; {panics} panics of the kernel that has KVM; finished in {:.1}s",
        begun.elapsed().as_secs_f32()
    );
    Ok(failed == 0)
}

struct Outer {
    lab: Lab,
}

impl Outer {
    fn start() -> Result<Self> {
        let begun = Instant::now();
        let mut kit = Kit::find()?;
        kit.disk = None;
        kit.initrd.set_file_name("kvm.img");
        ensure!(kit.initrd.exists(), "there is no {}: run ./scripts/test --kvm", kit.initrd.display());
        let processor = ["-smp", "1", "-accel", "tcg,thread=multi", "-cpu", "EPYC-v4"];
        let lab = Lab::builder()
            .vms(1)
            .kit(kit)
            .accel(Accel::Tcg)
            .memory(Memory::mib(4096))
            .qemu_args(move |_, _: &Path| processor.map(str::to_owned).to_vec())
            .kernel_args("mitigations=off nokaslr tsc=reliable")
            .patience(PATIENCE)
            .start()?;
        let outer = Self { lab };
        outer.script(MODULES, &[]).context("the emulated machine has no /dev/kvm")?;
        println!("the machine that has KVM is up ({:.1} s)", begun.elapsed().as_secs_f32());
        Ok(outer)
    }

    fn vm(&self) -> &Vm {
        self.lab.vm(0)
    }

    fn check_log(&self) -> Result<()> {
        let complaints = self.script(&format!("dmesg | grep -E '{COMPLAINTS}' || true"), &[])?;
        ensure!(complaints.is_empty(), "the kernel that has KVM complains: {complaints:#?}");
        Ok(())
    }

    /// Runs a shell script, which must succeed. Returns its output lines.
    fn script(&self, script: &str, arguments: &[&str]) -> Result<Vec<String>> {
        let words = ["sh", "-c", script, "sh"].into_iter().chain(arguments.iter().copied());
        self.vm().run_as(0, words)?.finish_text()
    }

    /// Returns the names of all tests.
    fn tests(&self) -> Result<BTreeSet<String>> {
        let lines = self.script(PROGRAM, &["--list"])?;
        Ok(lines.iter().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// Runs tests, one after the other. Adds each completed test to `results`, and whether it
    /// passed.
    fn run(&self, tests: &[&str], results: &mut Vec<(String, bool)>) -> Result<()> {
        let script = ["sh", "-c", PROGRAM, "sh", "--exact", "--test-threads=1"];
        let mut run = self.vm().run_as(0, script.iter().chain(tests).copied())?;
        let (mut bad, mut begun) = (0, Instant::now());
        let status = loop {
            let line = run.line()?;
            if let Some(status) = line.strip_prefix("status ") {
                break status.to_owned();
            }
            match line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) {
                Some((name, "ok")) => results.push((name.to_owned(), true)),
                Some((name, "FAILED")) => {
                    results.push((name.to_owned(), false));
                    bad += 1;
                }
                _ if bad == 0 => continue,
                _ => {
                    println!("{line}");
                    continue;
                }
            }
            println!("{line} ({:.1} s)", begun.elapsed().as_secs_f32());
            begun = Instant::now();
        };
        // A program that died is a failure, and so are missing tests.
        if results.len() != tests.len() || (status == "0") != (bad == 0) {
            bail!(
                "{} tests were asked for, {} ended, {bad} of them failed, and their program ended with {status}",
                tests.len(),
                results.len()
            );
        }
        Ok(())
    }
}
