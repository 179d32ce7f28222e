//! BAR 0 (registers) and BAR 4 (doorbells).

use hamlyn_abi::card::*;
use hamlyn_abi::hamlyn::registers::*;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::HAMLYN_DOORBELL_SIZE;

use super::HamlynCard;
use crate::card::Card;
use crate::ports::Ports;

/// The upper half of the command page's address, for hosts that write 4 bytes at a time.
const COMMAND_PAGE_HIGH: u32 = HAMLYN_REG_COMMAND_PAGE + 4;

impl HamlynCard {
    pub(super) fn read_register(&self, offset: u32) -> u64 {
        let options = &self.options;
        match offset {
            HAMLYN_REG_MAGIC => HAMLYN_MAGIC.into(),
            HAMLYN_REG_MODEL => HAMLYN_MODEL_HAMLYN.into(),
            HAMLYN_REG_ABI_VERSION => HAMLYN_ABI_VERSION.into(),
            HAMLYN_REG_HOST_ID => self.place.map_or(HAMLYN_NO_HOST, |place| place.host.into()).into(),
            HAMLYN_REG_LINK => self.place.is_some().into(),
            HAMLYN_REG_LINK_CHANGES => self.link_changes.into(),
            HAMLYN_REG_SCRATCH => u64::from(!self.scratch),
            HAMLYN_REG_CONTROL if self.enabled => HAMLYN_CONTROL_ENABLE.into(),
            HAMLYN_REG_PACKET_SIZE => options.packet_size.into(),
            HAMLYN_REG_SRAM_SIZE => options.sram_size.into(),
            HAMLYN_REG_TERMINI => options.termini.into(),
            HAMLYN_REG_SLOTS => self.slots.len() as u64,
            HAMLYN_REG_QUEUES => options.queues.into(),
            HAMLYN_REG_VECTORS => options.vectors.into(),
            HAMLYN_REG_COMMAND_PAGE => self.command_page,
            COMMAND_PAGE_HIGH => self.command_page >> 32,
            HAMLYN_REG_COMMAND_STATUS => self.command_status.into(),
            HAMLYN_REG_HANDSHAKE_TIMEOUT => options.handshake_ms.into(),
            HAMLYN_REG_PORTS => self.place.map_or(0, |place| place.ports).into(),
            _ => 0,
        }
    }

    pub(super) fn write_register(&mut self, ports: &Ports<'_>, offset: u32, width: u8, value: u64) {
        match offset {
            HAMLYN_REG_SCRATCH => self.scratch = value as u32,
            HAMLYN_REG_INTERRUPT_TEST => match u16::try_from(value) {
                Ok(vector) if u32::from(vector) < self.options.vectors => ports.interrupt.raise(vector),
                _ => tracing::debug!(value, limit = self.options.vectors - 1, "no such vector to test"),
            },
            HAMLYN_REG_CONTROL if value as u32 & HAMLYN_CONTROL_RESET != 0 => self.reset(ports),
            HAMLYN_REG_CONTROL => self.enable(ports, value as u32 & HAMLYN_CONTROL_ENABLE != 0),
            HAMLYN_REG_HANDSHAKE if self.enabled => self.handshake.restart(ports.clock.now()),
            // Misaligned bits cannot be set.
            HAMLYN_REG_COMMAND_PAGE if width == 8 => self.command_page = value & !0xfff,
            HAMLYN_REG_COMMAND_PAGE => {
                self.command_page = self.command_page >> 32 << 32 | value & 0xffff_f000
            }
            COMMAND_PAGE_HIGH => self.command_page = value << 32 | self.command_page & 0xffff_ffff,
            HAMLYN_REG_COMMAND_GO => self.run_command(ports),
            _ => tracing::debug!(offset, value, "write to a register that is not there"),
        }
    }

    /// A doorbell: from now on the card looks at the terminus' work queue unasked.
    pub(super) fn ring(&mut self, ports: &Ports<'_>, offset: u64) {
        self.counters.add(Statistic::Doorbells, 1);
        let terminus = (offset / u64::from(HAMLYN_DOORBELL_SIZE)) as u32;
        if self.termini.get(terminus as usize).is_some_and(Option::is_some) {
            self.wake(ports, terminus);
        }
    }

    /// Takes part in the fabric, or discards what arrives (section 2.8).
    fn enable(&mut self, ports: &Ports<'_>, enabled: bool) {
        self.enabled = enabled;
        if enabled {
            let now = ports.clock.now();
            self.handshake.restart(now);
            self.fetches.number_from(now);
        } else {
            self.handshake.stop();
        }
    }

    /// Discards what arrives from now on if the host has failed to restart the handshake timer.
    pub(super) fn check_handshake(&mut self, ports: &Ports<'_>) {
        if self.handshake.has_lapsed(ports.clock.now()) {
            self.counters.add(Statistic::HandshakeLapses, 1);
            tracing::warn!(
                "the host has not restarted the handshake timer for {} ms: what arrives is discarded",
                self.options.handshake_ms
            );
            self.enable(ports, false);
        }
    }
}
