//! What a terminus may send before it is another's turn: surplus round robin, by bytes.
//!
//! In each round a terminus may send as many bytes as the largest packet has, times its weight. If
//! its last packet goes beyond that, as packets are not cut to fit, the rest is taken off its next
//! round. So however long the messages, busy termini of equal weight get equal bandwidth, and
//! others in proportion.

/// What a terminus may still send in this round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    weight: i64,
    /// Bytes left in this round, less what it overdrew in the last; `None` if it was idle and has
    /// sent nothing since.
    credit: Option<i64>,
    /// How many looks in a row have found nothing.
    idle_looks: u32,
}

impl Allowance {
    pub(super) fn new(weight: u32) -> Self {
        Self { weight: weight.into(), credit: None, idle_looks: 0 }
    }

    /// A packet of so many bytes was sent. `false`: its turn is over. `quantum` is what weight 1
    /// gets in a round.
    pub(super) fn spend(&mut self, bytes: usize, quantum: usize) -> bool {
        self.idle_looks = 0;
        let round = self.weight * quantum as i64;
        let left = self.credit.unwrap_or(round) - bytes as i64;
        let goes_on = left > 0;
        self.credit = Some(if goes_on { left } else { left + round });
        goes_on
    }

    /// There was nothing to send. What is left of the round is not saved up. Returns how often in a
    /// row there was nothing.
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
        /// Termini that never run dry, each with packets of its own size: bytes in proportion to
        /// weights.
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
                // Never off by more than a packet, however many rounds.
                prop_assert!(sent.abs_diff(due) <= 4196, "weight {weight}: {sent} of {due}");
            }
        }
    }
}
