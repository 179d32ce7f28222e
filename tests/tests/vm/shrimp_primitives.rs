//! The message-passing primitives of section 5.2 in real machines, in Rust and in C, and how many
//! instructions they take.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Exit, Lab, Snoop};
use serde_json::json;

use crate::instructions::{Language, TABLE_1, documented, table};
use crate::shrimp::{all_were_seen, lab_with, sees_stores};
use crate::{shared_of, text};

/// Returns the command that sends or receives `messages` messages.
fn command(language: Language, side: &str, primitive: &str, messages: &str) -> Vec<String> {
    let words = match language {
        Language::Rust => vec!["shrimp", "primitives", side, "--primitive", primitive, "--count", messages],
        Language::C => vec!["c-primitives", side, primitive, messages],
    };
    words.into_iter().map(str::to_owned).collect()
}

fn passes(lab: &Lab, primitive: &str, sender: Language, receiver: Language) -> Result<()> {
    let messages = "17";
    let what = || format!("{primitive} from {sender:?} to {receiver:?}");
    let mut takes = lab.vm(0).run(command(receiver, "receive", primitive, messages))?;
    takes.answer().with_context(what)?;
    let mut sends = lab.vm(1).run(command(sender, "send", primitive, messages))?;
    let first = sends.answer().with_context(what)?;
    // The sender reports errors in its first line of output.
    ensure!(first.get("error").is_none(), "{}: {first}; the receiver: {:?}", what(), takes.answer());
    let sent: Vec<_> = [first].into_iter().chain(sends.finish().with_context(what)?).collect();
    let received = takes.finish().with_context(what)?;
    ensure!(sent == [json!({ "primitive": primitive, "sent": 17 })], "{}: {sent:?}", what());
    ensure!(received == [json!({ "primitive": primitive, "verified": 17 })], "{}: {received:?}", what());
    Ok(())
}

fn all_pass(lab: &Lab) -> Result<()> {
    for primitive in &TABLE_1 {
        for sender in [Language::Rust, Language::C] {
            for receiver in [Language::Rust, Language::C] {
                passes(lab, primitive.name, sender, receiver)?;
            }
        }
    }
    Ok(())
}

fn counter(lab: &Lab, card: usize, name: &str) -> Result<u64> {
    lab.card_counters(card)?["card"][name].as_u64().with_context(|| format!("no counter {name}"))
}

#[test]
fn each_primitive_passes_messages_between_both_languages() -> Result<()> {
    let lab = lab_with(2, Snoop::Yes)?;
    let _keepers = [sees_stores(&lab, 0)?, sees_stores(&lab, 1)?];
    all_pass(&lab)?;
    [0, 1].into_iter().try_for_each(|card| all_were_seen(&lab, card))
}

#[test]
fn each_primitive_passes_messages_by_the_window() -> Result<()> {
    let lab = lab_with(2, Snoop::No)?;
    all_pass(&lab)?;
    for card in [0, 1] {
        let [seen, by_window] = ["stores_seen", "stores_to_window"].map(|name| counter(&lab, card, name));
        let (seen, by_window) = (seen?, by_window?);
        ensure!(seen == 0 && by_window > 0, "card {card}: {seen} seen, {by_window} by the window");
    }
    Ok(())
}

/// `cargo run -p hamlyn-tests --example instructions` regenerates the page's table.
#[test]
fn card_page_says_what_primitives_take() -> Result<()> {
    let lab = shared_of("shrimp")?;
    let (counted, documented) = (table(&lab)?, documented()?);
    ensure!(counted == documented, "counted:\n{counted}in docs/shrimp.md:\n{documented}");
    Ok(())
}

#[test]
fn invalid_data_from_the_peer_is_reported() -> Result<()> {
    let lab = shared_of("shrimp")?;
    for (primitive, nonsense, told) in [
        ("single", "70000", "nbytes 70000 is out of range (limit 36800)"),
        ("copy", "4294967294", "nbytes 4294967294 is out of range (limit 36800)"),
        ("nx", "5", "tells of no message"),
    ] {
        let receive = command(Language::Rust, "receive", primitive, "3");
        let mut receiver = lab.vm(0).run(receive)?;
        receiver.answer()?;
        let send = command(Language::Rust, "send", primitive, "3");
        let mut sender = lab.vm(1).run([send, vec!["--nonsense".into(), nonsense.into()]].concat())?;
        let error = text(&receiver.answer()?, "error");
        ensure!(error.contains(told), "{primitive}: {error}");
        ensure!(receiver.wait()? == Exit::Code(1), "{primitive}");
        sender.wait()?;
        passes(&lab, primitive, Language::Rust, Language::Rust)?;
    }
    Ok(())
}

#[test]
fn receive_fails_when_the_sender_is_killed() -> Result<()> {
    let lab = shared_of("shrimp")?;
    for primitive in ["single", "double3", "nx"] {
        let before = counter(&lab, 0, "packets_deposited")?;
        let mut receiver = lab.vm(0).run(command(Language::Rust, "receive", primitive, "5"))?;
        receiver.answer()?;
        // The sender has fewer messages than the receiver expects, and then waits for it.
        let mut sender = lab.vm(1).run(command(Language::Rust, "send", primitive, "2"))?;
        let sent = || Ok(counter(&lab, 0, "packets_deposited")? > before + 100);
        crate::eventually(sent, "messages arrive")?;
        sender.kill(9)?;
        sender.wait()?;
        let error = text(&receiver.answer()?, "error");
        ensure!(error.contains("taken back"), "{primitive}: {error}");
        ensure!(receiver.wait()? == Exit::Code(1), "{primitive}");
    }
    Ok(())
}
