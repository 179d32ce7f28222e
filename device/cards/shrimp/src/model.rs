//! The SHRIMP card's entry in a catalogue of models.

use hamlyn_card::card::Card;
use hamlyn_card::model::{Choice, MakeError, Model, Setting};

use super::ShrimpCard;
use super::packet::LARGEST;

/// Options of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Number of entries of the page table.
    pub pages: u32,
    /// Number of columns of the mesh.
    pub columns: u32,
    /// Size of each FIFO, in bytes.
    pub fifo: u32,
    /// Number of bytes that the engine reads in a turn and puts into a packet.
    pub packet_size: u32,
    /// Time in which a store may join the packet of the previous one, in microseconds. The driver
    /// may change it.
    pub merge_us: u32,
    /// Handshake period in milliseconds, or 0 for no limit.
    pub handshake_ms: u32,
}

/// The SHRIMP card.
pub static MODEL: Model = Model {
    name: "shrimp",
    paper: "Blumrich et al.: Virtual Memory Mapped Network Interface for the SHRIMP Multicomputer",
    about: "Stores that travel to another host's memory (ISCA '94)",
    settings: &[
        Setting {
            name: "pages",
            unit: "N",
            about: "Entries of the page table, one for each 4 KiB of the machine's address space from 0: 16 to 16777216",
            default: 1 << 20,
        },
        Setting {
            name: "columns",
            unit: "N",
            about: "Columns of the backplane's mesh, by which hosts have their coordinates: 1 to 256",
            default: 4,
        },
        Setting {
            name: "fifo",
            unit: "BYTES",
            about: "What the Outgoing and the Incoming FIFO hold each, in bytes: 16384 to 67108864",
            default: 1 << 18,
        },
        Setting {
            name: "update-size",
            unit: "BYTES",
            about: "Bytes that deliberate update reads at once and sends as a packet: 64 to 4096, a multiple of 4",
            default: 1024,
        },
        Setting {
            name: "merge-time",
            unit: "US",
            about: "How long a packet of blocked-write waits for the next store, in microseconds: 0 to 1000000",
            default: 50,
        },
        Setting::HANDSHAKE,
    ],
    bursts: None,
    make,
};

fn make(choice: &Choice) -> Result<Box<dyn Card + Send>, MakeError> {
    Ok(Box::new(ShrimpCard::new(Options {
        pages: choice.in_range("pages", "number of pages", 16..=1 << 24)?,
        columns: choice.in_range("columns", "number of columns", 1..=256)?,
        // Room for at least a few of the largest packets.
        fifo: choice.in_range("fifo", "FIFO size in bytes", 3 * LARGEST as u32..=1 << 26)?,
        packet_size: choice.multiple_in_range("update-size", "update size", 4, 64..=4096)?,
        merge_us: choice.in_range("merge-time", "merge time in us", 0..=1_000_000)?,
        handshake_ms: choice.handshake_ms()?,
    })))
}
