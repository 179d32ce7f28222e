//! The other host's card refuses what a connection does not allow: nothing changes there, and both
//! hosts get the reason.

use hamlyn::dart::{Address, Card, Operation, Rights, Source, Step, Target, Trap, What};
use serde_json::json;

use crate::Options;
use crate::common::{Outcome, fill_pattern, find_difference};
use crate::meet::{Guest, Home, MEMORY, Plan, look};

const SEED: u64 = 13;
/// Bytes of a question.
const QUESTION: u64 = 20;

/// Attempted operations, with their number of bytes and the reason for the refusal.
fn attempts() -> [(&'static str, Operation, u64, Trap); 3] {
    let add = Operation::registers(1).first(Step::Add, Source::Operand, Target::I);
    [
        ("write behind the endpoint", Operation::write(MEMORY as u64 - 16), 32, Trap::Bounds),
        ("change a register outside of the window", add.indices([200, 0, 0]), 0, Trap::Index),
        ("read where only writing is allowed", Operation::read(0), QUESTION, Trap::Right),
    ]
}

pub(crate) fn keep(card: &Card, options: &Options) -> Outcome {
    let plan = Plan { rights: Rights::Write, ..Plan::default() };
    let mut home = Home::open(card, options, plan)?;
    let mut bytes = vec![0; MEMORY];
    fill_pattern(SEED, 0, &mut bytes);
    home.endpoint.write(0, &bytes)?;
    home.begin()?;
    let mut counted = home.wait()?;
    let mut refused = Vec::new();
    while let Some(record) = home.exceptions.try_recv() {
        if let What::Trap(Some(trap)) = record.what {
            refused.push(format!("{trap:?}"));
        }
    }
    // A message with a guessed connection key is discarded without notifying any process.
    look(home.patience, "a guess", || Ok((home.counted("discarded")? > 0).then_some(())))?;
    counted.insert("discarded".to_owned(), home.counted("discarded")?.into());
    home.endpoint.read(0, &mut bytes)?;
    if let Some(at) = find_difference(SEED, 0, &bytes) {
        return Err(format!("byte {at} has changed").into());
    }
    home.end(&json!({ "refused": refused, "unchanged": true }), counted)
}

pub(crate) fn join(card: &Card, options: &Options) -> Outcome {
    let guest = Guest::meet(card, options)?;
    let mut refused = serde_json::Map::new();
    for (what, operation, length, expected) in attempts() {
        let before = guest.connection.status().traps;
        guest.connection.send_timeout(&operation, 0..length, guest.patience)?;
        let (trap, _) = look(guest.patience, "a refusal", || {
            let status = guest.connection.status();
            Ok(status.trap.filter(|_| status.traps != before))
        })?;
        if trap != expected {
            return Err(format!("{what}: {trap}").into());
        }
        refused.insert(what.to_owned(), trap.to_string().into());
    }
    // A connection of another process, whose key this process does not know.
    let (host, other) = (guest.connection.host(), guest.connection.number());
    let bank = card.bank(1, 0)?;
    let guess = card.connection(&guest.endpoint, &bank).open(host)?;
    guess.connect(&Address::new(host, other, 1))?;
    guess.try_send(&Operation::write(0), 0..32)?;
    guess.wait_until_left_timeout(guest.patience)?;
    guest.end(&json!({ "refused": refused }))
}
