//! Send allowances of termini: surplus round robin, by bytes.
//!
//! In each round a terminus may send as many bytes as the largest packet has, times its weight.
//! Packets are not cut to fit: if the last packet exceeds the allowance, the excess is deducted
//! from the next round. So busy termini of equal weight get equal bandwidth, however long their
//! messages are. Termini of different weights get bandwidth in proportion.

/// The bytes that a terminus may still send in this round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    weight: i64,
    /// Bytes left in this round, less the overdraft of the last one. `None` if the terminus was
    /// idle and has sent nothing since.
    credit: Option<i64>,
    /// Number of consecutive looks that found nothing to send.
    idle_looks: u32,
}

impl Allowance {
    pub(super) fn new(weight: u32) -> Self {
        Self { weight: weight.into(), credit: None, idle_looks: 0 }
    }

    /// Charges a sent packet of `bytes` bytes. Returns `false` if the turn is over. `quantum` is
    /// the allowance of weight 1 in a round.
    pub(super) fn spend(&mut self, bytes: usize, quantum: usize) -> bool {
        self.idle_looks = 0;
        let round = self.weight * quantum as i64;
        let left = self.credit.unwrap_or(round) - bytes as i64;
        let goes_on = left > 0;
        self.credit = Some(if goes_on { left } else { left + round });
        goes_on
    }

    /// Records that there was nothing to send. The rest of the round's allowance is not saved.
    /// Returns the number of consecutive idle looks.
    pub(super) fn idle(&mut self) -> u32 {
        self.credit = None;
        self.idle_looks = self.idle_looks.saturating_add(1);
        self.idle_looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Termini that are always busy, each with packets of its own size, get bytes in proportion
        /// to their weights.
        #[test]
        fn busy_termini_get_bytes_in_proportion(
            termini in prop::collection::vec((1..=64_u32, prop_oneof![40..=4196_usize, Just(4196)]), 2..6),
        ) {
            const QUANTUM: usize = 4196;
            let mut allowances: Vec<Allowance> = termini.iter().map(|(weight, _)| Allowance::new(*weight)).collect();
            let mut sent = vec![0; termini.len()];
            for _ in 0..200 {
                for (turn, allowance) in allowances.iter_mut().enumerate() {
                    loop {
                        sent[turn] += termini[turn].1;
                        if !allowance.spend(termini[turn].1, QUANTUM) { break }
                    }
                }
            }
            for ((weight, _), sent) in termini.iter().zip(sent) {
                let due = 200 * QUANTUM * *weight as usize;
                // The error never exceeds one packet, after any number of rounds.
                prop_assert!(sent.abs_diff(due) <= 4196, "weight {weight}: {sent} of {due}");
            }
        }
    }
}
