//! Channels on every card model. One program, `channel-check`, runs the same cases on all.

use anyhow::{Context, Result, ensure};
use hamlyn_host::catalogue;
use hamlyn_lab::Lab;
use serde_json::json;

use crate::{lab_of, shared, shared_as, shared_of};

/// Runs all cases between two machines.
fn keeps_promises(lab: &Lab, model: &str, is_express: bool) -> Result<()> {
    let mut server = lab.vm(1).run(["channel-check", "serve"])?;
    ensure!(server.answer()? == json!({ "listening": "channel-check", "model": model }));
    let said = lab.vm(0).run(["channel-check", "run", "1"])?.finish()?;
    let last = said.last().context("nothing was said")?;
    ensure!(last["model"] == model && last["cases"] == said.len() - 1 && said.len() > 10, "{said:?}");
    ensure!(last["express"] == is_express, "{said:?}");
    // The example programs of the documentation, in Rust and C, with each other.
    for (serves, asks) in [("channel", "c-channel"), ("c-channel", "channel")] {
        let mut server = lab.vm(1).run([serves, "serve"])?;
        let line = server.line()?;
        ensure!(line.contains(&format!("by its {model} card")), "{serves}: {line}");
        let answer = lab.vm(0).run([asks, "ask", "hello"])?.finish_text()?;
        ensure!(answer == ["hello"], "{asks}: {answer:?}");
        server.kill(9)?;
        server.wait()?;
    }
    Ok(())
}

/// Opens a channel between two machines, and causes a loss. Checks that both halves of both ends
/// report it, at host 0 and at host 1; nothing is known of an end whose machine was killed.
fn loss_is_told(
    lab: &Lab,
    at_zero: &str,
    at_one: Option<&str>,
    cause: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let mut server = lab.vm(1).run(["channel-check", "serve"])?;
    server.answer()?;
    let mut holder = lab.vm(0).run(["channel-check", "hold", "1"])?;
    ensure!(holder.answer()? == json!({ "open": true }));
    cause()?;
    let said = holder.answer()?;
    ensure!(said == json!({ "losses": [at_zero, at_zero] }), "host 0: {said}");
    if let Some(loss) = at_one {
        let said = server.answer()?;
        ensure!(said == json!({ "case": "hold", "says": format!("[{loss}, {loss}]") }), "host 1: {said}");
        // It may have ended by itself, with its card.
        let _ = server.kill(9);
        server.wait()?;
    }
    holder.finish().map(drop)
}

/// Resets a card, stops the switch, kills a machine.
fn losses_are_told(model: &'static str) -> Result<()> {
    let lab = lab_of(Lab::builder().models(&[catalogue::find(model)?]).vms(2));
    let root = |vm: usize, script: &str| lab.vm(vm).run_as(0, ["sh", "-c", script])?.finish_text().map(drop);
    // Hosts are given up after six seconds.
    (0..2).try_for_each(|vm| root(vm, "echo 6000 > /sys/module/hamlyn/parameters/peer_timeout"))?;
    let reset = || root(1, "echo 1 > $(ls -d /sys/bus/pci/drivers/hamlyn/0000:*)/reset");
    loss_is_told(&lab, "HostReset", Some("CardReset"), reset).context("a card is reset")?;
    loss_is_told(&lab, "Link", Some("Link"), || lab.restart_switch()).context("the switch is restarted")?;
    loss_is_told(&lab, "Host", None, || lab.vm(1).kill()).context("a machine is killed")
}

#[test]
fn hamlyn_channels_report_each_loss() -> Result<()> {
    losses_are_told("hamlyn")
}

#[test]
fn shrimp_channels_report_each_loss() -> Result<()> {
    losses_are_told("shrimp")
}

#[test]
fn clan_channels_report_each_loss() -> Result<()> {
    losses_are_told("clan")
}

#[test]
fn dart_channels_report_each_loss() -> Result<()> {
    losses_are_told("dart")
}

#[test]
fn echo_channels_report_each_loss() -> Result<()> {
    losses_are_told("echo")
}

#[test]
fn channels_by_hamlyn_cards() -> Result<()> {
    keeps_promises(&shared(), "hamlyn", false)
}

#[test]
fn channels_by_express_memory() -> Result<()> {
    let lab = shared_as("express", Lab::builder().vms(2).switch_args(["--express", "shared"]));
    keeps_promises(&lab, "hamlyn", true)
}

/// Each model's card wakes the sleepers of express memory by its own means.
#[test]
fn every_model_has_channels_by_express_memory() -> Result<()> {
    for model in ["shrimp", "clan", "dart", "echo"] {
        let builder = Lab::builder().models(&[catalogue::find(model)?]).vms(2);
        let lab = lab_of(builder.switch_args(["--express", "shared"]));
        keeps_promises(&lab, model, true).context(model)?;
    }
    Ok(())
}

#[test]
fn channels_by_shrimp_cards() -> Result<()> {
    keeps_promises(&*shared_of("shrimp")?, "shrimp", false)
}

#[test]
fn channels_by_clan_cards() -> Result<()> {
    keeps_promises(&*shared_of("clan")?, "clan", false)
}

#[test]
fn channels_by_dart_cards() -> Result<()> {
    keeps_promises(&*shared_of("dart")?, "dart", false)
}

#[test]
fn channels_by_echo_cards() -> Result<()> {
    keeps_promises(&*shared_of("echo")?, "echo", false)
}
