//! `--express isolated`: one file for each pair of hosts, which no other host receives, and a PCI
//! function for each other host.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Run};
use serde_json::{Value, json};

use crate::desk::Desk;
use crate::express::{channel, desk, express_as, log_is_clean, no_pages_are_held, ping_pong};
use crate::express_ends::settle;
use crate::{eventually, lab_of};

const MACHINES: usize = 3;
/// The switch has one port more than there are machines, and reserves memory for a host at that
/// port.
const PEERS: usize = 3;
/// Prefix of the files of express memory among a process's descriptors and mappings.
const NAME: &str = "/memfd:express";

#[test]
fn each_pair_has_its_own_function_and_file() -> Result<()> {
    let lab = lab_of(express_as("isolated", MACHINES).card_args(["--handshake", "60000"]));
    let give_up_after = |milliseconds: u32| {
        let set = format!("echo {milliseconds} > /sys/module/hamlyn/parameters/peer_timeout");
        let mut running = (0..MACHINES).filter(|vm| lab.vm(*vm).is_running());
        running.try_for_each(|vm| root(&lab, vm, &set).map(drop))
    };
    give_up_after(60_000)?;
    for vm in 0..MACHINES {
        let functions = root(&lab, vm, "cd /sys/bus/pci/drivers/hamlyn-express; echo 0000:*")?;
        ensure!(functions == ["0000:00:10.2 0000:00:10.3 0000:00:10.4"], "{functions:?}");
        let counted = &lab.card_counters(vm)?["express"];
        ensure!(*counted == json!({ "part": 1 << 20, "functions": PEERS, "machine": true }), "{counted}");
    }
    no_process_holds_files_of_others(&lab)?;
    ping_pong(&lab, &[], 200, true).context("looking")?;
    ping_pong(&lab, &["--poll", "0"], 100, true).context("asleep")?;
    let mut pairs = [Pair::open(&lab, 0, 1)?, Pair::open(&lab, 1, 2)?, Pair::open(&lab, 2, 0)?];
    pairs_talk_at_the_same_time(&mut pairs)?;
    // Machines that do not talk to the dying machine keep their channel.
    let [first, second, mut third] = pairs;
    give_up_after(6000)?;
    lab.vm(1).kill()?;
    for (mut desk, number) in [(first.desks.0, first.numbers.0), (second.desks.1, second.numbers.1)] {
        host_is_lost(&desk.ask(&format!("receive {number}"))?)?;
    }
    give_up_after(60_000)?;
    third.talk()?;
    lab.vm(1).start()?;
    third.talk()?;
    no_process_holds_files_of_others(&lab).context("after a machine's death")?;
    pairs_talk_at_the_same_time(&mut [Pair::open(&lab, 0, 1)?, Pair::open(&lab, 1, 2)?, third])?;
    one_function_goes_and_comes(&lab)?;
    for (vm, host) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let mut look = desk(&lab, vm)?;
        settle(&mut look, host)?;
        eventually(|| no_pages_are_held(&mut look, host), "all pages are back")?;
    }
    (0..MACHINES).try_for_each(|vm| log_is_clean(&lab, vm))
}

fn root(lab: &Lab, vm: usize, script: &str) -> Result<Vec<String>> {
    lab.vm(vm).run_as(0, ["sh", "-c", script])?.finish_text()
}

fn host_is_lost(answer: &Value) -> Result<()> {
    ensure!(["Host", "Gone", "Link"].iter().any(|why| answer["lost"] == *why), "{answer}");
    Ok(())
}

/// A channel between two machines: their desks, and its number at each.
struct Pair {
    desks: (Desk<Run>, Desk<Run>),
    numbers: (u64, u64),
}

impl Pair {
    fn open(lab: &Lab, one: usize, other: usize) -> Result<Pair> {
        let (pair, by_memory) = Pair::open_somehow(lab, one, other)?;
        ensure!(by_memory, "between {one} and {other} it goes by the card");
        Ok(pair)
    }

    fn open_somehow(lab: &Lab, one: usize, other: usize) -> Result<(Pair, bool)> {
        let (mut client, mut server) = (desk(lab, one)?, desk(lab, other)?);
        let name = format!("{one}-{other}");
        let ([accepted, made], by_memory) = channel((&mut server, other), &mut client, &name)?;
        Ok((Pair { desks: (client, server), numbers: (made, accepted) }, by_memory))
    }

    fn begin(&mut self) -> Result<()> {
        self.desks.1.begin(&format!("echo {} 200", self.numbers.1))?;
        self.desks.0.begin(&format!("talk {} 200 {}", self.numbers.0, 1996))
    }

    fn end(&mut self) -> Result<()> {
        let (talked, echoed) = (self.desks.0.answer()?, self.desks.1.answer()?);
        ensure!(
            talked == json!({ "talked": 200 }) && echoed == json!({ "echoed": 200 }),
            "{talked}, {echoed}"
        );
        Ok(())
    }

    fn talk(&mut self) -> Result<()> {
        self.begin()?;
        self.end()
    }
}

fn pairs_talk_at_the_same_time(pairs: &mut [Pair]) -> Result<()> {
    pairs.iter_mut().try_for_each(Pair::begin)?;
    pairs.iter_mut().try_for_each(Pair::end)
}

/// Checks that unbinding the function for one host disables express memory with that host only.
fn one_function_goes_and_comes(lab: &Lab) -> Result<()> {
    let driver =
        |verb: &str| root(lab, 0, &format!("echo 0000:00:10.2 > /sys/bus/pci/drivers/hamlyn-express/{verb}"));
    driver("unbind")?;
    let (mut pair, by_memory) = Pair::open_somehow(lab, 0, 1)?;
    ensure!(!by_memory, "without the function for host 1");
    pair.talk()?;
    Pair::open(lab, 0, 2)?.talk()?;
    drop(pair);
    driver("bind")?;
    Pair::open(lab, 0, 1)?.talk()
}

/// Checks that a card's process and its QEMU hold one file for each other host, and share exactly
/// one with each of them.
fn no_process_holds_files_of_others(lab: &Lab) -> Result<()> {
    let mut of_machines = Vec::new();
    for vm in 0..MACHINES {
        let socket = lab.card_socket(vm)?.to_str().context("no text")?;
        let processes = processes_that_name(socket)?;
        let held: Vec<_> = processes.iter().map(|process| express_files(process)).collect::<Result<_>>()?;
        // The card's process, and its QEMU.
        let [card, qemu] = &held[..] else { anyhow::bail!("{socket}: {processes:?}") };
        ensure!(card == qemu && card.len() == PEERS, "machine {vm}: {card:?}, {qemu:?}");
        of_machines.push(card.clone());
    }
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let common = of_machines[one].intersection(&of_machines[other]).count();
        ensure!(common == 1, "{one} and {other} have {common} files in common: {of_machines:?}");
    }
    let all = of_machines[0].intersection(&of_machines[1]).any(|file| of_machines[2].contains(file));
    ensure!(!all, "{of_machines:?}");
    Ok(())
}

/// Returns the processes that have a card's socket on their command lines.
fn processes_that_name(socket: &str) -> Result<Vec<std::path::PathBuf>> {
    let names = |process: &Path| {
        fs::read(process.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(socket))
    };
    let all = fs::read_dir("/proc")?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(all.filter(|process| names(process)).collect())
}

/// Returns the inode numbers of a process's files of express memory, open or mapped.
fn express_files(process: &Path) -> Result<BTreeSet<u64>> {
    let mut files = BTreeSet::new();
    for descriptor in fs::read_dir(process.join("fd"))? {
        let descriptor = descriptor?.path();
        if fs::read_link(&descriptor).is_ok_and(|name| name.to_string_lossy().starts_with(NAME)) {
            files.insert(fs::metadata(&descriptor)?.ino());
        }
    }
    for line in fs::read_to_string(process.join("maps"))?.lines().filter(|line| line.contains(NAME)) {
        files.insert(line.split_whitespace().nth(4).context("no inode")?.parse()?);
    }
    Ok(files)
}
