//! A lock: several hosts read, change and write memory of one of them, one host at a time. The lock
//! consists of two registers.

use hamlyn::dart::programs::{Caller, Lock, LockRegisters};
use hamlyn::dart::{Card, Operation};
use serde_json::json;

use crate::Options;
use crate::common::Outcome;
use crate::meet::{Guest, Home, Plan};

const LOCK: LockRegisters = LockRegisters { tickets: 2, turn: 3 };
/// Offset that questions are sent from.
const SCRATCH: u64 = 4096;

fn number(bytes: [u8; 8]) -> u64 {
    u64::from_le_bytes(bytes)
}

pub(crate) fn keep(card: &Card, options: &Options) -> Outcome {
    let mut home = Home::open(card, options, Plan::default())?;
    home.begin()?;
    let counted = home.wait()?;
    let mut bytes = [0; 8];
    home.endpoint.read(0, &mut bytes)?;
    let (value, expected) = (number(bytes), u64::from(options.others) * options.count);
    if value != expected {
        return Err(format!("the word is {value}, not {expected}: two processes had the lock at once").into());
    }
    home.end(&json!({ "value": value }), counted)
}

pub(crate) fn join(card: &Card, options: &Options) -> Outcome {
    let mut guest = Guest::meet(card, options)?;
    let mut caller =
        Caller::new(guest.connection.clone(), guest.answers()?, SCRATCH).with_timeout(guest.patience);
    let lock = Lock::new(LOCK);
    for _ in 0..options.count {
        lock.lock(&mut caller)?;
        let mut bytes = [0; 8];
        caller.read(0, &mut bytes)?;
        guest.endpoint.write(0, &(number(bytes) + 1).to_le_bytes())?;
        // Writes only the two words. They arrive before the lock is released, because messages of a
        // connection stay in order.
        guest.connection.send_timeout(&Operation::write(0).mask(0b1111_1100), 0..8, guest.patience)?;
        lock.unlock(&caller)?;
        guest.connection.wait_until_left_timeout(guest.patience)?;
    }
    guest.end(&json!({ "entered": options.count }))
}
