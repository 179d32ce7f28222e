//! Recordings of a card in a machine, and their replay.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use hamlyn_host::catalogue::find;
use hamlyn_lab::{Lab, hamlyn};
use rustix::process::{Pid, Signal, kill_process};

use crate::tools::server;
use crate::{Turn, lab_of};

const RELOAD: &str = "rmmod hamlyn; insmod /lib/hamlyn.ko";

/// Records a card while something happens in its machine.
fn recorded(lab: &Turn, file: &Path, during: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut record: Child = Command::new(hamlyn()?)
        .args(["record", "card0", "--write"])
        .arg(file)
        .env("HAMLYN_RUN", lab.directory())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(record.stderr.take().context("no standard error")?).lines();
    let told = lines.next().context("it ended at once")??;
    ensure!(told.contains("from the next start of its driver on"), "{told}");
    let done = during();
    kill_process(Pid::from_child(&record), Signal::INT)?;
    let told: Vec<String> = lines.collect::<Result<_, _>>()?;
    let status = record.wait()?;
    done?;
    ensure!(status.success(), "{told:?}");
    Ok(())
}

fn replay(words: &[&str]) -> Result<(bool, String)> {
    let output = Command::new(hamlyn()?).arg("replay").args(words).output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8(text)?))
}

/// What a driver and programs make a card do, it does again without them; and of a driver that does
/// something else, the difference is shown.
fn card_does_the_same_again(model: &str) -> Result<()> {
    let lab = lab_of(Lab::builder().models(&[find(model)?]).vms(2));
    let folder = tempfile::tempdir()?;
    let [one, other] = ["one.rec", "other.rec"].map(|name| folder.path().join(name));
    let reload = |parameters: &str| lab.vm(0).run_as(0, ["sh", "-c", &format!("{RELOAD} {parameters}")]);
    recorded(&lab, &one, || {
        reload("")?.finish_text()?;
        let (_server, host) = server(&lab, 1, "hamlyn-ping")?;
        let ping = ["hamlyn-ping", &host, "--count", "20", "--interval", "0", "--json"];
        let answer = lab.vm(0).run(ping)?.finish_text()?.join("");
        ensure!(answer.contains("\"answered\":20"), "{answer}");
        Ok(())
    })?;
    let file = one.display().to_string();
    let (same, text) = replay(&[&file])?;
    ensure!(same && text.contains("each call did what the recording has"), "{text}");
    ensure!(!text.contains("does not have"), "{text}");
    let (_, text) = replay(&[&file, "--text"])?;
    ensure!(text.contains("ULN_COMMAND_TEST_DMA") && text.contains("send       to host 1"), "{text}");
    recorded(&lab, &other, || reload("peer_timeout=2000").and_then(|mut run| run.finish_text()).map(drop))?;
    let (same, text) = replay(&[&file, "--diff", &other.display().to_string()])?;
    ensure!(!same && text.contains("\n-  command "), "the second driver opened nothing: {text}");
    Ok(())
}

#[test]
fn hamlyn_card_does_the_same_again() -> Result<()> {
    card_does_the_same_again("hamlyn")
}

#[test]
fn shrimp_card_does_the_same_again() -> Result<()> {
    card_does_the_same_again("shrimp")
}
