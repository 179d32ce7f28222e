//! Two processes in one machine cannot access each other's termini, slots or buffers.

use anyhow::Result;

use crate::{eventually, shared, text};

#[test]
fn neighbours_are_out_of_reach() -> Result<()> {
    let lab = shared();
    // The first process owns one object of every kind, and watches them.
    let mut owner = lab.vm(0).run_as(1001, ["intrude", "watch"])?;
    let ticket = text(&owner.answer()?, "ticket");
    // The second process runs as another user. It tries every call and mapping that could name the
    // first one's objects.
    let tried = lab.vm(0).run_as(1002, ["neighbour", "--all"])?.finish()?;
    let tried = tried.last().expect("a result");
    assert!(tried["attempts"].as_u64() > Some(100), "{tried}");
    assert_eq!(tried["attempts"], tried["refused"], "{tried}");
    // It cannot get anything past the card without the key, either.
    for how in ["wrong-key", "past-end"] {
        lab.vm(0).run_as(1002, ["intrude", "attack", "--ticket", &ticket, "--how", how])?.finish()?;
    }
    eventually(|| Ok(lab.refused(0)? == 2), "two attempts without the key are refused")?;
    owner.say("done")?;
    assert_eq!(owner.finish()?.last().unwrap()["unchanged"], true);
    Ok(())
}
