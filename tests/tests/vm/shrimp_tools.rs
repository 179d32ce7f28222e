//! The guest's tools on SHRIMP cards: the same tools, tables and refusals.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Snoop};

use crate::shrimp::{counter, lab_with};
use crate::tool::{Tools, number, said, server};

const TOOLS: Tools = Tools {
    model: "shrimp",
    ping: &["16", "5001", "0"],
    longest: 8_384_512,
    latency: &[&["-s", "64", "-n", "20"], &["-n", "5", "-e"]],
    both_ways: "16384",
};

#[test]
fn tools_find_the_shrimp_card_by_themselves() -> Result<()> {
    let lab = lab_with(2, Snoop::Yes)?;
    info(&lab)?;
    ping(&lab)?;
    let _server = TOOLS.perf(&lab)?;
    ensure!(lab.card_counters(0)?["card"]["transfers_done"].as_u64() >= Some(800), "by deliberate update");
    // A length that is not a multiple of 4.
    let row = said(&lab, &["hamlyn-perf", "1", "--bw", "-s", "6", "-n", "20", "--json"])?;
    ensure!(row[0]["iterations"] == 20);
    Ok(())
}

#[test]
fn tools_work_through_the_window() -> Result<()> {
    let lab = lab_with(2, Snoop::No)?;
    let info = said(&lab, &["hamlyn-info", "-d", "/dev/shrimp0", "--json"])?;
    ensure!(info[0]["snoops"] == false, "{info:?}");
    ensure!(lab.card_counters(0)?["snooped"] == false, "hamlyn stat says so, too");
    let _server = server(&lab, "hamlyn-ping")?;
    let summary = said(&lab, &["hamlyn-ping", "1", "-c", "5", "-i", "0", "-s", "300", "--json"])?;
    ensure!(summary[0]["answered"] == 5, "{summary:?}");
    Ok(())
}

fn info(lab: &Lab) -> Result<()> {
    let info = TOOLS.info(lab)?;
    ensure!(info["pci_address"].as_str().is_some_and(|address| address.starts_with("0000:")), "{info}");
    for field in ["pages", "columns", "fifo"] {
        ensure!(number(&info, field)? > 0.0, "{info}");
    }
    // Only root can see what each user has.
    ensure!(info["exports"].is_null() && info["limits"]["max_exports"] == 4096, "{info}");
    let all = lab.vm(0).run_as(0, ["hamlyn-info", "--json"])?.finish()?;
    ensure!(all[0]["exports"] == 0 && all[0]["mappings"] == 0, "{all:?}");
    ensure!(info["counters"]["stores_seen"] == counter(lab, 0, "stores_seen")?, "{info}");
    // While a process holds memory.
    let mut desk = lab.vm(0).run(["shrimp", "desk"])?;
    desk.say("export 8192 0 1")?;
    let handle = desk.answer()?["handle"].as_str().context("no handle")?.to_owned();
    desk.say(&format!("map {handle} 0 4096 single"))?;
    desk.answer()?;
    let lines = lab.vm(0).run_as(0, ["hamlyn-info", "-v", "-d", "/dev/shrimp0"])?.finish_text()?;
    let has = |wanted: [&str; 2]| lines.iter().any(|line| line.split_whitespace().eq(wanted));
    for wanted in [["exports:", "1"], ["mappings:", "1"], ["snoops:", "yes"], ["link:", "up"]] {
        ensure!(has(wanted), "{wanted:?}: {lines:?}");
    }
    ensure!(lab.card_counters(0)?["snooped"] == true, "hamlyn stat says so, too");
    desk.kill(9)?;
    desk.wait()?;
    Ok(())
}

fn ping(lab: &Lab) -> Result<()> {
    TOOLS.ping(lab)?;
    let _server = server(lab, "hamlyn-ping")?;
    let lines =
        lab.vm(0).run(["hamlyn-ping", "-d", "/dev/shrimp0", "1", "-c", "2", "-i", "0"])?.finish_text()?;
    ensure!(lines.len() == 4 && lines[0].starts_with("16 bytes from host 1: seq=0 time="), "{lines:?}");
    Ok(())
}
