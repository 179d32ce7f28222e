//! Express memory between machines (`docs/express.md`): channels of every kind, the fallback
//! without express memory, and no leftovers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Builder, Exit, Lab, Run};
use serde_json::{Value, json};

use crate::desk::Desk;
use crate::left::log_has_none;
use crate::program::Program;
use crate::{eventually, if_long, lab_of};

/// Returns a lab whose machines share memory, pair by pair.
pub(crate) fn express(vms: usize) -> Builder {
    express_as("shared", vms)
}

/// Returns the same lab, as `shared` or as `isolated`.
pub(crate) fn express_as(form: &str, vms: usize) -> Builder {
    Lab::builder().vms(vms).switch_args(["--express", form, "--ports", "4"])
}

/// Starts the example that operates pages and channels by commands.
pub(crate) fn desk(lab: &Lab, vm: usize) -> Result<Desk<Run>> {
    Ok(Desk(lab.vm(vm).run(["express-desk"])?))
}

/// Opens a channel of this name between two processes. Returns its number at each of them, and
/// whether it uses express memory.
pub(crate) fn channel(
    server: (&mut Desk<Run>, usize),
    client: &mut Desk<Run>,
    name: &str,
) -> Result<([u64; 2], bool)> {
    let (server, host) = server;
    server.expect(&format!("listen {name}"), &json!({ "listening": name }))?;
    server.begin("accept")?;
    client.begin(&format!("connect {host} {name}"))?;
    let (made, accepted) = (client.answer()?, server.answer()?);
    ensure!(made["express"] == accepted["express"], "{made}, {accepted}");
    let number = |answer: &Value| answer["channel"].as_u64().with_context(|| format!("no channel: {answer}"));
    Ok(([number(&accepted)?, number(&made)?], made["express"] == true))
}

/// Returns the state of express memory with a host, without the user's limit.
pub(crate) fn memory(desk: &mut Desk<Run>, host: usize) -> Result<BTreeMap<String, u64>> {
    let mut found = desk.ask(&format!("memory {host}"))?;
    found.as_object_mut().and_then(|all| all.remove("limit"));
    serde_json::from_value(found.clone()).with_context(|| format!("not what there is: {found}"))
}

/// Returns whether all of the host's half is unused, as if no process had ever had any. `pages` is
/// the whole half.
pub(crate) fn no_pages_are_held(desk: &mut Desk<Run>, host: usize) -> Result<bool> {
    let found = memory(desk, host)?;
    Ok(["used", "leaving", "viewed", "held"].iter().all(|count| found[*count] == 0))
}

/// Checks that the kernel log has no complaints, and that the card goes on.
pub(crate) fn log_is_clean(lab: &Lab, vm: usize) -> Result<()> {
    log_has_none(lab, vm, &["is stopped"])
}

/// Runs one side of the example in machine 1 and the other in machine 0. Returns the last output of
/// both. `how` is for both.
fn both(lab: &Lab, how: &[&str], server: &str, client: &[&str]) -> Result<[Vec<Value>; 2]> {
    let mut serving = lab.vm(1).run([&["express"], how, &[server]].concat())?;
    ensure!(serving.answer()? == json!({ "listening": "express" }));
    let said = lab.vm(0).run([&["express"], how, client].concat())?.finish()?;
    Ok([serving.finish()?, said])
}

/// Runs `count` round trips with messages of every length up to the longest, and checks whether the
/// channel uses express memory.
pub(crate) fn ping_pong(lab: &Lab, how: &[&str], count: u32, by_memory: bool) -> Result<()> {
    let [served, said] = both(lab, how, "serve", &["ping-pong", "1", "--count", &count.to_string()])?;
    ensure!(said[0]["express"] == by_memory && served[0]["express"] == by_memory, "{said:?}, {served:?}");
    ensure!(said[1]["round_trips"] == count && served[1]["echoed"] == count, "{said:?}, {served:?}");
    Ok(())
}

/// Returns a counter of a card.
fn counted(lab: &Lab, card: usize, name: &str) -> Result<u64> {
    let counters = lab.card_counters(card)?;
    counters["card"][name].as_u64().with_context(|| format!("no {name} in {counters}"))
}

#[test]
fn channels_between_two_machines() -> Result<()> {
    let lab = lab_of(express(2));
    every_kind_of_channel(&lab)?;
    idle_channel_costs_nothing(&lab).context("idle")?;
    nothing_is_left_of_many(&lab).context("many")?;
    (0..2).try_for_each(|vm| log_is_clean(&lab, vm))
}

/// Sends to a process that certainly sleeps, from each machine in turn. Each message must ring the
/// card of its receiver, which nothing else would wake for a second.
fn sleepers_are_rung(lab: &Lab) -> Result<()> {
    const ROUNDS: u64 = 10;
    let (mut server, mut client) = (desk(lab, 1)?, desk(lab, 0)?);
    let ([accepted, made], by_memory) = channel((&mut server, 1), &mut client, "asleep")?;
    ensure!(by_memory);
    let mut rings = [0; 2];
    let mut send = |from: (&mut Desk<Run>, u64), to: (&mut Desk<Run>, u64, usize)| {
        let (receiver, at, vm) = to;
        receiver.begin(&format!("receive {at}"))?;
        eventually(|| sleeps_in_poll(lab, vm), "the receiver sleeps")?;
        let before = counted(lab, vm, "messages_received")?;
        from.0.expect(&format!("send {} 100", from.1), &json!({ "sent": 100 }))?;
        ensure!(receiver.answer()? == json!({ "bytes": 100, "right": true }));
        rings[vm] += counted(lab, vm, "messages_received")? - before;
        Ok(())
    };
    for _ in 0..ROUNDS {
        send((&mut client, made), (&mut server, accepted, 1))?;
        send((&mut server, accepted), (&mut client, made, 0))?;
    }
    // A receiver that looks whether its peer's host lives, once a second, may find a message
    // itself.
    let most_rang = rings.iter().all(|rings| *rings >= ROUNDS - 2);
    ensure!(most_rang, "the cards were rung {rings:?} times for {ROUNDS} messages to sleepers");
    Ok(())
}

/// Returns whether a machine's `express-desk` program waits for files in the kernel.
fn sleeps_in_poll(lab: &Lab, vm: usize) -> Result<bool> {
    let place = "cat /proc/$(pidof express-desk)/wchan";
    Ok(lab.vm(vm).run_as(0, ["sh", "-c", place])?.finish_text()?.iter().any(|line| line.contains("poll")))
}

fn every_kind_of_channel(lab: &Lab) -> Result<()> {
    ping_pong(lab, &[], 400, true).context("looking")?;
    sleepers_are_rung(lab).context("asleep")?;
    ping_pong(lab, &["--poll", "0"], 200, true).context("asleep at once")?;
    // The shortest rings, so that each message waits for its turn, and longer messages go in
    // pieces.
    ping_pong(lab, &["--capacity", "4096"], 200, true).context("a page")?;
    ping_pong(lab, &["--by-card"], 100, false).context("by card")?;
    for how in [&[][..], &["--poll", "0", "--capacity", "4096"], &["--by-card"]] {
        let [read, written] = both(lab, how, "read", &["write", "1", "--bytes", "300007"])?;
        ensure!(read[1] == json!({ "received": 300_007, "verified": true }), "{how:?}: {read:?}");
        ensure!(written[1]["sent"] == 300_007, "{how:?}: {written:?}");
    }
    let [answered, asked] = both(lab, &[], "answer", &["ask", "1", "1", "20", "300"])?;
    ensure!(answered[1] == json!({ "answered": 1 }) && asked[1] == json!({ "sum": 321 }), "{asked:?}");
    chat(lab).context("chat")?;
    only_one_of_the_two_wants_it(lab)
}

/// Both ends send at the same time, and each closes by itself.
fn chat(lab: &Lab) -> Result<()> {
    let mut called = lab.vm(1).run(["express", "chat"])?;
    called.answer()?;
    let mut caller = lab.vm(0).run(["express", "chat", "1"])?;
    ensure!(caller.answer()?["express"] == true && called.answer()?["express"] == true);
    for line in ["hello", "", "a longer line than the one before"] {
        called.say(line)?;
        caller.say(line)?;
        ensure!(called.answer()? == json!({ "said": line }) && caller.answer()? == json!({ "said": line }));
    }
    called.close_stdin()?;
    caller.close_stdin()?;
    ensure!(called.wait()? == Exit::Code(0) && caller.wait()? == Exit::Code(0));
    Ok(())
}

/// A listener that refuses express memory says so, and is then asked for a channel by card.
fn only_one_of_the_two_wants_it(lab: &Lab) -> Result<()> {
    let mut serving = lab.vm(1).run(["express", "--by-card", "serve"])?;
    serving.answer()?;
    let said = lab.vm(0).run(["express", "ping-pong", "1", "--count", "50"])?.finish()?;
    ensure!(said[0]["express"] == false && said[1]["round_trips"] == 50, "{said:?}");
    ensure!(serving.finish()?[1]["echoed"] == 50);
    Ok(())
}

/// Returns how often a machine's `express-desk` program has gone to sleep, summed over its threads.
fn times_asleep(lab: &Lab, vm: usize) -> Result<u64> {
    let count = "cat /proc/$(pidof express-desk)/task/*/status | grep ^voluntary";
    let lines = lab.vm(vm).run_as(0, ["sh", "-c", count])?.finish_text()?;
    lines.iter().try_fold(0, |sum, line| {
        let count = line.split_whitespace().last().context("no count")?;
        Ok(sum + count.parse::<u64>()?)
    })
}

/// Checks two channels whose receivers sleep. No packets are sent, and each sleeper checks the
/// peer's host once a second.
fn idle_channel_costs_nothing(lab: &Lab) -> Result<()> {
    const SECONDS: u64 = 3;
    let (mut server, mut client) = (desk(lab, 1)?, desk(lab, 0)?);
    let ([accepted, made], by_memory) = channel((&mut server, 1), &mut client, "idle")?;
    ensure!(by_memory);
    server.begin(&format!("receive {accepted}"))?;
    client.begin(&format!("receive {made}"))?;
    let sent =
        || Ok::<_, anyhow::Error>([counted(lab, 0, "packets_sent")?, counted(lab, 1, "packets_sent")?]);
    let mut last = sent()?;
    let still = || {
        std::thread::sleep(Duration::from_millis(300));
        let before = std::mem::replace(&mut last, sent()?);
        Ok(before == last)
    };
    eventually(still, "both sleep")?;
    let start = Instant::now();
    let packets = sent()?;
    let asked = |vm| Ok::<_, anyhow::Error>((Instant::now(), times_asleep(lab, vm)?));
    let before = [asked(0)?, asked(1)?];
    std::thread::sleep(Duration::from_secs(SECONDS));
    for (vm, (asked, before)) in before.into_iter().enumerate() {
        let times = times_asleep(lab, vm)? - before;
        // The queries take time as well, much of it on a loaded host.
        let seconds = asked.elapsed().as_secs_f64();
        ensure!(
            times as f64 <= 10.0 * seconds,
            "in machine {vm} it went to sleep {times} times in {seconds} s"
        );
    }
    let more = sent()?;
    // Heartbeats of the operating systems: a question and an answer each second, and one more of
    // each.
    let most = 2 * (start.elapsed().as_secs() + 1);
    ensure!(more.iter().zip(packets).all(|(now, before)| now - before <= most), "{packets:?}, then {more:?}");
    // The processes were asleep, not dead.
    let mut second = desk(lab, 0)?;
    let found = memory(&mut second, 1)?;
    ensure!(found["used"] == 16 && found["viewed"] == 16 && found["leaving"] == 0, "{found:?}");
    drop(second);
    server.0.kill(9)?;
    server.0.wait()?;
    ensure!(client.answer()? == json!({ "lost": "Process" }));
    Ok(())
}

/// Opens many times more channels than the pages suffice for at once.
fn nothing_is_left_of_many(lab: &Lab) -> Result<()> {
    let count = if_long(10_000, 300);
    let (mut server, mut client) = (desk(lab, 1)?, desk(lab, 0)?);
    for desk in [&mut server, &mut client] {
        desk.0.set_patience(Duration::from_secs(1800));
    }
    server.expect("listen many", &json!({ "listening": "many" }))?;
    server.begin(&format!("serve {count}"))?;
    client.expect(&format!("churn 1 many {count}"), &json!({ "made": count }))?;
    ensure!(server.answer()? == json!({ "served": count }));
    eventually(|| no_pages_are_held(&mut client, 1), "all pages are back")?;
    eventually(|| no_pages_are_held(&mut server, 0), "all pages are back at the other end")?;
    // All of the half can be allocated. Only root may take the reserved part.
    let mut root = Desk(lab.vm(0).run_as(0, ["express-desk"])?);
    let all = memory(&mut root, 1)?["pages"] * 4096;
    let made = root.ask(&format!("make 1 {all}"))?;
    root.expect(&format!("count {} 0", made["pages"]), &json!({ "words": all / 8, "of": all / 8 }))
}

/// A program at a card's socket has no express memory, but the machine that it talks to has.
#[test]
fn channels_fall_back_to_cards_without_express_memory() -> Result<()> {
    let lab = lab_of(express(1).spare_cards(1));
    let mut serving = Program::start(&lab, 1, &["express", "serve"])?;
    ensure!(serving.answer()? == json!({ "listening": "express" }));
    let said = lab.vm(0).run(["express", "ping-pong", "1", "--count", "100"])?.finish()?;
    ensure!(said[0]["express"] == false && said[1]["round_trips"] == 100, "{said:?}");
    ensure!(serving.finish()?["echoed"] == 100);

    let mut serving = lab.vm(0).run(["express", "serve"])?;
    serving.answer()?;
    let said = Program::start(&lab, 1, &["express", "ping-pong", "0", "--count", "100"])?.finish()?;
    ensure!(said["round_trips"] == 100, "{said}");
    ensure!(serving.finish()?[1]["echoed"] == 100);
    // A machine's channels to itself also go by card.
    let mut serving = lab.vm(0).run(["express", "serve"])?;
    serving.answer()?;
    let said = lab.vm(0).run(["express", "ping-pong", "0", "--count", "20"])?.finish()?;
    ensure!(said[0]["express"] == false && said[1]["round_trips"] == 20, "{said:?}");
    serving.finish()?;
    log_is_clean(&lab, 0)
}
