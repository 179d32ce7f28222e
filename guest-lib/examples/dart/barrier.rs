//! A barrier: no host continues before all have entered it. One register counts the hosts still to
//! come.

use std::time::Instant;

use hamlyn::dart::Card;
use hamlyn::dart::programs::{Barrier, Member};
use serde_json::json;

use crate::Options;
use crate::common::Outcome;
use crate::meet::{Guest, Home, Plan};

const REGISTER: u8 = 10;

pub(crate) fn keep(card: &Card, options: &Options) -> Outcome {
    let mut home = Home::open(card, options, Plan::default())?;
    let mut barrier = Barrier::new(home.others.clone(), home.events()?, REGISTER)?;
    home.begin()?;
    let mut round = 0;
    for _ in 0..options.count {
        round = barrier.release_timeout(home.patience)?;
    }
    let counted = home.wait()?;
    home.end(&json!({ "rounds": round }), counted)
}

pub(crate) fn join(card: &Card, options: &Options) -> Outcome {
    let mut guest = Guest::meet(card, options)?;
    let mut member = Member::new(guest.connection.clone(), guest.answers()?, REGISTER);
    let (begun, mut round) = (Instant::now(), 0);
    for _ in 0..options.count {
        round = member.wait_timeout(guest.patience)?;
    }
    let each = begun.elapsed().as_nanos() as u64 / options.count;
    guest.end(&json!({ "round": round, "ns_for_each": each }))
}
