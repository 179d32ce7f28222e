//! Remote reads: blocks scattered in one host's memory are gathered in another's. The questions do
//! not wait for each other.

use hamlyn::dart::Card;
use hamlyn::dart::programs::{Caller, Piece};
use serde_json::json;

use crate::Options;
use crate::common::{Outcome, fill_pattern, find_difference};
use crate::meet::{Guest, Home, MEMORY, Plan};

/// Bytes of a block, and the distance between two blocks.
const BLOCK: u64 = 64;
const APART: u64 = 160;
/// Number of blocks.
const BLOCKS: u64 = MEMORY as u64 / APART;
/// Offsets where blocks arrive, and where questions are sent from.
const PLACE: u64 = 0;
const SCRATCH: u64 = MEMORY as u64;
const SEED: u64 = 11;

pub(crate) fn keep(card: &Card, options: &Options) -> Outcome {
    let mut home = Home::open(card, options, Plan::default())?;
    let mut bytes = vec![0; MEMORY];
    fill_pattern(SEED, 0, &mut bytes);
    home.endpoint.write(0, &bytes)?;
    home.begin()?;
    let counted = home.wait()?;
    let answers = home.counted("answers_sent")?;
    home.end(&json!({ "read": answers }), counted)
}

pub(crate) fn join(card: &Card, options: &Options) -> Outcome {
    let room = MEMORY + Caller::SCRATCH as usize;
    let mut guest = Guest::reach(card, options, room, true)?;
    let mut caller =
        Caller::new(guest.connection.clone(), guest.answers()?, SCRATCH).with_timeout(guest.patience);
    for first in (0..options.count).step_by(BLOCKS as usize) {
        let blocks = BLOCKS.min(options.count - first);
        let pieces: Vec<Piece> = (0..blocks)
            .map(|block| Piece { from: block * APART, to: PLACE + block * BLOCK, length: BLOCK as u32 })
            .collect();
        caller.gather(&pieces)?;
        for piece in pieces {
            let mut found = [0; BLOCK as usize];
            guest.endpoint.read(piece.to as usize, &mut found)?;
            if let Some(at) = find_difference(SEED, piece.from as usize, &found) {
                return Err(format!("byte {at} of the block at {} is another", piece.from).into());
            }
        }
    }
    guest.end(&json!({ "gathered": options.count, "verified": true }))
}
