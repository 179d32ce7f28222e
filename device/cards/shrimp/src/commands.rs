//! Command pages: a process's commands to the card about a page of its own (section 4.2).

use hamlyn_abi::shrimp::memory::*;
use hamlyn_abi::shrimp::statistics::ShrimpStatistic;
use hamlyn_card::ports::Ports;

use super::{PAGE, ShrimpCard};

/// The bits of a stored word that hold the operation. The others hold its operand.
const OPERATION: u32 = 0xff00_0000;

impl ShrimpCard {
    /// Handles a store to a command page, about the byte of host memory at `address`.
    pub(super) fn command_page(&mut self, ports: &Ports<'_>, address: u64, width: u8, value: u64) {
        let word = value as u32;
        if width != 4 {
            return self.count(ShrimpStatistic::CommandsMappedRefused);
        }
        if word == 0 || word & SHRIMP_BUSY != 0 {
            // The value that a locked compare has read, and writes back because the compare failed.
            return self.count(ShrimpStatistic::WritesBack);
        }
        if word & OPERATION == 0 {
            return self.start(ports, address, word);
        }
        let done = self.operate(address, word & OPERATION, word & !OPERATION);
        self.count(match done {
            Some(()) => ShrimpStatistic::CommandsMapped,
            None => ShrimpStatistic::CommandsMappedRefused,
        });
    }

    /// Starts a deliberate update (section 4.3).
    fn start(&mut self, ports: &Ports<'_>, address: u64, words: u32) {
        if self.engine.start(&self.nipt, address, words).is_none() {
            return self.count(ShrimpStatistic::TransfersRefused);
        }
        self.count(ShrimpStatistic::TransfersStarted);
        self.run_engine(ports);
    }

    fn operate(&mut self, address: u64, operation: u32, operand: u32) -> Option<()> {
        match operation {
            SHRIMP_SET_MODE => {
                // Stores before this are sent in the mode that they were made in.
                self.outgoing.close();
                self.nipt.set_mode(address, operand)
            }
            SHRIMP_REPORT_NEXT if operand == 0 => {
                let page = (address / PAGE) as u32;
                self.nipt.is_mapped_in(page).then(|| self.arrivals.ask(page))
            }
            _ => None,
        }
    }
}
