//! The guest's tools on DART cards: the same tools, tables and refusals.

use anyhow::{Result, ensure};
use hamlyn_lab::Lab;

use crate::dart::{log_is_clean, nothing_is_left};
use crate::tool::{number, refused, said, server};
use crate::{Turn, shared_of};

#[test]
fn tools_find_the_dart_card_by_themselves() -> Result<()> {
    let lab = shared_of("dart")?;
    info(&lab)?;
    ping(&lab)?;
    perf(&lab)?;
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

fn info(lab: &Lab) -> Result<()> {
    // There is no other card.
    let info = said(lab, &["hamlyn-info", "--json"])?;
    ensure!(info.len() == 1, "{info:?}");
    let info = &info[0];
    ensure!(info["card"] == "/dev/dart0" && info["host"] == 0 && info["uapi_version"].is_string(), "{info}");
    ensure!(number(info, "ports")? > 0.0 && info["counters"]["misses"].is_u64(), "{info}");
    refused(lab, &["hamlyn-info", "-d", "/dev/dart9"], "/dev/dart9")
}

fn ping(lab: &Lab) -> Result<()> {
    let _server = server(lab, "hamlyn-ping")?;
    crate::finds(lab, "hamlyn-ping")?;
    // No data, a block, more than a block, and more than a message holds, with a length that is not
    // a multiple of 4.
    for size in ["16", "0", "32", "33", "65504", "200001"] {
        let summary = said(lab, &["hamlyn-ping", "1", "-c", "10", "-i", "0", "-s", size, "--json"])?;
        ensure!(summary[0]["sent"] == 10 && summary[0]["answered"] == 10, "{size}: {summary:?}");
    }
    refused(lab, &["hamlyn-ping", "1", "-s", "8384513"], "(limit 8384512)")?;
    refused(lab, &["hamlyn-ping", "1", "--name", "absent"], "no listener has that name")
}

fn perf(lab: &Turn) -> Result<()> {
    let _server = server(lab, "hamlyn-perf")?;
    for more in [&["-s", "32", "-n", "20"][..], &["-n", "5", "-e"], &["-s", "100000", "-n", "5"]] {
        let row = said(lab, &[&["hamlyn-perf", "1", "--json"], more].concat())?;
        let [min, max] = ["t_min_us", "t_max_us"].map(|field| number(&row[0], field));
        let (min, max) = (min?, max?);
        ensure!(0.0 < min && min <= max, "{row:?}");
    }
    // More messages than the queue has records.
    let row = said(lab, &["hamlyn-perf", "1", "--bw", "-s", "4096", "-n", "700", "--json"])?;
    ensure!(row[0]["iterations"] == 700 && number(&row[0], "bw_average_mb_s")? > 0.0, "{row:?}");
    // More in flight than a connection has credits for, in both directions with two pairs.
    let both_ways = ["hamlyn-perf", "1", "--bw", "-b", "-q", "2", "-s", "65536", "-n", "50", "--json"];
    ensure!(said(lab, &both_ways)?[0]["iterations"] == 100);
    let card = &lab.card_counters(1)?["card"];
    for trap in ["unimplemented", "index", "refused", "right", "misaligned", "bounds", "no_memory"] {
        ensure!(card[format!("traps_{trap}")] == 0, "{trap}: {card}");
    }
    Ok(())
}

#[test]
fn perf_table_has_all_sizes() -> Result<()> {
    let lab = shared_of("dart")?;
    let _server = server(&lab, "hamlyn-perf")?;
    let rows = said(&lab, &["hamlyn-perf", "1", "-a", "-n", "2", "--timeout", "300", "--json"])?;
    let sizes: Vec<u64> = rows.iter().filter_map(|row| row["bytes"].as_u64()).collect();
    ensure!(sizes == (1..=22).map(|power| 1 << power).collect::<Vec<_>>(), "{sizes:?}");
    Ok(())
}
