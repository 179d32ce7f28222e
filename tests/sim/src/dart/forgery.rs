//! Packets of hostile hosts, which bypass their cards.

use std::collections::VecDeque;

use crate::engine::rng::Rng;

use super::account::Account;
use super::controls::some_control;
use super::driving::PROCESSES;
use super::packet::{BLOCK, LONGEST, Letter, Message, TRAPPED};

/// Recent packets and their destinations, which may be replayed.
#[derive(Debug, Default)]
pub(super) struct Captured(VecDeque<(u16, Vec<u8>)>);

impl Captured {
    pub(super) fn note(&mut self, to: u16, bytes: &[u8]) {
        if self.0.len() > 30 {
            self.0.pop_front();
        }
        self.0.push_back((to, bytes.to_vec()));
    }

    /// Returns a packet and its destination: a replayed packet, noise, or a valid packet with at
    /// most one defect.
    pub(super) fn forge(&self, rng: &mut Rng, accounts: &[Account]) -> (u16, Vec<u8>) {
        let victim = rng.index(accounts.len());
        let replayed = self.0.get(rng.index(self.0.len())).cloned();
        let (victim, mut bytes) = match (rng.below(4), replayed) {
            (0, Some(replayed)) => replayed,
            _ => (victim as u16, some_packet(rng, &accounts[victim])),
        };
        match rng.below(8) {
            0 => {
                let bit = rng.index(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            1 => bytes.truncate(rng.index(bytes.len())),
            _ => {}
        }
        (victim, bytes)
    }
}

fn some_packet(rng: &mut Rng, victim: &Account) -> Vec<u8> {
    let index = victim.some_index(rng).unwrap_or(PROCESSES);
    let (number, done, key) = victim.end(index).map_or((0, 0, 0), |end| end.expected());
    let mut block = [0; BLOCK];
    block[..17].copy_from_slice(&rng.bytes(17));
    let body = match rng.below(3) {
        0 => rng.range(1, LONGEST as u32) as usize,
        _ => 0,
    };
    let message = Message { control: some_control(rng), block, body: rng.bytes(body) };
    let mut letter = Letter {
        connection: index,
        number,
        done,
        kind: rng.pick(&[0, 0, 0, 1, 2, 3, TRAPPED + 1, TRAPPED]).unwrap_or(0),
        window: rng.pick(&[48, 64, 256, 65536, victim.machine().window()]).unwrap_or(48),
        key,
        cells: message.write(index),
    };
    match rng.below(8) {
        0 => letter.key ^= 1 << rng.below(64),
        1 => letter.number = letter.number.wrapping_add(rng.range(1, 3)),
        2 => letter.done = rng.next() as u32,
        3 => letter.connection = rng.range(0, 40),
        4 => letter.cells.truncate(rng.index(letter.cells.len())),
        5 => letter.window = 0,
        _ => {}
    }
    letter.write()
}
