//! Invalid operations are refused by the card that can detect them, counted by reason, and change
//! no byte.

use anyhow::Result;

use crate::{eventually, shared, text};

/// The attacker's error, the counter of that error, and whether the sending card counts it.
const ATTEMPTS: &[(&str, &str, bool)] = &[
    ("wrong-key", "key", false),
    ("past-end", "bounds", false),
    ("bad-slot", "slot", false),
    ("closed-slot", "closed_slot", false),
    ("bad-metadata-index", "metadata_index", false),
    ("bad-length", "length", true),
    ("bad-tag", "tag", true),
];

#[test]
fn attempts_are_refused_counted_and_change_nothing() -> Result<()> {
    let lab = shared();
    let (attacker, victim) = (0, 1);
    for (how, reason, by_sender) in ATTEMPTS {
        let watch = if *how == "closed-slot" {
            vec!["intrude", "watch", "--close"]
        } else {
            vec!["intrude", "watch"]
        };
        let mut watch = lab.vm(victim).run(watch)?;
        let ticket = text(&watch.answer()?, "ticket");
        let count = |card| -> Result<u64> {
            Ok(lab.card_counters(card)?["card"][format!("refused_{reason}")]
                .as_u64()
                .expect("a counter of that name"))
        };
        let card = if *by_sender { attacker } else { victim };
        let (before, all_before) = (count(card)?, lab.refused(0)? + lab.refused(1)?);
        lab.vm(attacker).run(["intrude", "attack", "--ticket", &ticket, "--how", how])?.finish()?;
        // The attacker finishes when its card has sent. The packet may still be in flight.
        eventually(|| Ok(count(card)? == before + 1), how)?;
        assert_eq!(lab.refused(0)? + lab.refused(1)?, all_before + 1, "{how} was refused more than once");
        watch.say("done")?;
        assert_eq!(watch.finish()?.last().unwrap()["unchanged"], true, "{how}");
    }
    Ok(())
}
