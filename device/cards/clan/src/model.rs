//! The CLAN card's entry in a catalogue of models.

use hamlyn_abi::clan::command::CLAN_NO_EVENTS;
use hamlyn_abi::clan::registers::{CLAN_JOIN_ARRIVING, CLAN_JOIN_LEAVING, CLAN_MAX_READ_TIMEOUT};
use hamlyn_card::card::Card;
use hamlyn_card::model::{Bursts, Choice, MakeError, Model, Setting};

use super::{ClanCard, packet};

/// Options of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Number of apertures.
    pub apertures: u32,
    /// Number of window pages.
    pub window_pages: u32,
    /// Number of endpoints.
    pub endpoints: u32,
    /// Number of Tripwires of all endpoints together.
    pub tripwires: u32,
    /// Number of event queues.
    pub event_queues: u32,
    /// The most data in a packet, in bytes: a multiple of 8.
    pub burst: u32,
    /// Number of words that a host may have in flight to another.
    pub credits: u32,
    /// Any of `CLAN_JOIN_*`. The driver may change it.
    pub join: u32,
    /// Time that a remote read may take, in milliseconds. The driver may change it.
    pub read_timeout_ms: u32,
    /// Handshake period in milliseconds, or 0 for no limit.
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
            about: "How many words of 8 bytes a host may have in flight to another: 8192 to 1048576",
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
            about: "How long a remote read may take, in milliseconds: 1 to 1900",
            default: 1500,
        },
        Setting::HANDSHAKE,
    ],
    bursts: Some(Bursts { cut: packet::cut, join: packet::join }),
    make,
};

/// The number of an event queue is never mistaken for `CLAN_NO_EVENTS`.
const _: () = assert!(CLAN_NO_EVENTS > 4096);

fn make(choice: &Choice) -> Result<Box<dyn Card + Send>, MakeError> {
    Ok(Box::new(ClanCard::new(Options {
        apertures: choice.in_range("apertures", "number of apertures", 16..=65536)?,
        window_pages: choice.in_range("window-pages", "number of window pages", 64..=262_144)?,
        endpoints: choice.in_range("endpoints", "number of endpoints", 8..=16384)?,
        tripwires: choice.in_range("tripwires", "number of Tripwires", 16..=262_144)?,
        event_queues: choice.in_range("event-queues", "number of event queues", 8..=4096)?,
        burst: choice.multiple_in_range("burst", "burst", 8, 64..=65536)?,
        // At least the words of one packet.
        credits: choice.in_range("credits", "number of credits", 8192..=1_048_576)?,
        join: choice.in_range("join", "join mask", 0..=CLAN_JOIN_LEAVING | CLAN_JOIN_ARRIVING)?,
        read_timeout_ms: choice.in_range("read-timeout", "read time-out in ms", 1..=CLAN_MAX_READ_TIMEOUT)?,
        handshake_ms: choice.handshake_ms()?,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_reaches_the_card() {
        for (setting, value, refused) in [
            ("apertures", 15, "number of apertures 15 is out of range (16 to 65536)"),
            ("window-pages", 63, "number of window pages 63 is out of range (64 to 262144)"),
            ("endpoints", 7, "number of endpoints 7 is out of range (8 to 16384)"),
            ("tripwires", 15, "number of Tripwires 15 is out of range (16 to 262144)"),
            ("event-queues", 4097, "number of event queues 4097 is out of range (8 to 4096)"),
            ("burst", 65544, "burst 65544 is out of range (64 to 65536)"),
            ("burst", 68, "burst 68 is not a multiple of 8"),
            ("credits", 8191, "number of credits 8191 is out of range (8192 to 1048576)"),
            ("join", 4, "join mask 4 is out of range (0 to 3)"),
            ("read-timeout", 2000, "read time-out in ms 2000 is out of range (1 to 1900)"),
            ("read-timeout", 0, "read time-out in ms 0 is out of range (1 to 1900)"),
            ("handshake", 99, "handshake period in ms 99 is out of range (100 to 600000)"),
        ] {
            let mut choice = Choice::of(&MODEL);
            choice.set(setting, value).unwrap();
            assert_eq!(choice.make().err().unwrap().to_string(), refused);
        }
        let mut choice = Choice::of(&MODEL);
        choice.set("handshake", 0).unwrap();
        assert!(choice.make().is_ok());
    }
}
