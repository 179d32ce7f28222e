//! Channels over express memory by those who use them: programs in C, the tools.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Exit, Lab};
use serde_json::{Value, json};

use crate::{Turn, lab_of};

/// Two machines that share memory.
fn express_lab() -> Turn {
    lab_of(Lab::builder().vms(2).switch_args(["--express", "shared"]))
}

fn said(lab: &Lab, arguments: &[&str]) -> Result<Value> {
    lab.vm(0).run(arguments.iter().copied())?.finish()?.pop().context("nothing was said")
}

#[test]
fn programs_in_c_and_in_rust_talk_by_a_channel() -> Result<()> {
    let lab = express_lab();
    let mut server = lab.vm(1).run(["c-express", "serve", "chan"])?;
    ensure!(server.answer()? == json!({ "listening": true }));
    for (more, express) in [(&[][..], true), (&["messages"], false)] {
        let arguments = [&["c-express"], more, &["1", "chan", "from C"]].concat();
        let answers = lab.vm(0).run(arguments)?.finish()?;
        ensure!(answers == [json!({ "express": express }), json!({ "back": "from C" })], "{answers:?}");
        ensure!(server.answer()? == json!({ "echoed": 1, "ended": "well" }));
    }
    // Rust's at the other end, with messages of all lengths, each verified.
    let trips = said(&lab, &["express", "ping-pong", "1", "--name", "chan", "--count", "500"])?;
    ensure!(trips["round_trips"] == 500, "{trips}");
    ensure!(server.answer()? == json!({ "echoed": 500, "ended": "well" }));
    Ok(())
}

#[test]
fn the_tools_measure_by_channels() -> Result<()> {
    let lab = express_lab();
    let start = |tool: &str| -> Result<_> {
        let mut server = lab.vm(1).run([tool, "--express", "--json"])?;
        ensure!(server.answer()? == json!({ "listening": format!("{tool}-express"), "host": 1 }));
        Ok(server)
    };
    let _ping = start("hamlyn-ping")?;
    for size in ["0", "16", "143348"] {
        let ping = ["hamlyn-ping", "--express", "1", "-c", "10", "-i", "0", "-s", size, "--json"];
        let answer = said(&lab, &ping)?;
        ensure!(answer["answered"] == 10 && answer["host"] == 1, "{answer}");
    }
    let _perf = start("hamlyn-perf")?;
    for more in [&["-s", "16", "-n", "500"][..], &["-e", "-n", "50"], &["--bw", "-n", "300"]] {
        let row = said(&lab, &[&["hamlyn-perf", "--express", "1", "--json"], more].concat())?;
        ensure!(row["iterations"].as_u64() > Some(49), "{row}");
    }
    // Both ends send more than there is room for.
    let both = ["hamlyn-perf", "--express", "1", "--bw", "-b", "-n", "200", "--json"];
    let row = said(&lab, &both)?;
    ensure!(row["iterations"] == 200, "{row}");
    let mut large = lab.vm(0).run(["hamlyn-ping", "--express", "1", "-s", "143349"])?;
    ensure!(large.wait()? == Exit::Code(1) && large.stderr().contains("limit 143348"));
    // Who is met by a channel is met by nothing else.
    let mut other = lab.vm(0).run(["hamlyn-ping", "1", "-c", "1"])?;
    ensure!(other.wait()? == Exit::Code(1) && other.stderr().contains("nobody listens"));
    Ok(())
}
