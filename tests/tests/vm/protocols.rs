//! The protocols of the library's upper layer (section 3.3): datagrams and streams.

use anyhow::{Context, Result};
use hamlyn_lab::{Lab, Run};
use serde_json::Value;

use crate::{lab, shared, shared_reordering, text};

/// Sends a stream from one machine to the other. Returns the receiver's result.
fn stream(lab: &Lab, (from, to): (usize, usize), receive: &[&str], send: &[&str]) -> Result<Value> {
    let mut receiver = lab.vm(to).run([&["stream"][..], receive].concat())?;
    let seed = text(&receiver.answer()?, "seed");
    lab.vm(from).run([&["stream", "send", "--seed", &seed][..], send].concat())?.finish()?;
    receiver.finish()?.pop().context("a result")
}

/// Runs streams of all kinds, in both directions, and one from a machine to itself.
fn streams(lab: &Lab) -> Result<()> {
    let coalesced = stream(lab, (0, 1), &["receive"], &["--bytes", "2000000", "--size", "1000"])?;
    assert_eq!((&coalesced["received"], &coalesced["verified"]), (&2_000_000.into(), &true.into()));
    // Exactly 16,384 bytes in each record but the last, so writes were coalesced.
    assert_eq!(coalesced["records"], 2_000_000_u32.div_ceil(16 * 1024));
    // Long buffers are sent as they are, without coalescing. The receiver sleeps most of the time,
    // and the sender waits for it.
    let slow = ["receive", "--record-size", "65536", "--records", "3", "--pause", "20"];
    let result = stream(lab, (1, 0), &slow, &["--bytes", "3000001", "--size", "1000000", "--buffer"])?;
    assert_eq!((&result["received"], &result["verified"]), (&3_000_001.into(), &true.into()));
    // The receiver holds on to records, so more buffers are created.
    let hold = ["receive", "--record-size", "100", "--records", "2", "--hold", "100"];
    let result = stream(lab, (0, 1), &hold, &["--bytes", "50000", "--size", "99", "--flush"])?;
    assert_eq!(result["verified"], true);
    let result = stream(lab, (1, 1), &["read"], &["--bytes", "100000", "--size", "7"])?;
    assert_eq!((&result["received"], &result["verified"]), (&100_000.into(), &true.into()));
    Ok(())
}

/// Two clients query a server, which waits for both at once.
fn datagrams(lab: &Lab, server: usize, client: usize) -> Result<()> {
    let mut serve = lab.vm(server).run(["datagram", "serve", "--clients", "2", "--count", "230"])?;
    let answer = serve.answer()?;
    let tickets = answer["tickets"].as_array().context("no tickets")?;
    let mut clients = Vec::new();
    for (ticket, (count, size)) in tickets.iter().zip([("200", "100"), ("30", "65536")]) {
        let ticket = ticket.as_str().context("a ticket is text")?;
        let ask = ["datagram", "ask", "--ticket", ticket, "--count", count, "--size", size];
        clients.push(lab.vm(client).run(ask)?);
    }
    for mut client in clients {
        assert_eq!(client.finish()?.last().context("a result")?["verified"], true);
    }
    assert_eq!(serve.finish()?.last().context("a result")?["answered"], 230);
    Ok(())
}

#[test]
fn streams_and_datagrams_between_two_machines() -> Result<()> {
    let lab = shared();
    streams(&lab)?;
    datagrams(&lab, 0, 1)?;
    for card in 0..2 {
        // A receiver may return tickets to a sender that has already closed. The card refuses them.
        let counters = lab.card_counters(card)?;
        let late =
            ["refused_closed_slot", "refused_paranoid_key"].map(|name| counters["card"][name].as_u64());
        let late: u64 = late.iter().flatten().sum();
        assert_eq!(lab.refused(card)?, late, "card {card}: {counters}");
    }
    Ok(())
}

#[test]
fn streams_arrive_in_order_through_a_reordering_switch() -> Result<()> {
    let lab = shared_reordering();
    streams(&lab)?;
    datagrams(&lab, 1, 0)
}

#[test]
fn unclosed_stream_reports_a_lost_peer() -> Result<()> {
    let lab = shared();
    let mut receiver = lab.vm(1).run(["stream", "receive"])?;
    let seed = text(&receiver.answer()?, "seed");
    let send = ["stream", "send", "--seed", &seed, "--bytes", "100000", "--abandon"];
    lab.vm(0).run(send)?.finish()?;
    let result = receiver.answer()?;
    assert_eq!(result["received"], 100_000);
    assert_eq!(result["lost"], "the peer is lost: it dropped its end without closing it");
    // The sender, which waits for the receiver, learns that it has ended.
    let mut receiver = lab.vm(1).run(["stream", "receive", "--pause", "10000"])?;
    let seed = text(&receiver.answer()?, "seed");
    let send = ["stream", "send", "--seed", &seed, "--bytes", "10000000", "--timeout", "2"];
    let mut sender = lab.vm(0).run(send)?;
    receiver.kill(9)?;
    receiver.wait()?;
    // The receiver was killed and sent no notice. Without a connection, only the time-out detects
    // that.
    assert!(text(&sender.answer()?, "error").starts_with("no room in the stream within"));
    sender.wait()?;
    Ok(())
}

/// Starts a server for `clients` clients. Returns when it is ready.
fn echo_server(lab: &Lab, vm: usize, clients: &str, more: &[&str]) -> Result<Run> {
    let serve = ["echo-server", "serve", "--clients", clients];
    let mut server = lab.vm(vm).run([&serve[..], more].concat())?;
    assert_eq!(server.answer()?["listening"], "echo");
    Ok(server)
}

#[test]
fn one_thread_serves_streams_and_detects_dead_peers() -> Result<()> {
    let lab = shared();
    for sleeps in [&[][..], &["--tokio"]] {
        streams_by_name(&lab, sleeps)?;
    }
    Ok(())
}

fn call(lab: &Lab, vm: usize, bytes: &str) -> Result<Run> {
    lab.vm(vm).run(["echo-server", "call", "--host", "1", "--bytes", bytes])
}

fn streams_by_name(lab: &Lab, sleeps: &[&str]) -> Result<()> {
    let mut server = echo_server(lab, 1, "4", sleeps)?;
    // Two at once, one of them in the server's own machine.
    for mut client in [call(lab, 0, "1000000")?, call(lab, 1, "300000")?] {
        let result = client.finish()?.pop().context("a result")?;
        assert_eq!(result["verified"], true, "{result}");
    }
    for _ in 0..2 {
        assert_eq!(server.answer()?.get("lost"), None);
    }
    // A client that is killed while it sends. The server continues with the next.
    let mut victim = call(lab, 0, "2000000000")?;
    victim.answer()?;
    call(lab, 0, "1000")?.finish()?;
    assert_eq!(server.answer()?, serde_json::json!({ "echoed": 1000 }));
    victim.kill(9)?;
    victim.wait()?;
    assert_eq!(server.answer()?["lost"], "its process ended");
    server.finish()?;
    // A server that is killed.
    let mut server = echo_server(lab, 1, "1", sleeps)?;
    let mut client = call(lab, 0, "2000000000")?;
    client.answer()?;
    server.kill(9)?;
    server.wait()?;
    assert_eq!(client.answer()?["lost"], "the peer is lost: its process ended");
    client.wait()?;
    Ok(())
}

#[test]
fn link_loss_reaches_both_ends_of_a_stream() -> Result<()> {
    let lab = lab(2);
    let mut server = echo_server(&lab, 1, "1", &[])?;
    let mut client = call(&lab, 0, "2000000000")?;
    client.answer()?;
    lab.kill_switch();
    assert_eq!(client.answer()?["lost"], "the peer is lost: the link is lost");
    assert_eq!(server.answer()?["lost"], "the link is lost");
    server.finish()?;
    Ok(())
}
