//! CLAN cards from C in real machines: every call, and each program with C at either end and at
//! both.

use anyhow::{Result, ensure};
use hamlyn_lab::Lab;
use serde_json::{Value, json};

use crate::clan::{aperture, desk, endpoint};
use crate::shared_of;

/// Starts the listener in the second machine and the other program in the first. Returns the output
/// of both.
fn both(lab: &Lab, listener: &[&str], other: &[&str]) -> Result<(Vec<Value>, Vec<Value>)> {
    let mut run = lab.vm(1).run(listener.iter().copied())?;
    let line = run.answer()?;
    ensure!(line == json!({ "listening": 1500, "host": 1 }), "{line}");
    let said = lab.vm(0).run(other.iter().copied())?.finish()?;
    Ok((run.finish()?, said))
}

/// Returns the listener's and the other program's command lines for C with C, C with Rust, and Rust
/// with C.
fn pairs<'a>(listener: &'a str, other: &'a str) -> [(Vec<&'a str>, Vec<&'a str>); 3] {
    let [c, rust] = ["c-clan-programs", "clan"].map(|program| {
        [listener, other].map(|side| [&[program], &*side.split(' ').collect::<Vec<_>>()].concat())
    });
    let [[c_listener, c_other], [rust_listener, rust_other]] = [c, rust];
    [(c_listener.clone(), c_other.clone()), (c_listener, rust_other), (rust_listener, c_other)]
}

#[test]
fn each_call_returns_the_expected_result() -> Result<()> {
    let lab = shared_of("clan")?;
    let checked = lab.vm(0).run(["c-clan-check"])?.finish()?;
    ensure!(checked.len() == 1 && checked[0]["wrong"] == 0, "{checked:?}");
    Ok(())
}

#[test]
fn windows_dma_and_tripwires_work_from_c() -> Result<()> {
    let lab = shared_of("clan")?;
    for bytes in ["20000", "1"] {
        let (received, sent) = both(&lab, &["c-clan", "receive"], &["c-clan", "send", bytes])?;
        let count: u64 = bytes.parse()?;
        ensure!(received.contains(&json!({ "message": "hello from C" })), "{received:?}");
        ensure!(received.contains(&json!({ "received": count, "verified": true })), "{received:?}");
        let told = sent[0]["answer"].as_str().unwrap_or_default().trim_end_matches('\0');
        ensure!(sent[0]["sent"] == count && sent[0]["loaded"] == true && told == "thank you", "{sent:?}");
        ensure!(sent[0]["vector"] == true, "a load of 16 bytes: {sent:?}");
    }
    Ok(())
}

#[test]
fn messages_are_transferred_between_c_and_rust() -> Result<()> {
    let lab = shared_of("clan")?;
    for (receiver, sender) in pairs("hello receive", "hello send") {
        let (received, sent) = both(&lab, &receiver, &sender)?;
        let text = if sender[0] == "clan" { "hello from host 0" } else { "hello from C" };
        ensure!(received[0] == json!({ "from": 0, "message": text }), "{received:?}");
        ensure!(received[1] == json!({ "received": 20_000, "verified": true }), "{received:?}");
        ensure!(sent[0] == json!({ "sent": 20_000, "loaded": true, "answer": "thank you" }), "{sent:?}");
    }
    Ok(())
}

#[test]
fn calls_are_answered_between_c_and_rust() -> Result<()> {
    let lab = shared_of("clan")?;
    for (server, client) in pairs("rpc serve", "rpc call") {
        let (answered, called) = both(&lab, &server, &client)?;
        ensure!(answered[0]["answered"] == 1000 && called[0]["calls"] == 1000, "{answered:?} {called:?}");
    }
    Ok(())
}

#[test]
fn queue_keeps_its_order_between_c_and_rust() -> Result<()> {
    let lab = shared_of("clan")?;
    let by_dma = (
        vec!["clan", "queue", "consume", "--count", "500"],
        vec!["c-clan-programs", "queue", "produce-dma", "500"],
    );
    for (consumer, producer) in pairs("queue consume", "queue produce").into_iter().chain([by_dma]) {
        let (taken, produced) = both(&lab, &consumer, &producer)?;
        ensure!(taken[0]["in_order"] == true && taken[0]["taken"] == produced[0]["produced"], "{taken:?}");
    }
    Ok(())
}

#[test]
fn c_programs_exchange_streams_and_headed_messages() -> Result<()> {
    let lab = shared_of("clan")?;
    let program = "c-clan-programs";
    let (read, written) = both(&lab, &[program, "stream", "read"], &[program, "stream", "write"])?;
    ensure!(read[0]["read"] == 100_000 && read[0]["verified"] == true, "{read:?}");
    ensure!(written[0]["written"] == 100_000, "{written:?}");
    let (received, sent) = both(&lab, &[program, "headed", "receive"], &[program, "headed", "send"])?;
    ensure!(received[0]["received"] == 200 && received[0]["verified"] == true, "{received:?}");
    ensure!(sent[0]["sent"] == 200, "{sent:?}");
    Ok(())
}

#[test]
fn c_server_serves_many_clients_and_reuses_endpoints() -> Result<()> {
    let lab = shared_of("clan")?;
    let mut server = lab.vm(1).run(["c-clan-server", "serve", "7"])?;
    server.answer()?;
    for _ in 0..2 {
        let ask = ["clan", "server", "ask", "--connections", "3", "--count", "300"];
        let asked = lab.vm(0).run(ask)?.finish()?;
        ensure!(asked[0]["requests"] == 300, "{asked:?}");
    }
    // The server refuses descriptors that it cannot map, and serves the next client.
    let mut stranger = desk(&lab, 0)?;
    let (own, _) = endpoint(&mut stranger, "endpoint 0")?;
    let (_, large) = aperture(&mut stranger, 8 << 20, "write")?;
    for told in ["garbage", &large] {
        stranger.fails(&format!("connect {own} 1:1500 {told}"), "its memory cannot be mapped")?;
    }
    let asked = lab.vm(0).run(["c-clan-server", "ask", "200"])?.finish()?;
    ensure!(asked[0]["requests"] == 200, "{asked:?}");
    let served = server.finish()?;
    ensure!(served[0]["served"] == 800 && served[0]["clients"] == 7, "{served:?}");
    ensure!(served[0]["endpoints_used_again"].as_u64().is_some_and(|count| count > 0), "{served:?}");
    // A server in Rust with a client in C.
    let server = ["clan", "server", "serve", "--clients", "1", "--sleep", "tokio"];
    let (served, asked) = both(&lab, &server, &["c-clan-server", "ask", "200"])?;
    ensure!(served[0]["served"] == 200 && asked[0]["requests"] == 200, "{served:?} {asked:?}");
    Ok(())
}
