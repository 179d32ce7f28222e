//! Channels over express memory as applications use them: programs in C and the tools.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Exit, Lab, Run};
use serde_json::{Value, json};

use crate::express::{desk, no_pages_are_held};
use crate::express_ends::settle;
use crate::{Turn, eventually, shared_as};

/// Returns a lab of two machines that share memory.
fn express_lab() -> Turn {
    shared_as("express", Lab::builder().vms(2).switch_args(["--express", "shared"]))
}

fn said(lab: &Lab, arguments: &[&str]) -> Result<Value> {
    lab.vm(0).run(arguments.iter().copied())?.finish()?.pop().context("nothing was said")
}

#[test]
fn c_and_rust_programs_share_a_channel() -> Result<()> {
    let lab = express_lab();
    let mut server = lab.vm(1).run(["c-express", "serve", "chan"])?;
    ensure!(server.answer()? == json!({ "listening": true }));
    for (more, express) in [(&[][..], true), (&["card"], false)] {
        let arguments = [&["c-express"], more, &["1", "chan", "from C"]].concat();
        let answers = lab.vm(0).run(arguments)?.finish()?;
        ensure!(answers == [json!({ "express": express }), json!({ "back": "from C" })], "{answers:?}");
        ensure!(server.answer()? == json!({ "echoed": 1, "ended": "well" }));
    }
    // The other end is in Rust, with messages of all lengths, each verified.
    let trips = said(&lab, &["express", "ping-pong", "1", "--name", "chan", "--count", "500"])?;
    ensure!(trips["round_trips"] == 500, "{trips}");
    ensure!(server.answer()? == json!({ "echoed": 500, "ended": "well" }));
    Ok(())
}

/// Clients connect after their user's pages are used up. A server with memory for a channel by card
/// serves such a client so; one without refuses it, and serves the next client.
#[test]
fn c_server_survives_a_client_it_cannot_accept() -> Result<()> {
    let lab = express_lab();
    let mut rich = lab.vm(1).run(["c-express", "serve", "rich"])?;
    ensure!(rich.answer()? == json!({ "listening": true }));
    // Enough for the words of a channel by express memory, not for rings.
    let mut server = lab.vm(1).run(["sh", "-c", "ulimit -l 100; exec c-express serve chan"])?;
    ensure!(server.answer()? == json!({ "listening": true }));
    let (mut hog, mut watcher) = (desk(&lab, 1)?, desk(&lab, 1)?);
    for bytes in [65536, 4096] {
        while hog.ask(&format!("make 0 {bytes}"))?["error"].is_null() {}
    }
    let answers = lab.vm(0).run(["c-express", "1", "rich", "first"])?.finish()?;
    ensure!(answers == [json!({ "express": false }), json!({ "back": "first" })], "{answers:?}");
    let refused = lab.vm(0).run(["c-express", "1", "chan", "first"])?.wait()?;
    ensure!(refused == Exit::Code(1), "{refused:?}");
    let said = server.answer()?;
    ensure!(said["refused"].is_string(), "{said}");
    drop(hog);
    eventually(|| no_pages_are_held(&mut watcher, 0), "the pages are given back")?;
    let answers = lab.vm(0).run(["c-express", "1", "chan", "next"])?.finish()?;
    ensure!(answers == [json!({ "express": true }), json!({ "back": "next" })], "{answers:?}");
    Ok(())
}

/// Creates an area in machine 0 with the C program. Returns the program, and the area's number and
/// key.
fn c_area(lab: &Lab) -> Result<(Run, [String; 2])> {
    let mut area = lab.vm(0).run(["c-express", "area", "1"])?;
    let made = area.answer()?;
    ensure!(made["bytes"] == 4096 && made["used"] == 1, "{made}");
    Ok((area, ["area", "key"].map(|field| made[field].to_string())))
}

#[test]
fn programs_in_c_and_in_rust_share_pages() -> Result<()> {
    let lab = express_lab();
    let (mut area, [number, key]) = c_area(&lab)?;
    // A wrong key gives no access.
    let mut stranger = lab.vm(1).run(["c-express", "view", "0", &number, "1"])?;
    ensure!(stranger.answer()?["error"].is_string() && stranger.wait()? == Exit::Code(1));
    let viewed = lab.vm(1).run(["c-express", "view", "0", &number, &key])?.finish()?;
    let shared = area.finish()?;
    let [found, viewed] = [&shared[0], &viewed[0]];
    let own = viewed["number"].as_u64().context("no number")?;
    ensure!(own > 0 && found["number"] == own && found["sum"] == 3, "{found}, {viewed}");
    ensure!(viewed["bytes"] == 4096 && viewed["was"] == 0 && viewed["answer"] == own + 3, "{viewed}");
    // Each side announces itself first and then looks for the other, so at most one of them can
    // look too early.
    ensure!(found["waited"] == true || viewed["at_once"] == true, "{found}, {viewed}");
    ensure!(shared[1] == json!({ "given": true }), "{shared:?}");

    // The same with a view in Rust. Word 0 is the viewer's number, and both add to word 1. Word 2
    // is the answer, and word 3 acknowledges it.
    let (mut area, [number, key]) = c_area(&lab)?;
    let mut viewer = desk(&lab, 1)?;
    viewer.expect(&format!("map 0 {number} {key}"), &json!({ "pages": 1, "bytes": 4096 }))?;
    viewer.expect("add 1 5 1", &json!({ "was": 0 }))?;
    viewer.expect("add 1 7", &json!({ "was": 0 }))?;
    ensure!(area.answer()? == json!({ "number": 7, "sum": 5, "waited": false }));
    viewer.expect("add 1 0 2", &json!({ "was": 12 }))?;
    viewer.expect("add 1 2 3", &json!({ "was": 0 }))?;
    ensure!(area.finish()? == [json!({ "given": true })]);
    viewer.expect("give 1", &json!({ "given": true }))?;
    nothing_is_left(&lab)
}

/// Checks that neither machine holds pages of the other.
fn nothing_is_left(lab: &Lab) -> Result<()> {
    (0..2).try_for_each(|vm| {
        let mut asking = desk(lab, vm)?;
        // A process that has never made an area has not yet asked the peer to settle pages left by
        // an earlier driver.
        settle(&mut asking, 1 - vm)?;
        eventually(|| no_pages_are_held(&mut asking, 1 - vm), "all pages are given back")
    })
}

#[test]
fn loops_in_c_carry_a_stream() -> Result<()> {
    let lab = express_lab();
    let stream = |bytes: &str| -> Result<_> {
        let mut sink = lab.vm(1).run(["c-express", "stream-sink", "bytes"])?;
        ensure!(sink.answer()? == json!({ "listening": true }));
        let mut sends = lab.vm(0).run(["c-express", "stream", "1", "bytes", bytes])?;
        ensure!(
            sends.answer()? == json!({ "express": true }) && sink.answer()? == json!({ "express": true })
        );
        Ok((sink, sends))
    };
    // Far more than the ring can hold, and less than one word.
    for (bytes, count) in [("300007", 300_007), ("5", 5)] {
        let (mut sink, mut sends) = stream(bytes)?;
        let (sent, came) = (sends.finish()?, sink.finish()?);
        ensure!(sent[0]["sent"] == count && sent[0]["confirmed"] == count, "{sent:?}");
        ensure!(came[0]["received"] == count && came[0]["verified"] == true, "{came:?}");
        let sleeps = [&sent[0], &came[0]].map(|said| said["sleeps"].as_u64());
        ensure!(
            count == 5 || sleeps[0] > Some(0) || sleeps[1] > Some(0),
            "neither end has slept: {sleeps:?}"
        );
    }
    // One end dies while the other has more to do. The survivor learns of it from poll(2).
    for dies in 0..2 {
        let (mut sink, mut sends) = stream("40000000")?;
        let (dying, other) = if dies == 0 { (&mut sends, &mut sink) } else { (&mut sink, &mut sends) };
        dying.kill(9)?;
        let said = other.answer()?;
        ensure!(said["error"].is_string() && other.wait()? == Exit::Code(1), "{dies}: {said}");
    }
    nothing_is_left(&lab)
}

#[test]
fn the_tools_measure_by_channels() -> Result<()> {
    let lab = express_lab();
    let start = |tool: &str| -> Result<_> {
        let mut server = lab.vm(1).run([tool, "--json"])?;
        ensure!(server.answer()? == json!({ "listening": tool, "host": 1 }));
        Ok(server)
    };
    let _ping = start("hamlyn-ping")?;
    for size in ["0", "16", "65536"] {
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
    let mut large = lab.vm(0).run(["hamlyn-ping", "--express", "1", "-s", "65537"])?;
    ensure!(large.wait()? == Exit::Code(1) && large.stderr().contains("limit 65536"));
    // The same server also answers by the cards.
    let before = lab.card_counters(0)?["card"]["messages_sent"].as_u64();
    let answer = said(&lab, &["hamlyn-ping", "1", "-c", "100", "-i", "0", "--json"])?;
    let sent = lab.card_counters(0)?["card"]["messages_sent"].as_u64();
    ensure!(
        answer["answered"] == 100 && sent >= before.map(|before| before + 100),
        "{answer}: {before:?} {sent:?}"
    );
    Ok(())
}
