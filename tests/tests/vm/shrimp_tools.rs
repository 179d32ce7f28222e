//! The guest's tools on SHRIMP cards: the same tools, tables and refusals.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Snoop};

use crate::shrimp::{counter, lab_with};
use crate::tool::{number, refused, said, server};

#[test]
fn tools_find_the_shrimp_card_by_themselves() -> Result<()> {
    let lab = lab_with(2, Snoop::Yes)?;
    info(&lab)?;
    ping(&lab)?;
    perf(&lab)
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
    // There is no other card.
    let info = said(lab, &["hamlyn-info", "--json"])?;
    ensure!(info.len() == 1, "{info:?}");
    let info = &info[0];
    ensure!(
        info["card"] == "/dev/shrimp0" && info["host"] == 0 && info["uapi_version"].is_string(),
        "{info}"
    );
    ensure!(info["pci_address"].as_str().is_some_and(|address| address.starts_with("0000:")), "{info}");
    for field in ["ports", "pages", "columns", "fifo"] {
        ensure!(number(info, field)? > 0.0, "{info}");
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
    refused(lab, &["hamlyn-info", "-d", "/dev/shrimp9"], "/dev/shrimp9")
}

fn ping(lab: &Lab) -> Result<()> {
    let _server = server(lab, "hamlyn-ping")?;
    crate::finds(lab, "hamlyn-ping")?;
    for size in ["16", "5001", "0"] {
        let summary = said(lab, &["hamlyn-ping", "1", "-c", "10", "-i", "0", "-s", size, "--json"])?;
        ensure!(summary[0]["sent"] == 10 && summary[0]["answered"] == 10, "{summary:?}");
    }
    let lines =
        lab.vm(0).run(["hamlyn-ping", "-d", "/dev/shrimp0", "1", "-c", "2", "-i", "0"])?.finish_text()?;
    ensure!(lines.len() == 4 && lines[0].starts_with("16 bytes from host 1: seq=0 time="), "{lines:?}");
    refused(lab, &["hamlyn-ping", "1", "-s", "8384513"], "(limit 8384512)")?;
    refused(lab, &["hamlyn-ping", "1", "--name", "absent"], "no listener has that name")
}

fn perf(lab: &Lab) -> Result<()> {
    let _server = server(lab, "hamlyn-perf")?;
    for more in [&["-s", "64", "-n", "20"][..], &["-n", "5", "-e"]] {
        let row = said(lab, &[&["hamlyn-perf", "1", "--json"], more].concat())?;
        let [min, max] = ["t_min_us", "t_max_us"].map(|field| number(&row[0], field));
        let (min, max) = (min?, max?);
        ensure!(0.0 < min && min <= max, "{row:?}");
    }
    // One way, and both directions with two pairs.
    let one_way = ["hamlyn-perf", "1", "--bw", "-s", "4096", "-n", "700", "--json"];
    let row = said(lab, &one_way)?;
    ensure!(row[0]["iterations"] == 700 && number(&row[0], "bw_average_mb_s")? > 0.0, "{row:?}");
    let both_ways = ["hamlyn-perf", "1", "--bw", "-b", "-q", "2", "-s", "16384", "-n", "50", "--json"];
    ensure!(said(lab, &both_ways)?[0]["iterations"] == 100);
    ensure!(lab.card_counters(0)?["card"]["transfers_done"].as_u64() >= Some(800), "by deliberate update");
    // A length that is not a multiple of 4.
    ensure!(
        said(lab, &["hamlyn-perf", "1", "--bw", "-s", "6", "-n", "20", "--json"])?[0]["iterations"] == 20
    );
    Ok(())
}
