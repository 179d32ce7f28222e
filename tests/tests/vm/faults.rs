//! Cards that misbehave by rule, by `hamlyn fault`.

use std::fs::read_to_string;
use std::process::{Command, Output};

use anyhow::{Result, ensure};
use hamlyn_lab::hamlyn;

use crate::tools::server;
use crate::trace::traced;
use crate::{Turn, lab};

fn fault(lab: &Turn, words: &[&str]) -> Result<Output> {
    Ok(Command::new(hamlyn()?).arg("fault").args(words).env("HAMLYN_RUN", lab.directory()).output()?)
}

fn said(lab: &Turn, words: &[&str]) -> Result<String> {
    let output = fault(lab, words)?;
    ensure!(output.status.success(), "{words:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn card_misbehaves_until_its_rules_end() -> Result<()> {
    let lab = lab(2);
    let self_test = || lab.vm(0).run_as(0, ["self-test"])?.finish_text();
    said(&lab, &["card0", "command refuse status=BAD_VALUE opcode=TEST_DMA"])?;
    let failed = self_test().expect_err("the card refuses").to_string();
    ensure!(failed.contains("a self-test failed"), "{failed}");
    let shown = said(&lab, &[])?;
    ensure!(shown.contains("card0: rules with seed 0:") && shown.contains("card1: no rules"), "{shown}");
    ensure!(shown.contains(" 1 events        1 faults"), "{shown}");
    // What is wrong changes nothing.
    let wrong = fault(&lab, &["card0", "packet melt"])?;
    let error = String::from_utf8_lossy(&wrong.stderr).into_owned();
    ensure!(!wrong.status.success() && error.contains("packet has no action \"melt\" (it has: "), "{error}");
    let wrong = fault(&lab, &["card7", "packet drop"])?;
    ensure!(!wrong.status.success() && wrong.stderr.starts_with(b"error: card card7 is not running"));
    ensure!(said(&lab, &[])? == shown);
    said(&lab, &["card0", "--end"])?;
    ensure!(self_test()?.join("").contains(r#""passed":true"#));
    Ok(())
}

#[test]
fn slow_link_delays_each_packet() -> Result<()> {
    let (lab, folder) = (lab(2), tempfile::tempdir()?);
    said(&lab, &["card1", "packet delay by=50ms"])?;
    let answer = {
        let (_server, host) = server(&lab, 1, "hamlyn-ping")?;
        let ping = ["hamlyn-ping", &host, "--count", "3", "--interval", "0", "--json"];
        lab.vm(0).run(ping)?.finish_text()?.join("")
    };
    let least = answer.split("\"min\":").nth(1).and_then(|rest| rest.split(['}', ',']).next());
    let least: u64 = least.unwrap_or_default().parse()?;
    ensure!(answer.contains("\"answered\":3") && least >= 50_000_000, "{answer}");
    // A trace shows each fault.
    let file = folder.path().join("trace");
    traced(&lab, &["trace", "--only", "faults", "--output"], &file)?;
    let trace = read_to_string(&file)?;
    ensure!(trace.contains("card1") && trace.contains("packet delay by=50ms"), "{trace}");
    said(&lab, &["all", "--end"])?;
    Ok(())
}
