//! Consistency of mappings (section 4.4) on machines that really page: pinned pages stay, others
//! leave and come back.

use anyhow::{Context, Result, bail, ensure};
use hamlyn_host::catalogue;
use hamlyn_lab::{Exit, Lab, Run, SWAP, Snoop};
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::desk::Desk;
use crate::shrimp::{all_were_seen, nothing_is_left, sees_stores};
use crate::{Turn, eventually, if_long, lab_of, text};

/// The exporter's machine, and the mapper's.
const EXPORTER: usize = 0;
const MAPPER: usize = 1;
/// Pages of a buffer.
const PAGES: usize = 4;
/// Makes the kernel run all shrinkers.
pub(crate) const DROP: &str = "echo 2 >/proc/sys/vm/drop_caches";

fn paging_lab(snoop: Snoop) -> Result<Turn> {
    let lab = lab_of(Lab::builder().models(&[catalogue::find("shrimp")?]).vms(2).snoop(snoop));
    shell(&lab, EXPORTER, SWAP)?;
    Ok(lab)
}

/// Runs a line in root's shell in a machine. Returns its output.
pub(crate) fn shell(lab: &Lab, vm: usize, line: &str) -> Result<String> {
    Ok(lab.vm(vm).run_as(0, ["sh", "-c", line])?.finish_text()?.join("\n"))
}

fn desk(lab: &Lab, vm: usize) -> Result<Desk<Run>> {
    Ok(Desk(lab.vm(vm).run(["shrimp", "desk"])?))
}

/// Returns a counter of the driver: `given_up`, `brought_back` or `awaited`.
fn figure(lab: &Lab, vm: usize, name: &str) -> Result<u64> {
    word_behind(&shell(lab, vm, "cat /sys/class/shrimp/shrimp0/paging")?, name)
}

fn word_behind(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("no {name} in {text:?}"))?.trim().parse()?)
}

/// A buffer in one machine, and a mapping of it in the other.
struct Pair {
    receiver: Desk<Run>,
    sender: Desk<Run>,
    buffer: Value,
    mapping: Value,
}

impl Pair {
    fn new(lab: &Lab, export: &str, mode: &str) -> Result<Self> {
        let (mut receiver, mut sender) = (desk(lab, EXPORTER)?, desk(lab, MAPPER)?);
        let made = receiver.ask(&format!("{export} {} 0 1", PAGES * 4096))?;
        let (buffer, handle) = (made["export"].clone(), text(&made, "handle"));
        let made = sender.ask(&format!("map {handle} 0 {} {mode}", PAGES * 4096))?;
        let mapping = made["mapping"].clone();
        ensure!(mapping.is_u64(), "{made}");
        Ok(Self { receiver, sender, buffer, mapping })
    }

    fn store(&mut self, offset: usize, value: u32) -> Result<()> {
        let line = format!("store {} {offset} {value}", self.mapping);
        self.sender.expect(&line, &json!({ "stored": true }))
    }

    /// Fills all pages of the mapping with a pattern. In deliberate mode also sends them.
    fn fill(&mut self, seed: u32, mode: &str) -> Result<()> {
        let (mapping, length) = (&self.mapping, PAGES * 4096);
        self.sender.expect(&format!("fill {mapping} 0 {length} {seed}"), &json!({ "filled": length }))?;
        if mode == "deliberate" {
            self.sender.expect(&format!("send {mapping} 0 {length}"), &json!({ "sent": true }))?;
        }
        self.has(0, length, seed)
    }

    /// Waits until all bytes of a part have the pattern.
    fn has(&mut self, offset: usize, length: usize, seed: u32) -> Result<()> {
        let check = format!("check {} {offset} {length} {seed}", self.buffer);
        eventually(|| Ok(self.receiver.ask(&check)?["arrived"] == true), "the pattern is there")
    }

    fn pages(&mut self) -> Result<Value> {
        self.receiver.ask(&format!("pages {}", self.buffer))
    }

    /// Waits until the exporter's machine has given up all pages and has them in its swap space.
    fn page_out(&mut self, lab: &Lab) -> Result<()> {
        let swapped = json!({ "present": 0, "swapped": PAGES });
        let told = format!("page-out {}", self.buffer);
        shell(lab, EXPORTER, DROP)?;
        eventually(
            || {
                self.receiver.expect(&told, &json!({ "told": true }))?;
                Ok(self.pages()? == swapped)
            },
            "all pages are swapped out",
        )
    }
}

#[test]
fn pages_of_a_pinned_export_stay_in_memory() -> Result<()> {
    let lab = paging_lab(Snoop::Auto)?;
    let mut pair = Pair::new(&lab, "export", "single")?;
    pair.fill(1, "single")?;
    let told = format!("page-out {}", pair.buffer);
    for _ in 0..3 {
        shell(&lab, EXPORTER, DROP)?;
        pair.receiver.expect(&told, &json!({ "told": true }))?;
    }
    let pages = pair.pages()?;
    ensure!(pages == json!({ "present": PAGES, "swapped": 0 }), "{pages}");
    pair.fill(2, "single")?;
    ensure!(figure(&lab, EXPORTER, "given_up")? == 0 && figure(&lab, MAPPER, "awaited")? == 0);
    Ok(())
}

#[test]
fn page_stays_until_its_mapper_confirms_invalidation() -> Result<()> {
    let lab = paging_lab(Snoop::Auto)?;
    let mut pair = Pair::new(&lab, "export-paged", "single")?;
    pair.fill(1, "single")?;
    // The mapper's machine is silent, but is not declared lost.
    shell(&lab, EXPORTER, "echo 600000 >/sys/module/hamlyn/parameters/peer_timeout")?;
    lab.vm(MAPPER).pause()?;
    let told = format!("page-out {}", pair.buffer);
    for _ in 0..5 {
        shell(&lab, EXPORTER, DROP)?;
        pair.receiver.expect(&told, &json!({ "told": true }))?;
        let pages = pair.pages()?;
        ensure!(pages == json!({ "present": PAGES, "swapped": 0 }), "{pages}");
    }
    lab.vm(MAPPER).resume()?;
    pair.page_out(&lab)?;
    pair.fill(2, "single")
}

#[test]
fn swapped_out_pages_return_on_store() -> Result<()> {
    let lab = paging_lab(Snoop::Yes)?;
    let seen = sees_stores(&lab, MAPPER)?;
    for mode in ["single", "blocked", "deliberate"] {
        come_back(&lab, mode)?;
    }
    all_were_seen(&lab, MAPPER)?;
    drop(seen);
    [EXPORTER, MAPPER].into_iter().try_for_each(|vm| nothing_is_left(&lab, vm))
}

#[test]
fn swapped_out_pages_return_on_window_store() -> Result<()> {
    let lab = paging_lab(Snoop::No)?;
    come_back(&lab, "single")
}

fn come_back(lab: &Lab, mode: &str) -> Result<()> {
    let swapped_before = word_behind(&shell(lab, EXPORTER, "cat /proc/vmstat")?, "pswpout")?;
    let mut pair = Pair::new(lab, "export-paged", mode)?;
    pair.fill(1, mode)?;
    let [given, back, awaited] = [(EXPORTER, "given_up"), (EXPORTER, "brought_back"), (MAPPER, "awaited")]
        .map(|(vm, name)| figure(lab, vm, name));
    pair.page_out(lab)?;
    ensure!(figure(lab, EXPORTER, "given_up")? >= given? + PAGES as u64);
    let swapped_now = word_behind(&shell(lab, EXPORTER, "cat /proc/vmstat")?, "pswpout")?;
    ensure!(swapped_now >= swapped_before + PAGES as u64, "{swapped_before}, then {swapped_now}");
    // One page comes back for a store to its middle. The rest of it is unchanged.
    let (offset, value) = (2 * 4096 + 100, 0x1234_5678);
    pair.store(offset, value)?;
    if mode == "deliberate" {
        pair.sender.expect(&format!("send {} {offset} 4", pair.mapping), &json!({ "sent": true }))?;
    }
    let load = format!("load {} {offset}", pair.buffer);
    eventually(|| Ok(pair.receiver.ask(&load)? == json!({ "value": value })), "the value arrives")?;
    ensure!(figure(lab, EXPORTER, "brought_back")? == back? + 1, "one page was asked for");
    ensure!(figure(lab, MAPPER, "awaited")? == awaited? + 1);
    pair.has(0, offset, 1)?;
    pair.sender.expect(&format!("state {}", pair.mapping), &json!({ "state": "mapped" }))?;
    // Once more, and all of them.
    pair.page_out(lab)?;
    pair.fill(2, mode)?;
    // A process that waits for a word of an absent page sees it arrive. With the window, a load
    // brings the first page back.
    let before = first_word(&mut pair.sender, &pair.mapping)?;
    pair.page_out(lab)?;
    pair.receiver.begin(&format!("wait {} 0 {before} 3600", pair.buffer))?;
    pair.store(0, 77)?;
    if mode == "deliberate" {
        pair.sender.expect(&format!("send {} 0 4", pair.mapping), &json!({ "sent": true }))?;
    }
    let woken = pair.receiver.answer()?;
    ensure!(woken == json!({ "value": 77 }), "{woken}");
    Ok(())
}

fn first_word(sender: &mut Desk<Run>, mapping: &Value) -> Result<u64> {
    sender.ask(&format!("own {mapping} 0"))?["value"].as_u64().context("no value")
}

#[test]
fn stores_stay_in_order_during_swapping() -> Result<()> {
    let lab = paging_lab(Snoop::Yes)?;
    let seen = sees_stores(&lab, MAPPER)?;
    for mode in ["single", "blocked"] {
        traffic(&lab, mode)?;
    }
    all_were_seen(&lab, MAPPER)?;
    drop(seen);
    [EXPORTER, MAPPER].into_iter().try_for_each(|vm| nothing_is_left(&lab, vm))
}

#[test]
fn window_stores_stay_in_order_during_swapping() -> Result<()> {
    traffic(&*paging_lab(Snoop::No)?, "single")
}

/// The number of pages that leave during a stream depends on how the host schedules the machines.
/// Streams are therefore sent until enough pages have left.
fn traffic(lab: &Lab, mode: &str) -> Result<()> {
    let mut given = 0;
    for _ in 0..20 {
        given += stream(lab, mode)?;
        if given >= 2 * PAGES as u64 {
            return Ok(());
        }
    }
    bail!("only {given} pages were given up while 20 streams were sent")
}

/// Sends a stream while pages come and go. Returns how many were given up.
fn stream(lab: &Lab, mode: &str) -> Result<u64> {
    let count = if_long(400_000, 40_000);
    let mut pair = Pair::new(lab, "export-paged", mode)?;
    let given = figure(lab, EXPORTER, "given_up")?;
    let asks = format!("while :; do {DROP}; usleep 5000; done");
    let mut asking = lab.vm(EXPORTER).run_as(0, ["sh", "-c", &asks])?;
    eventually(|| Ok(figure(lab, EXPORTER, "given_up")? > given), "pages are given up")?;
    pair.receiver.begin(&format!("follow {} {count}", pair.buffer))?;
    pair.sender.begin(&format!("stream {} {count}", pair.mapping))?;
    let streamed = pair.sender.answer()?;
    let followed = pair.receiver.answer()?;
    asking.kill(9)?;
    asking.wait()?;
    ensure!(streamed == json!({ "streamed": count }), "{streamed}");
    ensure!(followed == json!({ "followed": count }), "{followed}");
    let given = figure(lab, EXPORTER, "given_up")? - given;
    pair.fill(3, mode)?;
    Ok(given)
}

#[test]
fn ends_during_page_out_leave_nothing_behind() -> Result<()> {
    let lab = paging_lab(Snoop::Auto)?;
    for ends in ["exporter killed", "taken back", "mapper killed"] {
        let mut pair = Pair::new(&lab, "export-paged", "single")?;
        pair.fill(1, "single")?;
        pair.page_out(&lab)?;
        let (mapping, buffer) = (pair.mapping.clone(), pair.buffer.clone());
        match ends {
            "exporter killed" => {
                pair.receiver.0.kill(9)?;
                assert_eq!(pair.receiver.0.wait()?, Exit::Signal(9));
            }
            "taken back" => {
                pair.receiver.expect(&format!("unexport {buffer}"), &json!({ "unexported": true }))?;
            }
            _ => {
                killed_while_it_waits(&lab, &mut pair)?;
                continue;
            }
        }
        // The store does not wait for a page that no longer exists.
        pair.store(0, 5)?;
        let (state, taken) = (format!("state {mapping}"), json!({ "state": "taken back" }));
        eventually(|| Ok(pair.sender.ask(&state)? == taken), "the mapper is told")?;
    }
    [EXPORTER, MAPPER].into_iter().try_for_each(|vm| nothing_is_left(&lab, vm))
}

/// The other machine does not answer, so a store waits. Its process can still be killed.
fn killed_while_it_waits(lab: &Lab, pair: &mut Pair) -> Result<()> {
    let awaited = figure(lab, MAPPER, "awaited")?;
    lab.vm(EXPORTER).pause()?;
    pair.sender.begin(&format!("store {} 0 5", pair.mapping))?;
    eventually(|| Ok(figure(lab, MAPPER, "awaited")? > awaited), "the store waits")?;
    pair.sender.0.kill(9)?;
    assert_eq!(pair.sender.0.wait()?, Exit::Signal(9));
    lab.vm(EXPORTER).resume()
}

#[test]
fn system_calls_on_absent_pages_fail_immediately() -> Result<()> {
    let lab = paging_lab(Snoop::Auto)?;
    let mut receiver = desk(&lab, EXPORTER)?;
    let made = receiver.ask(&format!("export-paged {} 0 1", PAGES * 4096))?;
    let length = (PAGES * 4096).to_string();
    let mut caller = lab.vm(MAPPER).run(["c-shrimp-syscall", &text(&made, "handle"), &length])?;
    ensure!(caller.answer()? == json!({ "mapped": true }));
    let mut returns = |call: &str, due: i32| -> Result<()> {
        caller.say(call)?;
        let answer = caller.answer()?;
        ensure!(answer == json!({ "returned": due }), "{call}: {answer}, not {due}");
        Ok(())
    };
    returns("write", 4)?;
    // The exporter gives up the pages and does not bring them back. It controls how long an access
    // waits.
    let swapped = json!({ "present": 0, "swapped": PAGES });
    let (page_out, pages) = (format!("page-out {}", made["export"]), format!("pages {}", made["export"]));
    eventually(
        || {
            shell(&lab, EXPORTER, DROP)?;
            receiver.expect(&page_out, &json!({ "told": true }))?;
            Ok(receiver.ask(&pages)? == swapped)
        },
        "all pages are swapped out",
    )?;
    shell(&lab, MAPPER, "echo 600000 >/sys/module/hamlyn/parameters/peer_timeout")?;
    lab.vm(EXPORTER).pause()?;
    for call in ["write", "read"] {
        returns(call, -Errno::FAULT.raw_os_error())?;
    }
    // A program's own access waits for the page. Afterwards system calls succeed.
    lab.vm(EXPORTER).resume()?;
    returns("touch", 0)?;
    returns("write", 4)?;
    // The driver forbids splits, because removing many small mappings would hold the card's lock
    // for long.
    returns("split", -Errno::INVAL.raw_os_error())
}

#[test]
fn page_does_not_return_to_a_reused_address() -> Result<()> {
    let lab = paging_lab(Snoop::Auto)?;
    let mut exporter = Desk(lab.vm(EXPORTER).run(["shrimp", "remap"])?);
    let handle = text(&exporter.answer()?, "handle");
    let mut sender = desk(&lab, MAPPER)?;
    let mapping = sender.ask(&format!("map {handle} 0 {} single", PAGES * 4096))?["mapping"].clone();
    ensure!(mapping.is_u64(), "{mapping}");
    shell(&lab, EXPORTER, DROP)?;
    let swapped = json!({ "present": 0, "swapped": PAGES });
    let is_out = || {
        exporter.expect("page-out", &json!({ "told": true }))?;
        Ok(exporter.ask("pages")? == swapped)
    };
    eventually(is_out, "all pages are swapped out")?;
    exporter.expect("replace", &json!({ "replaced": true }))?;
    // The store returns, and the mapping ends, because the address now holds other memory.
    sender.expect(&format!("store {mapping} 100 5"), &json!({ "stored": true }))?;
    let (state, taken) = (format!("state {mapping}"), json!({ "state": "taken back" }));
    eventually(|| Ok(sender.ask(&state)? == taken), "the mapper is told")?;
    exporter.expect("is-own", &json!({ "unchanged": true }))
}
