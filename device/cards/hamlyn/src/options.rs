//! Options of a card: packet size, SRAM and others.

use hamlyn_abi::family::interrupts::ULN_MAX_VECTORS;
use hamlyn_abi::hamlyn::request::HAMLYN_MAX_METADATA;
use hamlyn_abi::hamlyn::sram::{
    HAMLYN_SRAM_NUMBER, HAMLYN_SRAM_QUEUE, HAMLYN_SRAM_SLOT, HAMLYN_SRAM_TERMINUS, HAMLYN_SRAM_UNIT,
};
use thiserror::Error;

use super::packet::HEADER_BYTES;

/// Options that a user chooses for a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HamlynOptions {
    /// The most data in a packet, in bytes: 256 to 65,536, a multiple of 8. The paper's authors
    /// settled on 1,024 for their bandwidths and overheads (section 4.3). Here a packet costs more
    /// than its bytes, so the default is 4,096.
    pub packet_size: u32,
    /// Size of the SRAM, in bytes: a multiple of 64. Termini, queues and slots share it. The
    /// prototype had 512 KiB (section 4).
    pub sram_size: u32,
    /// Number of send termini: 1 to 1,024.
    pub termini: u32,
    /// Number of notification queues: 1 to 4,096.
    pub queues: u32,
    /// Number of MSI-X vectors, 2 to 16: one for the link, the others for queues.
    pub vectors: u32,
    /// How long the host may go without restarting the handshake timer (section 2.8), in
    /// milliseconds: 100 to 600,000, or 0 for no limit. The default is long, because an emulated
    /// machine on a busy host may be late without being dead.
    pub handshake_ms: u32,
    /// Whether the card reports that its windows are memory of the machine's host, so that the
    /// driver maps them cached. They always are. A card that does not report it behaves like a
    /// hardware card.
    pub coherent_windows: bool,
}

impl HamlynOptions {
    /// The default options.
    pub const DEFAULT: Self = Self {
        packet_size: 4096,
        sram_size: 512 << 10,
        termini: 64,
        queues: 256,
        vectors: 8,
        handshake_ms: 8000,
        coherent_windows: true,
    };
}

impl Default for HamlynOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A card that cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OptionsError {
    /// A number is out of range.
    #[error("{name} {value} is out of range ({min} to {max})")]
    Range {
        /// Name of the option.
        name: &'static str,
        /// The requested value.
        value: u32,
        /// The minimum.
        min: u32,
        /// The maximum.
        max: u32,
    },
    /// The packet size is not a multiple of 8.
    #[error("packet size {0} is not a multiple of 8")]
    PacketSize(u32),
    /// The SRAM is not a multiple of its unit.
    #[error("sram size {0} is not a multiple of 64")]
    SramUnit(u32),
    /// The SRAM is too small for one terminus, one queue and one slot.
    #[error(
        "sram of {sram} bytes has no room for a terminus, a queue and a slot ({least} bytes): its directory of {termini} \
         termini and {queues} queues takes {directory} bytes"
    )]
    Sram {
        /// Size of the SRAM, in bytes.
        sram: u32,
        /// Bytes that one terminus, one queue and one slot take.
        least: u32,
        /// Number of termini.
        termini: u32,
        /// Number of queues.
        queues: u32,
        /// Size of the directory, in bytes.
        directory: u32,
    },
}

impl HamlynOptions {
    /// Returns the size of the largest packet that the card sends and takes, in bytes, without the
    /// fabric's header.
    #[must_use]
    pub fn largest_packet(&self) -> usize {
        HEADER_BYTES + HAMLYN_MAX_METADATA as usize + self.packet_size as usize
    }

    /// Returns the size of the SRAM's directory for `slots` slots, in bytes.
    #[must_use]
    pub fn directory(&self, slots: u32) -> u32 {
        ((self.termini + self.queues + slots) * HAMLYN_SRAM_NUMBER).next_multiple_of(HAMLYN_SRAM_UNIT)
    }

    /// Checks the options. Returns the number of slots: as many as the SRAM holds if nothing else
    /// is open.
    pub fn slots(&self) -> Result<u32, OptionsError> {
        for (name, value, min, max) in [
            ("packet size", self.packet_size, 256, 65536),
            ("sram size", self.sram_size, 4096, 64 << 20),
            ("number of termini", self.termini, 1, 1024),
            ("number of notification queues", self.queues, 1, 4096),
            ("number of vectors", self.vectors, 2, ULN_MAX_VECTORS),
        ] {
            if !(min..=max).contains(&value) {
                return Err(OptionsError::Range { name, value, min, max });
            }
        }
        if self.handshake_ms != 0 && !(100..=600_000).contains(&self.handshake_ms) {
            let (name, value) = ("handshake period in ms", self.handshake_ms);
            return Err(OptionsError::Range { name, value, min: 100, max: 600_000 });
        }
        if self.packet_size % 8 != 0 {
            return Err(OptionsError::PacketSize(self.packet_size));
        }
        if self.sram_size % HAMLYN_SRAM_UNIT != 0 {
            return Err(OptionsError::SramUnit(self.sram_size));
        }
        let least = HAMLYN_SRAM_TERMINUS + HAMLYN_SRAM_QUEUE + HAMLYN_SRAM_SLOT;
        let room = |slots| self.sram_size.checked_sub(self.directory(slots));
        if room(1).is_none_or(|room| room < least) {
            let Self { sram_size: sram, termini, queues, .. } = *self;
            return Err(OptionsError::Sram { sram, least, termini, queues, directory: self.directory(1) });
        }
        let numbers = (self.termini + self.queues) * HAMLYN_SRAM_NUMBER;
        let most = (self.sram_size - numbers) / (HAMLYN_SRAM_SLOT + HAMLYN_SRAM_NUMBER);
        // The directory takes whole units, so the last slot may not fit.
        let fits = room(most).is_some_and(|room| room >= most * HAMLYN_SRAM_SLOT);
        Ok(if fits { most } else { most - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_leaves_thousands_of_slots() {
        assert_eq!(HamlynOptions::default().slots(), Ok(3962));
    }

    #[test]
    fn refusals_name_value_and_limit() {
        let small = HamlynOptions { packet_size: 128, ..HamlynOptions::default() };
        assert_eq!(small.slots().unwrap_err().to_string(), "packet size 128 is out of range (256 to 65536)");
        let odd = HamlynOptions { packet_size: 257, ..HamlynOptions::default() };
        assert_eq!(odd.slots().unwrap_err().to_string(), "packet size 257 is not a multiple of 8");
        let odd = HamlynOptions { sram_size: 5000, ..HamlynOptions::default() };
        assert_eq!(odd.slots().unwrap_err().to_string(), "sram size 5000 is not a multiple of 64");
        let full = HamlynOptions { sram_size: 4096, queues: 4096, ..HamlynOptions::default() };
        assert_eq!(
            full.slots().unwrap_err().to_string(),
            "sram of 4096 bytes has no room for a terminus, a queue and a slot (704 bytes): its directory of 64 termini \
             and 4096 queues takes 16704 bytes"
        );
    }
}
