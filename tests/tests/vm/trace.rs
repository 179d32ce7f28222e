//! Traces and captures of running cards, by the program's own commands.

use std::fs::{File, read, read_to_string};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use hamlyn_host::catalogue::{self, MODELS};
use hamlyn_lab::Kit;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::tools::server;
use crate::turn::is_still;
use crate::{Turn, eventually, lab, shared_of};

/// A command that traces the lab's cards until it is stopped.
struct Reader(Child);

impl Reader {
    /// Starts it, and waits until it traces.
    fn start(lab: &Turn, words: &[&str], file: &Path) -> Result<Self> {
        let mut command = Command::new(Kit::find()?.program("hamlyn")?);
        command.args(words).arg(file).env("HAMLYN_RUN", lab.directory()).stderr(Stdio::piped());
        let mut reader = Self(command.spawn()?);
        let told = reader.0.stderr.as_mut().context("no standard error")?;
        let mut line = String::new();
        BufReader::new(told).read_line(&mut line)?;
        ensure!(line.contains("until Ctrl-C"), "{words:?}: {line}");
        Ok(reader)
    }

    /// Stops it as Ctrl-C does.
    fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::INT)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Exchanges messages between the machines while a command traces their cards. All of them have
/// arrived at its end.
pub(crate) fn traced(lab: &Turn, words: &[&str], file: &Path) -> Result<()> {
    let reader = Reader::start(lab, words, file)?;
    let (mut server, host) = server(lab, 1, "hamlyn-ping")?;
    lab.vm(0).run(["hamlyn-ping", &host, "--count", "3", "--interval", "0"])?.finish_text()?;
    server.kill(9)?;
    server.wait()?;
    // The kernels still tell each other of the ends.
    eventually(|| Ok(is_still(lab)? && has_arrived(lab, 0, 1)? && has_arrived(lab, 1, 0)?), "all is over")?;
    reader.stop()
}

/// Returns whether all packets of a card have arrived at another. Only Hamlyn cards count both.
fn has_arrived(lab: &Turn, from: usize, to: usize) -> Result<bool> {
    let [from, to] = [lab.card_counters(from)?, lab.card_counters(to)?];
    let Some(received) = to["card"]["packets_received"].as_u64() else { return Ok(true) };
    let refused = to["card"].as_object().into_iter().flatten();
    let refused = refused.filter(|(name, _)| name.starts_with("refused_") || *name == "discarded");
    let refused: u64 = refused.filter_map(|(_, count)| count.as_u64()).sum();
    Ok(from["card"]["packets_sent"].as_u64().context("no packets")? <= received + refused)
}

fn objects(file: &Path) -> Result<Vec<Value>> {
    let lines = BufReader::new(File::open(file)?).lines();
    lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

#[test]
fn trace_names_what_each_card_does() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for model in MODELS {
        let (lab, file) = (shared_of(model.name)?, folder.path().join(model.name));
        traced(&lab, &["trace", "--json", "--output"], &file)?;
        let objects = objects(&file)?;
        let of = |event: &str| objects.iter().filter(|object| object["event"] == event).collect::<Vec<_>>();
        let prefix = format!("{}_COMMAND_", model.name.to_uppercase());
        let name = |object: &Value| object["of"].as_str().unwrap_or_default().to_owned();
        ensure!(of("command").iter().any(|command| name(command).starts_with(&prefix)), "{}", model.name);
        ensure!(of("result").iter().any(|result| name(result) == "ULN_STATUS_OK"), "{}", model.name);
        ensure!(!of("body").is_empty() && !of("count").is_empty(), "{}", model.name);
        // Each register and each place of a window that was used has a name.
        let unnamed = objects.iter().find(|object| name(object).starts_with("BAR"));
        ensure!(unnamed.is_none(), "{}: {unnamed:?}", model.name);
        let (_, fields) = catalogue::packets(model).context("no packets")?;
        for event in ["send", "arrive"] {
            let packets = of(event);
            ensure!(packets.len() >= 6, "{}: {} packets", model.name, packets.len());
            let whole = |packet: &&&Value| fields.iter().all(|field| packet["fields"][field.name].is_u64());
            ensure!(packets.iter().filter(whole).count() == packets.len(), "{}: {event}", model.name);
        }
    }
    Ok(())
}

#[test]
fn trace_follows_messages_for_perfetto() -> Result<()> {
    let (lab, folder) = (shared_of(catalogue::default().name)?, tempfile::tempdir()?);
    let file = folder.path().join("trace.json");
    traced(&lab, &["trace", "--perfetto"], &file)?;
    let trace: Value = serde_json::from_slice(&read(&file)?)?;
    let events = trace["traceEvents"].as_array().context("no events")?;
    let flows = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    ensure!(flows("s") >= 6 && flows("s") == flows("f"), "{} and {}", flows("s"), flows("f"));
    traced(&lab, &["trace", "--messages", "--output"], &file)?;
    let table = read_to_string(&file)?;
    for step in ["doorbell", "request", "send", "arrive", "deposit", "interrupt"] {
        ensure!(table.contains(&format!(" {step} ")), "no {step}: {table}");
    }
    Ok(())
}

#[test]
fn capture_has_each_packet_at_both_cards() -> Result<()> {
    let (lab, folder) = (shared_of(catalogue::default().name)?, tempfile::tempdir()?);
    let file = folder.path().join("capture.pcapng");
    traced(&lab, &["capture", "--write"], &file)?;
    let (bytes, mut at, mut packets) = (read(&file)?, 0, [Vec::new(), Vec::new()]);
    let word =
        |at: usize| bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes(word.try_into().unwrap()));
    while at < bytes.len() {
        let length = word(at + 4) as usize;
        ensure!(length >= 12 && word(at + length - 4) as usize == length, "the block at {at} is broken");
        if word(at) == 6 {
            let packet = bytes[at + 28..][..word(at + 20) as usize].to_vec();
            packets[word(at + 8) as usize].push(packet);
        }
        at += length;
    }
    let [mut first, mut second] = packets;
    ensure!(first.len() >= 12, "{} packets", first.len());
    first.sort();
    second.sort();
    ensure!(first == second, "{} packets at one card, {} at the other", first.len(), second.len());
    Ok(())
}

#[test]
fn trace_shows_what_the_driver_sees() -> Result<()> {
    let (mut lab, folder) = (lab(2), tempfile::tempdir()?);
    lab.open_door()?;
    let file = folder.path().join("trace");
    traced(&lab, &["trace", "--guest", "vm0", "--json", "--output"], &file)?;
    let objects = objects(&file)?;
    let is = |object: &&Value, event: &str, of: &str| object["event"] == event && object["of"] == of;
    let commands = objects.iter().filter(|object| is(object, "guest", "hamlyn_command")).count();
    ensure!(commands > 0, "{objects:?}");
    let mut interrupts = 0;
    for (place, object) in
        objects.iter().enumerate().filter(|(_, object)| is(object, "guest", "hamlyn_interrupt"))
    {
        ensure!(object["card"] == "vm0", "{object}");
        let vector = format!("vector {}", object["fields"]["vector"]);
        let before = objects[..place].iter();
        let raised =
            before.filter(|object| object["card"] == "card0" && is(object, "interrupt", &vector)).count();
        interrupts += 1;
        let earlier = objects[..place].iter();
        let taken = earlier.filter(|object| is(object, "guest", "hamlyn_interrupt"));
        let taken = taken.filter(|other| other["fields"]["vector"] == object["fields"]["vector"]).count();
        ensure!(raised > taken, "an interrupt before its cause: {object}");
    }
    ensure!(interrupts > 0, "{objects:?}");
    // The machine's kernel does not trace any longer.
    let enabled = ["cat", "/sys/kernel/tracing/events/hamlyn/enable"];
    ensure!(lab.vm(0).run_as(0, enabled)?.finish_text()? == ["0"]);
    Ok(())
}
