//! Fetch-and-ops of programs: on shared words, and on memory that they may not touch.

use hamlyn::{Error, FetchOp, Ticket};

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::around::Around;
use crate::hamlyn::fetches::Ask;
use crate::hamlyn::fetches::Fetches;
use crate::hamlyn::numbers::Numbers;
use crate::hamlyn::process::Process;

/// Posts fetch-and-ops.
pub(super) struct Fetcher<'a> {
    pub(super) around: Around<'a>,
    pub(super) fetches: &'a mut Fetches,
    pub(super) numbers: &'a mut Numbers,
}

impl Fetcher<'_> {
    /// Posts a fetch-and-op of a random program.
    pub(super) fn fetch(&mut self) -> Result<(), Violation> {
        let open: Vec<usize> =
            (0..self.fetches.words.len()).filter(|word| !self.fetches.words[*word].gone).collect();
        let (Some(number), Some((host, process))) = (self.around.rng.pick(&open), self.around.a_sender())
        else {
            return Ok(());
        };
        let word = self.fetches.words[number].clone();
        let owner = self.around.hosts[word.host].processes.iter().find(|process| process.pid == word.pid);
        let slot = owner.and_then(Process::program).and_then(|program| program.slot(word.slot));
        let slot = slot.ok_or_else(|| Violation::new("a word has no slot"))?;
        let mut ticket = match slot.ticket(word.entry) {
            Err(Error::LinkDown) => return Ok(()),
            ticket => ticket.map_err(Violation::new)?,
        };
        let wrong = self.around.rng.percent(10);
        if wrong {
            ticket.key ^= 1 << self.around.rng.below(64);
        }
        let (operation, code, operand) = self.operation(&word.counter, word.host, word.slot, word.offset);
        let ask = Ask {
            host,
            destination: word.host,
            slot: word.slot,
            offset: word.offset,
            operation: code,
            operand,
        };
        self.post_fetch(host, process, &ticket, operation, ask, (!wrong).then_some(number))
    }

    /// Returns an operation, its code, and a unique operand.
    fn operation(&mut self, counter: &bool, host: usize, slot: u32, offset: u32) -> (FetchOp, u32, u64) {
        let rng = &mut self.around.rng;
        if *counter {
            let operand = u64::from(self.numbers.word());
            return (FetchOp::Add(operand), 1, operand);
        }
        let operand = rng.next();
        let operation = match rng.below(6) {
            0 => (FetchOp::Add(operand), 1),
            1 => (FetchOp::And(operand), 2),
            2 => (FetchOp::Or(operand), 3),
            3 => (FetchOp::Xor(operand), 4),
            4 => (FetchOp::Swap(operand), 5),
            _ => {
                let machine = &self.around.hosts[host].machine;
                let slot = machine.slot(slot);
                let now = slot.map(|slot| machine.memory.peek_u64(slot.area.address(offset.into()) & !7));
                let compare = now.filter(|_| rng.percent(80)).unwrap_or_default();
                (FetchOp::CompareSwap { compare, swap: operand }, 6)
            }
        };
        (operation.0, operation.1, operand)
    }

    fn post_fetch(
        &mut self,
        host: usize,
        process: usize,
        ticket: &Ticket,
        operation: FetchOp,
        ask: Ask,
        word: Option<usize>,
    ) -> Result<(), Violation> {
        let machine = self.around.hosts[host].machine.clone();
        let Some(program) = self.around.hosts[host].program_mut(process) else { return Ok(()) };
        // This call would wait for room.
        if program.outlet.is_full(&machine) {
            return Ok(());
        }
        let at = ask.offset - ticket.base;
        let misaligned = program.outlet.terminus().fetch(ticket, at + 1, operation);
        ensure(matches!(misaligned, Err(Error::Misaligned { .. } | Error::PastEnd { .. })), || {
            format!("a misaligned fetch-and-op gives {:?}", misaligned.err())
        })?;
        let fetch = program.outlet.terminus().fetch(ticket, at, operation).map_err(Violation::new)?;
        let record = self.fetches.ask(ask, word, machine.clock.milliseconds());
        program.outlet.fetches(fetch, record);
        let down = self.around.down();
        self.fetches.excuse_number(record, |host| down.contains(&host));
        self.around.note(|| format!("host {host} process {process} asks {ask:?} {operation:?}"));
        Ok(())
    }
}
