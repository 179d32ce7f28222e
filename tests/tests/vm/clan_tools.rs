//! The guest's tools on CLAN cards: the same tools, tables and refusals.

use anyhow::{Result, ensure};
use hamlyn_lab::Lab;

use crate::shared_of;
use crate::tool::{Tools, number};

const TOOLS: Tools = Tools {
    model: "clan",
    // By stores, without data, and by DMA.
    ping: &["16", "0", "256", "257", "100001"],
    longest: 8_384_512,
    latency: &[&["-s", "64", "-n", "20"], &["-n", "5", "-e"], &["-s", "4096", "-n", "20"]],
    both_ways: "16384",
};

#[test]
fn tools_find_the_clan_card_by_themselves() -> Result<()> {
    let lab = shared_of("clan")?;
    info(&lab)?;
    TOOLS.ping(&lab)?;
    let _server = TOOLS.perf(&lab)?;
    ensure!(lab.card_counters(0)?["card"]["requests_done"].as_u64() >= Some(1600), "by DMA");
    let card = &lab.card_counters(1)?["card"];
    // A channel's two ends may each be the first to go, and then its peer's last store finds
    // nothing.
    for refused in ["refused_access", "refused_range", "over_credit"] {
        ensure!(card[refused] == 0, "{refused}: {card}");
    }
    Ok(())
}

fn info(lab: &Lab) -> Result<()> {
    let info = TOOLS.info(lab)?;
    for field in ["tripwires", "burst", "credits"] {
        ensure!(number(&info, field)? > 0.0, "{info}");
    }
    ensure!(info["limits"]["max_window_pages"].as_u64() > Some(1000), "{info}");
    ensure!(info["counters"]["tripwires_fired"].is_u64(), "{info}");
    let lines = lab.vm(0).run(["hamlyn-info", "-v", "-d", "/dev/clan0"])?.finish_text()?;
    let has = |wanted: [&str; 2]| lines.iter().any(|line| line.split_whitespace().eq(wanted));
    // The driver uses one Tripwire itself.
    ensure!(has(["tripwires:", "4095"]) && has(["link:", "up"]), "{lines:?}");
    Ok(())
}
