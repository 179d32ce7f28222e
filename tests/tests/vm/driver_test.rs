//! `hamlyn driver-test`: which defects of the module it finds, and what it then prints.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use hamlyn_lab::Kit;
use hamlyn_tests::killed::Killed;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::{if_long, turn};

/// For tests without a hang: longer than a program is silent on a loaded host.
const PATIENT: [&str; 2] = ["--stuck", "100"];

/// Runs `hamlyn driver-test` with a kit and additional programs: shell scripts, each with its name.
fn driver_test(kit: Option<&Path>, options: &[&str], scripts: &[(&str, &str)]) -> Result<Output> {
    let folder = tempfile::tempdir()?;
    let program = Kit::find()?.program("hamlyn")?;
    let mut command = Command::new(program);
    command.arg("driver-test").args(options);
    for (name, script) in scripts {
        let file = folder.path().join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n"))?;
        command.arg("--add").arg(file);
    }
    command.envs(kit.map(|kit| ("HAMLYN_KIT", kit)));
    let _right = turn(1);
    Ok(command.output()?)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the standard error of a test that has failed.
fn error(output: &Output) -> Result<String> {
    ensure!(output.status.code() == Some(1), "{output:?}");
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn program_stuck_in_the_kernel_is_shown() -> Result<()> {
    let output = driver_test(None, &["--stuck", "4"], &[("stuck", "exec c-stuck")])?;
    let said = error(&output)?;
    ensure!(
        said.contains("stuck has printed nothing for 4s") && said.contains("limit: --stuck 4)"),
        "{said}"
    );
    let first = said.lines().nth(1).unwrap_or_default();
    ensure!(first.starts_with("  c-stuck (process ") && first.contains("state D, in "), "{said}");
    ensure!(said.contains("    [<0>] kernel_clone+"), "{said}");
    Ok(())
}

/// What runs leave in use, without a defect of the module: a file system in memory, a process that
/// has the card open. The program leaves nothing when it runs for the first time.
const LEAVES: &str = "[ -e /tmp/again ] || exec touch /tmp/again
dd if=/dev/zero of=/tmp/kept bs=1M count=4 2>/dev/null
sleep 1000 </dev/hamlyn0 >/dev/null 2>&1 &";

#[test]
fn what_a_second_run_leaves_is_named() -> Result<()> {
    let log = ("log", "echo '<6>a developer was \x1b[1mhere' >/dev/kmsg");
    let output = driver_test(None, &PATIENT, &[log, ("leaves", LEAVES)])?;
    let said = error(&output)?;
    for part in
        [" KiB more (limit 1024)", "objects of users: 0 before, 1 after", "module's use count: 0 before, "]
    {
        ensure!(said.contains(part), "{part}: {said}");
    }
    let shown = stdout(&output);
    ensure!(shown.contains("  kernel: ") && shown.contains("hamlyn0: 64 termini"), "{shown}");
    ensure!(shown.matches(r"a developer was \x1b[1mhere").count() == 2, "{shown}");
    Ok(())
}

#[test]
fn error_in_the_kernels_log_fails() -> Result<()> {
    let output = driver_test(None, &PATIENT, &[("complains", "echo '<4>BUG: a test' >/dev/kmsg")])?;
    let said = error(&output)?;
    ensure!(said.contains("complains, first time: the kernel reports an error: "), "{said}");
    ensure!(said.contains("BUG: a test\n"), "{said}");
    Ok(())
}

#[test]
fn counts_need_a_kernel_that_counts() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("counts.tar").display().to_string();
    let output = driver_test(None, &["--counts", &file], &[])?;
    let said = error(&output)?;
    // The debug kernel counts, but not in this module.
    let debug = std::env::var("HAMLYN_KERNEL").is_ok_and(|kernel| kernel == "debug");
    let reason = if debug { "the module counts no lines: " } else { "the kernel counts no lines: " };
    ensure!(said.starts_with(&format!("error: {reason}")), "{said}");
    Ok(())
}

#[test]
fn module_handles_a_card_that_misbehaves() -> Result<()> {
    let output = driver_test(None, &["--stuck", "100", "--faults=command-lost,card-gone"], &[])?;
    ensure!(output.status.success(), "{output:?}");
    let shown = stdout(&output);
    let table = shown.split_once(" fault ").map_or("", |(_, table)| table);
    for fault in ["command-lost", "card-gone"] {
        let line = table.lines().find(|line| line.contains(fault)).unwrap_or_default();
        ensure!(line.contains(" handled ") && line.contains(" faults; "), "{shown}");
        ensure!(line.contains("failed: ") && !line.contains(" 0 faults"), "{shown}");
    }
    Ok(())
}

#[test]
fn changed_module_is_loaded_and_tested_again() -> Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let cache = std::env::var_os("HAMLYN_CACHE").map_or(repository.join(".hamlyn"), PathBuf::from);
    // Paths of a kit are relative to its file.
    let folder = tempfile::tempdir_in(&cache)?;
    let mut kit: Value = serde_json::from_slice(&fs::read(cache.join("kit.json"))?)?;
    for path in kit.as_object_mut().context("no kit")?.values_mut() {
        if let Some(relative) = path.as_str() {
            *path = cache.join(relative).display().to_string().into();
        }
    }
    let (original, module) =
        (kit["module"].as_str().unwrap_or_default().to_owned(), folder.path().join("m.ko"));
    fs::copy(&original, &module)?;
    kit["module"] = "m.ko".into();
    fs::write(folder.path().join("kit.json"), kit.to_string())?;

    let _right = turn(1);
    let mut command = Command::new(Kit::find()?.program("hamlyn")?);
    command.args(["driver-test", "--watch"]).args(PATIENT).env("HAMLYN_KIT", folder.path().join("kit.json"));
    let mut watch = Killed(command.stdout(Stdio::piped()).spawn()?);
    let mut lines = BufReader::new(watch.0.stdout.take().context("no output")?).lines();
    let mut until = |start: &str| {
        let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with(start)));
        line.with_context(|| format!("no line {start}"))?.context("no output")
    };
    until("WORKS (")?;
    fs::write(&module, "not a module")?;
    let refused = until("FAILS (")?;
    ensure!(refused.contains("load the module"), "{refused}");
    fs::copy(&original, &module)?;
    until("WORKS (")?;
    kill_process(Pid::from_child(&watch.0), Signal::INT)?;
    ensure!(watch.0.wait()?.success());
    Ok(())
}

/// A copy of the driver's sources, and a kit whose machines load the module that is made of them.
struct Broken {
    sources: TempDir,
    /// In the cache: the compiler sees no other folder.
    folder: TempDir,
    repository: PathBuf,
    cache: PathBuf,
}

impl Broken {
    fn new() -> Result<Broken> {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
        let cache = std::env::var_os("HAMLYN_CACHE").map_or(repository.join(".hamlyn"), PathBuf::from);
        let sources = tempfile::tempdir()?;
        for folder in ["scripts", "images", "guest-driver"] {
            let copied =
                Command::new("cp").arg("-a").arg(repository.join(folder)).arg(sources.path()).status()?;
            ensure!(copied.success(), "cp {folder}: {copied}");
        }
        Ok(Broken { sources, folder: tempfile::tempdir_in(&cache)?, repository, cache })
    }

    /// Builds the module with one change, and tests it.
    fn test(&self, file: &str, from: &str, to: &str, options: &[&str]) -> Result<Output> {
        let path = self.sources.path().join("guest-driver").join(file);
        let whole = fs::read_to_string(&path)?;
        ensure!(whole.matches(from).count() == 1, "{file} does not have {from:?} once");
        fs::write(&path, whole.replacen(from, to, 1))?;
        let mut build = Command::new("bash");
        build.arg(self.sources.path().join("scripts/lib/broken_module.sh"));
        build.arg(self.folder.path()).arg(&self.repository).env("HAMLYN_CACHE", &self.cache);
        let built = build.output()?;
        ensure!(built.status.success(), "{built:?}");
        fs::write(&path, whole)?;
        driver_test(Some(&self.folder.path().join("kit.json")), options, &[])
    }
}

/// Three modules are built, which takes a minute or two.
#[test]
fn planted_defects_of_the_module_are_found() -> Result<()> {
    if if_long(1, 0) == 0 {
        return Ok(());
    }
    let broken = Broken::new()?;

    let start = "\tfor (i = 0; i < ARRAY_SIZE(patterns); i++) {\n";
    let print = "\tpr_info(\"a developer was here\\n\");\n";
    let output = broken.test("core/selftest.c", start, &format!("{print}{start}"), &[])?;
    ensure!(output.status.success() && stdout(&output).contains("a developer was here\n"), "{output:?}");

    let free = "\tfree_page((unsigned long)pages->lists[list]);\n";
    let output = broken.test("core/pages.c", free, "", &[])?;
    let said = error(&output)?;
    let more = said.split(" KiB more (limit 1024)").next().and_then(|text| text.rsplit(' ').next());
    let more: u64 = more.context("no amount")?.parse().with_context(|| said.clone())?;
    ensure!(more > 10_000 && said.contains("when its files were closed: memory: "), "{said}");

    let lock = "\tscoped_guard(mutex, &card->lock) {\n\t\tif (!uln_file_live(file))\n\t\t\treturn -ENODEV;\n\t\tbefore";
    let no_unlock =
        "\tmutex_lock(&card->lock);\n\t{\n\t\tif (!uln_file_live(file))\n\t\t\treturn -ENODEV;\n\t\tbefore";
    let output = broken.test("core/selftest.c", lock, no_unlock, &[])?;
    let said = error(&output)?;
    ensure!(said.contains("self-test has printed nothing for 10s"), "{said}");
    let first = said.lines().nth(1).unwrap_or_default();
    ensure!(first.starts_with("  self-test (process ") && first.contains("state D"), "{said}");
    ensure!(said.contains("uln_selftest") && said.contains("[hamlyn]"), "{said}");
    Ok(())
}

/// Two modules are built.
#[test]
fn defects_in_the_handling_of_faults_are_found() -> Result<()> {
    if if_long(1, 0) == 0 {
        return Ok(());
    }
    let broken = Broken::new()?;
    let verdict = |output: &Output, fault: &str, verdict: &str| {
        let shown = stdout(output);
        let found = shown.lines().any(|line| line.contains(fault) && line.contains(verdict));
        ensure!(found && !output.status.success(), "{fault} is not {verdict}: {output:?}");
        Ok(())
    };

    // It waits for a status without end, with the card's lock.
    let wait = "\tdma_rmb(); /* Read the rest of the answer after the status. */\n";
    let endless = "\twhile (READ_ONCE(head->status) == cpu_to_le32(NO_ANSWER))\n\t\tschedule_timeout_uninterruptible(HZ);\n";
    let output =
        broken.test("core/command.c", wait, &format!("{endless}{wait}"), &["--faults=command-lost"])?;
    verdict(&output, "command-lost", "HUNG")?;

    // It keeps the memory of a slot that the card refuses for a value, and with it the card.
    let refused = "\tif (ret)\n\t\tgoto release_index;\n\treturn 0;\n";
    let kept = format!("\tif (ret == -EINVAL)\n\t\tslot->area = NULL;\n{refused}");
    let faults = "--faults=slow,command-refused";
    let output = broken.test("hamlyn/slot.c", refused, &kept, &[faults])?;
    verdict(&output, "command-refused", "HUNG")?;
    ensure!(stdout(&output).contains("not unloaded: rmmod hamlyn has printed nothing"), "{output:?}");
    verdict(&output, "slow", "handled")
}
