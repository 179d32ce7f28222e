//! The model as a catalogue has it.

use hamlyn_abi::clan::command::CLAN_NO_EVENTS;
use hamlyn_abi::clan::registers::{CLAN_JOIN_ARRIVING, CLAN_JOIN_LEAVING, CLAN_MAX_READ_TIMEOUT};
use hamlyn_card::card::Card;
use hamlyn_card::model::{Bursts, Choice, MakeError, Model, Setting};
use thiserror::Error;

use super::{ClanCard, packet};

/// How a card is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Apertures.
    pub apertures: u32,
    /// Window pages.
    pub window_pages: u32,
    /// Endpoints.
    pub endpoints: u32,
    /// Tripwires of all endpoints together.
    pub tripwires: u32,
    /// Event queues.
    pub event_queues: u32,
    /// The most bytes of data in a packet, a multiple of 8.
    pub burst: u32,
    /// Words that a host may have on their way to another.
    pub credits: u32,
    /// `CLAN_JOIN_*`, any of them; the driver may change it.
    pub join: u32,
    /// Milliseconds that a remote read may take; the driver may change it.
    pub read_timeout_ms: u32,
    /// Milliseconds, 0 for ever.
    pub handshake_ms: u32,
}

/// The CLAN card.
pub static MODEL: Model = Model {
    name: "clan",
    paper: "Riddoch et al.: Tripwire: A Synchronisation Primitive for Virtual Memory Mapped Communication",
    about: "Shared memory across the network, and Tripwires that tell of it (ICA3PP 2000)",
    settings: &[
        Setting { name: "apertures", unit: "N", about: "Apertures: 16 to 65536", default: 4096 },
        Setting {
            name: "window-pages",
            unit: "N",
            about: "Pages of windows onto other hosts' apertures: 64 to 262144",
            default: 4096,
        },
        Setting { name: "endpoints", unit: "N", about: "Endpoints: 8 to 16384", default: 2048 },
        Setting {
            name: "tripwires",
            unit: "N",
            about: "Tripwires of all endpoints together: 16 to 262144",
            default: 4096,
        },
        Setting { name: "event-queues", unit: "N", about: "Event queues: 8 to 4096", default: 256 },
        Setting {
            name: "burst",
            unit: "BYTES",
            about: "The most data in a packet: 64 to 65536, a multiple of 8",
            default: 16384,
        },
        Setting {
            name: "credits",
            unit: "WORDS",
            about: "How many words of 8 bytes a host may have on their way to another: 8192 to 1048576",
            default: 32768,
        },
        Setting {
            name: "join",
            unit: "MASK",
            about: "Where bursts are joined: 1 on the way out, 2 on arrival, 3 both, 0 neither",
            default: CLAN_JOIN_LEAVING | CLAN_JOIN_ARRIVING,
        },
        Setting {
            name: "read-timeout",
            unit: "MS",
            about: "How long a remote read may take, in milliseconds: 1 to 10000",
            default: 1500,
        },
        Setting {
            name: "handshake",
            unit: "MS",
            about: "How long the host may go without keeping the card's handshake before the card discards what \
                    arrives, in milliseconds: 100 to 600000, or 0 for ever",
            default: 8000,
        },
    ],
    bursts: Some(Bursts { cut: packet::cut, join: packet::join }),
    make,
};

/// A number of event queues is never taken for none.
const _: () = assert!(CLAN_NO_EVENTS > 4096);

#[derive(Debug, Error)]
#[error("{what} {value} is out of range ({least} to {most})")]
struct OutOfRange {
    what: &'static str,
    value: u32,
    least: u32,
    most: u32,
}

#[derive(Debug, Error)]
#[error("burst {0} is not a multiple of 8")]
struct Uneven(u32);

fn make(choice: &Choice) -> Result<Box<dyn Card + Send>, MakeError> {
    let in_range = |name, what, least, most| {
        let value = choice.get(name)?;
        let possible = (least..=most).contains(&value);
        if possible { Ok(value) } else { Err(MakeError::from(OutOfRange { what, value, least, most })) }
    };
    let burst = in_range("burst", "burst", 64, 65536)?;
    if burst % 8 != 0 {
        return Err(Uneven(burst).into());
    }
    let handshake_ms = match choice.get("handshake")? {
        0 => 0,
        _ => in_range("handshake", "handshake period in ms", 100, 600_000)?,
    };
    Ok(Box::new(ClanCard::new(Options {
        apertures: in_range("apertures", "number of apertures", 16, 65536)?,
        window_pages: in_range("window-pages", "number of window pages", 64, 262_144)?,
        endpoints: in_range("endpoints", "number of endpoints", 8, 16384)?,
        tripwires: in_range("tripwires", "number of Tripwires", 16, 262_144)?,
        event_queues: in_range("event-queues", "number of event queues", 8, 4096)?,
        burst,
        // At least a packet.
        credits: in_range("credits", "number of credits", 8192, 1_048_576)?,
        join: in_range("join", "join mask", 0, CLAN_JOIN_LEAVING | CLAN_JOIN_ARRIVING)?,
        read_timeout_ms: in_range("read-timeout", "read time-out in ms", 1, CLAN_MAX_READ_TIMEOUT)?,
        handshake_ms,
    })))
}
