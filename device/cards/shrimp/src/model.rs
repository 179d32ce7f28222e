//! The model as a catalogue has it.

use hamlyn_card::card::Card;
use hamlyn_card::model::{Choice, MakeError, Model, Setting};
use thiserror::Error;

use super::ShrimpCard;
use super::packet::LARGEST;

/// How a card is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Entries of the page table.
    pub pages: u32,
    /// Columns of the mesh.
    pub columns: u32,
    /// Bytes of each FIFO.
    pub fifo: u32,
    /// Bytes of data in a packet of deliberate update.
    pub packet_size: u32,
    /// Microseconds in which a store may go into the packet of the one before; the driver may change it.
    pub merge_us: u32,
    /// Milliseconds, 0 for ever.
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
            about: "Data in a packet of deliberate update: 64 to 4096, a multiple of 4",
            default: 4096,
        },
        Setting {
            name: "merge-time",
            unit: "US",
            about: "How long a packet of blocked-write waits for the next store, in microseconds: 0 to 1000000",
            default: 50,
        },
        Setting {
            name: "handshake",
            unit: "MS",
            about: "How long the host may go without keeping the card's handshake before the card discards what \
                    arrives, in milliseconds: 100 to 600000, or 0 for ever",
            default: 8000,
        },
    ],
    bursts: None,
    make,
};

#[derive(Debug, Error)]
#[error("{what} {value} is out of range ({least} to {most})")]
struct OutOfRange {
    what: &'static str,
    value: u32,
    least: u32,
    most: u32,
}

#[derive(Debug, Error)]
#[error("update size {0} is not a multiple of 4")]
struct Uneven(u32);

fn make(choice: &Choice) -> Result<Box<dyn Card + Send>, MakeError> {
    let in_range = |name, what, least, most| {
        let value = choice.get(name)?;
        let possible = (least..=most).contains(&value);
        if possible { Ok(value) } else { Err(MakeError::from(OutOfRange { what, value, least, most })) }
    };
    let packet_size = in_range("update-size", "update size", 64, 4096)?;
    if packet_size % 4 != 0 {
        return Err(Uneven(packet_size).into());
    }
    let handshake_ms = match choice.get("handshake")? {
        0 => 0,
        _ => in_range("handshake", "handshake period in ms", 100, 600_000)?,
    };
    Ok(Box::new(ShrimpCard::new(Options {
        pages: in_range("pages", "number of pages", 16, 1 << 24)?,
        columns: in_range("columns", "number of columns", 1, 256)?,
        // At least a few of the largest packets.
        fifo: in_range("fifo", "FIFO size in bytes", 3 * LARGEST as u32, 1 << 26)?,
        packet_size,
        merge_us: in_range("merge-time", "merge time in us", 0, 1_000_000)?,
        handshake_ms,
    })))
}
