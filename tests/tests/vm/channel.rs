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
