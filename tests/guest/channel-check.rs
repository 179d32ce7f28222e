//! Checks what a channel promises, on each card model (`tests/conformance`). Run `channel-check
//! serve` on one machine and `channel-check run HOST` on another. `alone` leaves out the cases that
//! need a second process at the same card. `hold HOST` waits for the peer's loss.

use std::process::Command;

use hamlyn::channel::Card;
use hamlyn_conformance::{NAME, Outcome, Place, die, hold, is_express, run, serve};
use serde_json::json;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let card = Card::open_any()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => {
            let ready = || println!("{}", json!({ "listening": NAME, "model": card.model() }));
            serve(&card, ready, |case, text| println!("{}", json!({ "case": case, "says": text })))
        }
        ["die"] => die(&card),
        ["run", host] => check(&at(card, host)?, ""),
        ["run", host, "alone"] => check(&Place { second: None, ..at(card, host)? }, ""),
        ["run", host, word] => check(&at(card, host)?, word),
        ["hold", host] => {
            let losses = hold(&at(card, host)?, || println!("{}", json!({ "open": true })))?;
            println!("{}", json!({ "losses": losses.map(|loss| format!("{loss:?}")) }));
            Ok(())
        }
        _ => Err("arguments: serve | run HOST [alone | WORD] | hold HOST".into()),
    }
}

fn at(card: Card, host: &str) -> Outcome<Place> {
    let second = || Command::new(std::env::current_exe()?).arg("die").spawn();
    Ok(Place { card, host: host.parse()?, second: Some(second) })
}

fn check(at: &Place, word: &str) -> Outcome {
    let mut cases = 0;
    run(at, word, |name| {
        println!("{}", json!({ "case": name }));
        cases += 1;
    })?;
    println!("{}", json!({ "cases": cases, "model": at.card.model(), "express": is_express(at)? }));
    Ok(())
}
