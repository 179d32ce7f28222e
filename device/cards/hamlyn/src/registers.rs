//! BAR 0 (the card's own registers, behind the family's) and BAR 4 (doorbells).

use hamlyn_abi::hamlyn::registers::*;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::HAMLYN_DOORBELL_SIZE;
use hamlyn_card::card::Card;
use hamlyn_card::chassis::Written;
use hamlyn_card::ports::Ports;

use super::HamlynCard;

impl HamlynCard {
    pub(super) fn read_register(&self, offset: u32) -> u64 {
        self.chassis.read(offset).unwrap_or_else(|| self.read_own_register(offset))
    }

    fn read_own_register(&self, offset: u32) -> u64 {
        let options = &self.options;
        match offset {
            HAMLYN_REG_PACKET_SIZE => options.packet_size.into(),
            HAMLYN_REG_SRAM_SIZE => options.sram_size.into(),
            HAMLYN_REG_TERMINI => options.termini.into(),
            HAMLYN_REG_SLOTS => self.receiving.slots(),
            HAMLYN_REG_QUEUES => options.queues.into(),
            HAMLYN_REG_SRAM_FREE => self.sram.free().into(),
            HAMLYN_REG_SRAM_LONGEST => self.sram.longest().into(),
            _ => 0,
        }
    }

    pub(super) fn write_register(&mut self, ports: &Ports<'_>, offset: u32, width: u8, value: u64) {
        match self.chassis.write(ports, offset, width, value) {
            Written::Done => {}
            Written::Enabled => self.sending.number_from(ports.clock.now()),
            Written::Reset => self.reset(ports),
            Written::Command => self.run_command(ports),
            // All of the card's own registers are read-only.
            Written::Elsewhere => tracing::debug!(offset, value, "write to a register that is not there"),
        }
    }

    /// Handles a doorbell.
    pub(super) fn ring(&mut self, ports: &Ports<'_>, offset: u64) {
        self.counters.add(Statistic::Doorbells, 1);
        let terminus = (offset / u64::from(HAMLYN_DOORBELL_SIZE)) as u32;
        self.sending.ring(ports, terminus);
    }

    /// Starts to discard arriving packets if the host has failed to restart the handshake timer.
    pub(super) fn check_handshake(&mut self, ports: &Ports<'_>) {
        if self.chassis.check_handshake(ports.clock.now()) {
            self.counters.add(Statistic::HandshakeLapses, 1);
        }
    }
}
