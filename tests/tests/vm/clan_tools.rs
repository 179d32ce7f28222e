//! The guest's tools on CLAN cards: the same tools, tables and refusals.

use anyhow::{Result, ensure};
use hamlyn_lab::Lab;

use crate::tool::{number, refused, said, server};
use crate::{Turn, shared_of};

#[test]
fn tools_find_the_clan_card_by_themselves() -> Result<()> {
    let lab = shared_of("clan")?;
    info(&lab)?;
    ping(&lab)?;
    perf(&lab)
}

fn info(lab: &Lab) -> Result<()> {
    // There is no other card.
    let info = said(lab, &["hamlyn-info", "--json"])?;
    ensure!(info.len() == 1, "{info:?}");
    let info = &info[0];
    ensure!(info["card"] == "/dev/clan0" && info["host"] == 0 && info["uapi_version"].is_string(), "{info}");
    for field in ["ports", "tripwires", "burst", "credits"] {
        ensure!(number(info, field)? > 0.0, "{info}");
    }
    ensure!(info["limits"]["max_window_pages"].as_u64() > Some(1000), "{info}");
    ensure!(info["counters"]["tripwires_fired"].is_u64(), "{info}");
    let lines = lab.vm(0).run(["hamlyn-info", "-v", "-d", "/dev/clan0"])?.finish_text()?;
    let has = |wanted: [&str; 2]| lines.iter().any(|line| line.split_whitespace().eq(wanted));
    // The driver uses one Tripwire itself.
    ensure!(has(["tripwires:", "4095"]) && has(["link:", "up"]), "{lines:?}");
    refused(lab, &["hamlyn-info", "-d", "/dev/clan9"], "/dev/clan9")
}

fn ping(lab: &Lab) -> Result<()> {
    let _server = server(lab, "hamlyn-ping")?;
    crate::finds(lab, "hamlyn-ping")?;
    // By stores, without data, and by DMA.
    for size in ["16", "0", "256", "257", "100001"] {
        let summary = said(lab, &["hamlyn-ping", "1", "-c", "10", "-i", "0", "-s", size, "--json"])?;
        ensure!(summary[0]["sent"] == 10 && summary[0]["answered"] == 10, "{size}: {summary:?}");
    }
    refused(lab, &["hamlyn-ping", "1", "-s", "8384513"], "(limit 8384512)")?;
    refused(lab, &["hamlyn-ping", "1", "--name", "absent"], "no listener has that name")
}

fn perf(lab: &Turn) -> Result<()> {
    let _server = server(lab, "hamlyn-perf")?;
    for more in [&["-s", "64", "-n", "20"][..], &["-n", "5", "-e"], &["-s", "4096", "-n", "20"]] {
        let row = said(lab, &[&["hamlyn-perf", "1", "--json"], more].concat())?;
        let [min, max] = ["t_min_us", "t_max_us"].map(|field| number(&row[0], field));
        let (min, max) = (min?, max?);
        ensure!(0.0 < min && min <= max, "{row:?}");
    }
    // One way, and both directions with two pairs.
    let row = said(lab, &["hamlyn-perf", "1", "--bw", "-s", "4096", "-n", "700", "--json"])?;
    ensure!(row[0]["iterations"] == 700 && number(&row[0], "bw_average_mb_s")? > 0.0, "{row:?}");
    let both_ways = ["hamlyn-perf", "1", "--bw", "-b", "-q", "2", "-s", "16384", "-n", "50", "--json"];
    ensure!(said(lab, &both_ways)?[0]["iterations"] == 100);
    ensure!(lab.card_counters(0)?["card"]["requests_done"].as_u64() >= Some(1600), "by DMA");
    let card = &lab.card_counters(1)?["card"];
    // A channel's two ends may each be the first to go, and then its peer's last store finds
    // nothing.
    for refused in ["refused_access", "refused_range", "over_credit"] {
        ensure!(card[refused] == 0, "{refused}: {card}");
    }
    Ok(())
}
