//! The guest's tools on DART cards: the same tools, tables and refusals.

use anyhow::{Result, ensure};

use crate::dart::nothing_is_left;
use crate::left::log_is_clean;
use crate::shared_of;
use crate::tool::{Tools, said, server};

const TOOLS: Tools = Tools {
    model: "dart",
    // No data, a block, more than a block, and more than a message holds, with a length that is not
    // a multiple of 4.
    ping: &["16", "0", "32", "33", "65504", "200001"],
    longest: 8_384_512,
    latency: &[&["-s", "32", "-n", "20"], &["-n", "5", "-e"], &["-s", "100000", "-n", "5"]],
    // More in flight than a connection has credits for.
    both_ways: "65536",
};

#[test]
fn tools_find_the_dart_card_by_themselves() -> Result<()> {
    let lab = shared_of("dart")?;
    let info = TOOLS.info(&lab)?;
    ensure!(info["counters"]["misses"].is_u64(), "{info}");
    TOOLS.ping(&lab)?;
    let server = TOOLS.perf(&lab)?;
    let card = &lab.card_counters(1)?["card"];
    for trap in ["unimplemented", "index", "refused", "right", "misaligned", "bounds", "no_memory"] {
        ensure!(card[format!("traps_{trap}")] == 0, "{trap}: {card}");
    }
    drop(server);
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
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
