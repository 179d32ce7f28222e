//! The library's programs on CLAN cards in real machines: the paper's programs between two
//! machines, and what happens when one ends.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Run};
use serde_json::Value;

use crate::{eventually, shared_of};

/// Starts a listener in the second machine.
fn listener(lab: &Lab, arguments: &[&str]) -> Result<Run> {
    let mut run = lab.vm(1).run(["clan"].iter().chain(arguments).copied())?;
    let line = run.answer()?;
    ensure!(line["listening"] == 1500 && line["host"] == 1, "{line}");
    Ok(run)
}

/// Runs a program in the first machine. Returns its output.
fn said(lab: &Lab, arguments: &[&str]) -> Result<Vec<Value>> {
    lab.vm(0).run(["clan"].iter().chain(arguments).copied())?.finish()
}

fn number(answer: &Value, field: &str) -> Result<u64> {
    answer[field].as_u64().with_context(|| format!("no number {field} in {answer}"))
}

/// Returns the number of packets that have arrived at the listener's card.
fn arrived(lab: &Lab) -> Result<u64> {
    number(&lab.card_counters(1)?["card"], "packets_arrived")
}

#[test]
fn memory_is_transferred_by_stores_dma_and_loads() -> Result<()> {
    let lab = shared_of("clan")?;
    let mut receiver = listener(&lab, &["hello", "receive"])?;
    let sent = said(&lab, &["hello", "send"])?;
    ensure!(sent[0]["loaded"] == true && sent[0]["answer"] == "thank you", "{sent:?}");
    let received = receiver.finish()?;
    ensure!(received[0]["from"] == 0 && received[0]["message"] == "hello from host 0", "{received:?}");
    ensure!(received[1]["received"] == 20_000 && received[1]["verified"] == true, "{received:?}");
    // The port is free again.
    let mut receiver = listener(&lab, &["hello", "receive", "--bytes", "1"])?;
    said(&lab, &["hello", "send", "--bytes", "1", "--host", "1"])?;
    receiver.finish()?;
    Ok(())
}

#[test]
fn a_distributed_queue_keeps_its_order() -> Result<()> {
    let lab = shared_of("clan")?;
    for produce in [&["queue", "produce"][..], &["queue", "produce", "--dma", "--count", "500"]] {
        let count = if produce.len() > 2 { "500" } else { "2000" };
        let mut consumer = listener(&lab, &["queue", "consume", "--count", count])?;
        let produced = said(&lab, produce)?;
        let taken = consumer.finish()?;
        ensure!(taken[0]["in_order"] == true && taken[0]["taken"] == produced[0]["produced"], "{taken:?}");
    }
    Ok(())
}

#[test]
fn calls_are_answered_with_polling_and_with_sleeping() -> Result<()> {
    let lab = shared_of("clan")?;
    for polling in ["0", "15", "2000"] {
        let mut server = listener(&lab, &["rpc", "serve", "--polling", polling])?;
        let called = said(&lab, &["rpc", "call", "--count", "300", "--polling", polling])?;
        ensure!(number(&called[0], "calls")? == 300, "{called:?}");
        ensure!(server.finish()?[0]["answered"] == 300, "each once");
    }
    Ok(())
}

#[test]
fn server_serves_many_connections_and_reuses_endpoints() -> Result<()> {
    let lab = shared_of("clan")?;
    for sleep in ["poll", "mio", "tokio"] {
        let mut server = listener(&lab, &["server", "serve", "--clients", "12", "--sleep", sleep])?;
        for _ in 0..2 {
            let asked = said(&lab, &["server", "ask", "--connections", "5", "--count", "400"])?;
            ensure!(number(&asked[0], "requests")? == 400, "{asked:?}");
        }
        // A client that sleeps between two requests, so that the server sleeps, too.
        let some = ["--connections", "2", "--used", "1", "--warm-up", "--count", "39", "--gap", "5000"];
        said(&lab, &[&["server", "ask"], &some[..]].concat())?;
        let served = server.finish()?;
        ensure!(served[0]["served"] == 840 && served[0]["dropped"] == 0, "{served:?}");
        ensure!(number(&served[0], "endpoints_used_again")? >= 5, "{served:?}");
        ensure!(number(&served[0], "sleeps")? > 0, "{served:?}");
    }
    Ok(())
}

#[test]
fn server_refuses_too_many_clients_per_host() -> Result<()> {
    let lab = shared_of("clan")?;
    let mut server = listener(&lab, &["server", "serve", "--clients", "3", "--of-host", "2"])?;
    let mut asks = lab.vm(0).run(["clan", "server", "ask", "--connections", "3", "--count", "9"])?;
    let refused = asks.finish().unwrap_err().to_string();
    ensure!(refused.contains("rejected") && refused.contains("too many"), "{refused}");
    // A client of the other host is accepted.
    let other = ["clan", "server", "ask", "--connections", "1", "--count", "9"];
    lab.vm(1).run(other)?.finish()?;
    let served = server.finish()?;
    ensure!(served[0]["clients"] == 3 && served[0]["served"] == 9, "{served:?}");
    Ok(())
}

#[test]
fn server_survives_clients_and_clients_detect_lost_server() -> Result<()> {
    let lab = shared_of("clan")?;
    let mut server = listener(&lab, &["server", "serve", "--clients", "4"])?;
    let before = arrived(&lab)?;
    let mut killed = lab.vm(0).run(["clan", "server", "ask", "--connections", "3", "--count", "1000000"])?;
    // The client has all its connections. It continues to be served while another client is.
    eventually(|| Ok(arrived(&lab)? > before + 1000), "it is served")?;
    said(&lab, &["server", "ask", "--connections", "1", "--count", "10"])?;
    killed.kill(9)?;
    killed.wait()?;
    let served = server.finish()?;
    ensure!(served[0]["clients"] == 4, "each end is heard of: {served:?}");

    let mut server = listener(&lab, &["rpc", "serve"])?;
    let before = arrived(&lab)?;
    let mut client = lab.vm(0).run(["clan", "rpc", "call", "--count", "1000000000"])?;
    eventually(|| Ok(arrived(&lab)? > before + 1000), "its calls are answered")?;
    server.kill(9)?;
    server.wait()?;
    client.wait()?;
    let errors = client.stderr();
    ensure!(errors.contains("the peer is lost") || errors.contains("its host refused"), "{errors}");
    Ok(())
}

#[test]
fn card_latencies_are_measured() -> Result<()> {
    let lab = shared_of("clan")?;
    let mut server = listener(&lab, &["measure", "serve", "--count", "100", "--bytes", "65536"])?;
    let told = said(&lab, &["measure", "ask", "--count", "100", "--bytes", "65536", "--transfers", "4"])?;
    for field in ["spinning_p50_ns", "asleep_p50_ns", "load_p50_ns", "endpoint_opened_ns"] {
        ensure!(number(&told[0], field)? > 0, "{told:?}");
    }
    ensure!(told[0]["sent"] == 4 * 65536, "{told:?}");
    server.finish()?;
    Ok(())
}
