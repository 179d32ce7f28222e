//! How a card is built: packet size and SRAM.

use hamlyn_abi::family::interrupts::HAMLYN_MAX_VECTORS;
use hamlyn_abi::hamlyn::request::HAMLYN_MAX_METADATA;
use thiserror::Error;

use super::packet::HEADER_BYTES;

/// SRAM that a send terminus takes: its status address and 8 base and bound pairs.
const TERMINUS_BYTES: u32 = 512;
/// SRAM that a notification queue control block takes.
const QUEUE_BYTES: u32 = 64;
/// SRAM that a slot takes.
const SLOT_BYTES: u32 = 128;

/// What a person chooses about a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HamlynOptions {
    /// The most data in a packet, in bytes: 256 to 65,536, a multiple of 8. The paper's authors settled on 1,024 for
    /// their bandwidths and overheads (section 4.3); here a packet costs more than its bytes, so the default is 4,096.
    pub packet_size: u32,
    /// SRAM, in bytes. Slots get what termini and queues leave. The prototype had 512 KiB (section 4).
    pub sram_size: u32,
    /// Send termini, 1 to 1,024.
    pub termini: u32,
    /// Notification queues, 1 to 4,096.
    pub queues: u32,
    /// MSI-X vectors, 2 to 16: one for the link, the others for queues.
    pub vectors: u32,
    /// How long the host may go without restarting the handshake timer (section 2.8), in milliseconds: 100 to 600,000,
    /// or 0 for ever. Long by default: a machine that is emulated on a busy host may be late, and is not dead.
    pub handshake_ms: u32,
    /// Whether the card says that its windows are memory of the machine's host, so that the driver maps them cached. They
    /// are; a card that does not say so is what one of hardware would be.
    pub coherent_windows: bool,
}

impl HamlynOptions {
    /// What it is like if nobody chooses.
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
        /// Which.
        name: &'static str,
        /// What was asked for.
        value: u32,
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
    /// The packet size is not a multiple of 8.
    #[error("packet size {0} is not a multiple of 8")]
    PacketSize(u32),
    /// The tables do not fit.
    #[error(
        "sram of {sram} bytes has no room for a slot: {termini} termini and {queues} queues take {taken} bytes"
    )]
    Sram {
        /// SRAM bytes.
        sram: u32,
        /// Termini.
        termini: u32,
        /// Queues.
        queues: u32,
        /// Bytes that they take.
        taken: u32,
    },
}

impl HamlynOptions {
    /// The largest packet that the card sends and takes, in bytes, without the fabric's header.
    #[must_use]
    pub fn largest_packet(&self) -> usize {
        HEADER_BYTES + HAMLYN_MAX_METADATA as usize + self.packet_size as usize
    }

    /// Checks the choice, and says how many slots it leaves room for.
    pub fn slots(&self) -> Result<u32, OptionsError> {
        for (name, value, min, max) in [
            ("packet size", self.packet_size, 256, 65536),
            ("sram size", self.sram_size, 4096, 64 << 20),
            ("number of termini", self.termini, 1, 1024),
            ("number of notification queues", self.queues, 1, 4096),
            ("number of vectors", self.vectors, 2, HAMLYN_MAX_VECTORS),
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
        let taken = self.termini * TERMINUS_BYTES + self.queues * QUEUE_BYTES;
        match self.sram_size.checked_sub(taken).map(|left| left / SLOT_BYTES) {
            None | Some(0) => {
                let Self { sram_size: sram, termini, queues, .. } = *self;
                Err(OptionsError::Sram { sram, termini, queues, taken })
            }
            Some(slots) => Ok(slots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_leaves_thousands_of_slots() {
        assert_eq!(HamlynOptions::default().slots(), Ok(3712));
    }

    #[test]
    fn refusals_name_value_and_limit() {
        let small = HamlynOptions { packet_size: 128, ..HamlynOptions::default() };
        assert_eq!(small.slots().unwrap_err().to_string(), "packet size 128 is out of range (256 to 65536)");
        let odd = HamlynOptions { packet_size: 257, ..HamlynOptions::default() };
        assert_eq!(odd.slots().unwrap_err().to_string(), "packet size 257 is not a multiple of 8");
        let full = HamlynOptions { sram_size: 32768, ..HamlynOptions::default() };
        assert!(full.slots().unwrap_err().to_string().contains("no room for a slot"));
    }
}
