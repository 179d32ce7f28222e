//! Fetch-and-ops of programs: on shared words, and on memory that they may not touch.

use hamlyn::{Error, FetchOp, Ticket};

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::fetches::Ask;
use crate::hamlyn::process::Process;
use crate::hamlyn::program::{InFlight, Request};
use crate::hamlyn::world::World;

impl World {
    /// Posts a fetch-and-op of a random program.
    pub(crate) fn compose_fetch(&mut self) -> Result<(), Violation> {
        let open: Vec<usize> = (0..self.model.fetches.words.len())
            .filter(|word| !self.model.fetches.words[*word].gone)
            .collect();
        let (Some(number), Some((host, process))) = (self.rng.pick(&open), self.a_sender()) else {
            return Ok(());
        };
        let word = self.model.fetches.words[number].clone();
        let owner = self.hosts[word.host].processes.iter().find(|process| process.pid == word.pid);
        let slot = owner.and_then(Process::program).and_then(|program| program.slot(word.slot));
        let slot = slot.ok_or_else(|| Violation::new("a word has no slot"))?;
        let mut ticket = match slot.ticket(word.entry) {
            Err(Error::LinkDown) => return Ok(()),
            ticket => ticket.map_err(Violation::new)?,
        };
        let wrong = self.rng.percent(10);
        if wrong {
            ticket.key ^= 1 << self.rng.below(64);
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
        let rng = &mut self.rng;
        if *counter {
            let operand = u64::from(self.model.next_word());
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
                let machine = &self.hosts[host].machine;
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
        let machine = self.hosts[host].machine.clone();
        let Some(program) = self.hosts[host].program_mut(process) else { return Ok(()) };
        // This call would wait for room.
        if program.is_full(&machine) {
            return Ok(());
        }
        let at = ask.offset - ticket.base;
        let misaligned = program.terminus.fetch(ticket, at + 1, operation);
        ensure(matches!(misaligned, Err(Error::Misaligned { .. } | Error::PastEnd { .. })), || {
            format!("a misaligned fetch-and-op gives {:?}", misaligned.err())
        })?;
        let fetch = program.terminus.fetch(ticket, at, operation).map_err(Violation::new)?;
        program.posted += 1;
        let record = self.model.fetches.ask(ask, word, machine.clock.milliseconds());
        let request = Request::Fetch(fetch, record);
        program.in_flight.push_back(InFlight::new(request, program.posted));
        let down: Vec<usize> =
            (0..self.hosts.len()).filter(|host| !self.hosts[*host].uplink.is_up()).collect();
        self.model.fetches.excuse_number(record, |host| down.contains(&host));
        self.note(|| format!("host {host} process {process} asks {ask:?} {operation:?}"));
        Ok(())
    }
}
