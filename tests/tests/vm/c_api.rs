//! The C library in machines: C to C, C to Rust and Rust to C.

use anyhow::{Context, Result};
use hamlyn_host::catalogue;
use hamlyn_lab::{Exit, Lab, Snoop};
use serde_json::json;

use crate::shrimp::{all_were_seen, sees_stores};
use crate::{lab_of, shared, shared_reordering, text};

#[test]
fn c_programs_connect_by_name_with_every_protocol() -> Result<()> {
    let lab = shared();
    // Each protocol, with a payload that fits into a request and with one that does not.
    for (protocol, bytes) in [
        ("tagged", "100"),
        ("tagged", "4000"),
        ("datagram", "100"),
        ("datagram", "300001"),
        ("stream", "1"),
        ("stream", "3000001"),
    ] {
        let mut receiver = lab.vm(1).run(["c-protocols", protocol, "listen", bytes])?;
        receiver.answer().with_context(|| protocol.to_owned())?;
        let host = host(&lab, 1)?;
        let sent = lab.vm(0).run(["c-protocols", protocol, "connect", &host, bytes])?.finish()?;
        assert_eq!(sent[0]["sent"].to_string(), bytes, "{protocol}");
        let received = receiver.finish()?;
        assert_eq!(received[0]["received"].to_string(), bytes, "{protocol}");
        // A datagram's sender verifies the answer.
        assert_eq!(received[0]["verified"] == true, protocol != "datagram", "{protocol}");
        assert_eq!(received[1]["closed"], true, "{protocol}");
    }
    for card in 0..2 {
        // A stream's receiver may return tickets to a sender that has already closed. The card
        // refuses them.
        let counters = lab.card_counters(card)?["card"].clone();
        // The slot number may have been reused with another key by then. An operating system also
        // resends a message that the peer did not read in time.
        let late: u64 = ["refused_closed_slot", "refused_paranoid_key", "refused_one_shot"]
            .iter()
            .filter_map(|name| counters[name].as_u64())
            .sum();
        assert_eq!(lab.refused(card)?, late, "card {card}: {counters}");
    }
    Ok(())
}

/// Returns a machine's host id.
fn host(lab: &Lab, vm: usize) -> Result<String> {
    Ok(lab.vm(vm).run(["hamlyn-info", "--json"])?.answer()?["host"].to_string())
}

#[test]
fn c_and_rust_interoperate_on_a_reordering_fabric() -> Result<()> {
    let lab = shared_reordering();
    let bytes = "1000003";

    let mut receiver = lab.vm(1).run(["stream", "receive"])?;
    let seed = text(&receiver.answer()?, "seed");
    lab.vm(0).run(["c-protocols", "stream", "send", &seed, bytes])?.finish()?;
    let received = receiver.finish()?;
    assert_eq!(
        (received[0]["received"].to_string().as_str(), &received[0]["verified"]),
        (bytes, &true.into())
    );

    let mut receiver = lab.vm(0).run(["c-protocols", "stream", "receive"])?;
    let seed = text(&receiver.answer()?, "seed");
    lab.vm(1).run(["stream", "send", "--seed", &seed, "--bytes", bytes])?.finish()?;
    let received = receiver.finish()?;
    assert_eq!(
        (received[0]["received"].to_string().as_str(), &received[0]["verified"]),
        (bytes, &true.into())
    );

    let mut server = lab.vm(1).run(["datagram", "serve", "--count", "1"])?;
    let ticket = server.answer()?["tickets"][0].as_str().context("no ticket")?.to_owned();
    lab.vm(0).run(["c-protocols", "datagram", "send", &ticket, "50000"])?.finish()?;
    assert_eq!(server.finish()?[0]["answered"], 1);

    let mut server = lab.vm(0).run(["c-protocols", "datagram", "receive", "50000"])?;
    let ticket = text(&server.answer()?, "ticket");
    let ask = ["datagram", "ask", "--ticket", &ticket, "--count", "1", "--size", "50000"];
    assert_eq!(lab.vm(1).run(ask)?.finish()?[0]["verified"], true);
    assert_eq!(server.finish()?[0]["received"], 50000);

    let mut receiver = lab.vm(0).run(["c-protocols", "tagged", "receive", "448"])?;
    let ticket = text(&receiver.answer()?, "ticket");
    lab.vm(1).run(["c-protocols", "tagged", "send", &ticket, "448"])?.finish()?;
    assert_eq!(receiver.finish()?[0]["verified"], true);
    Ok(())
}

#[test]
fn a_server_in_c_outlives_its_clients() -> Result<()> {
    let lab = shared();
    let mut server = lab.vm(1).run(["c-echo", "serve", "echo"])?;
    server.answer()?;
    let host = host(&lab, 1)?;
    for text in ["good morning", "good night"] {
        let said = lab.vm(0).run(["c-echo", &host, "echo", text])?.finish_text()?;
        assert_eq!(said, [text]);
        assert_eq!(server.answer_text("ended")?, "well");
    }
    let mut absent = lab.vm(0).run(["c-echo", &host, "absent", "hello"])?;
    assert_eq!(absent.wait()?, Exit::Code(1));
    assert!(absent.stderr().contains("no listener has that name"), "{}", absent.stderr());
    Ok(())
}

#[test]
fn each_call_returns_the_expected_result() -> Result<()> {
    let lab = shared();
    let checked = lab.vm(0).run(["c-check"])?.finish()?;
    assert!(checked.len() == 1 && checked[0]["wrong"] == 0, "{checked:?}");
    Ok(())
}

#[test]
fn program_built_for_driver_2_0_still_runs() -> Result<()> {
    let lab = shared();
    let said = lab.vm(0).run(["c-version-2"])?.finish_text()?;
    assert!(said.len() == 1 && said[0].starts_with("as built for 2.0, with 2."), "{said:?}");
    Ok(())
}

#[test]
fn shrimp_stores_arrive_between_c_and_rust() -> Result<()> {
    for snoop in [Snoop::Yes, Snoop::No] {
        let lab = lab_of(Lab::builder().models(&[catalogue::find("shrimp")?]).vms(2).snoop(snoop));
        let keepers =
            if snoop == Snoop::Yes { vec![sees_stores(&lab, 0)?, sees_stores(&lab, 1)?] } else { vec![] };
        let checked = lab.vm(0).run(["c-shrimp-check"])?.finish()?;
        assert!(checked.len() == 1 && checked[0]["wrong"] == 0, "{checked:?}");
        let rust = &["shrimp", "hello"][..];
        for (receiver, sender) in
            [(&["c-shrimp"][..], &["c-shrimp"][..]), (&["c-shrimp"], rust), (rust, &["c-shrimp"])]
        {
            let mut received = lab.vm(1).run([receiver, &["receive"]].concat())?;
            received.answer()?;
            let sent = lab.vm(0).run([sender, &["send"]].concat())?.finish()?;
            let received = received.finish()?;
            let text = if sender == rust { "hello from host 0" } else { "hello from C" };
            assert_eq!(received[0]["message"], text, "{received:?}");
            assert_eq!(received[1], json!({ "received": 20_000, "verified": true }));
            assert_eq!(sent[0]["sent"], 20_000, "{sent:?}");
            let answer = sent.get(1).map(|line| line["answer"].clone());
            let both = sender != rust && receiver != rust;
            assert_eq!(answer, both.then(|| "hello yourself".into()), "{sent:?}");
        }
        (0..keepers.len()).try_for_each(|card| all_were_seen(&lab, card))?;
    }
    Ok(())
}
