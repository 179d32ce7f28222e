//! The Hamlyn card's entry in a catalogue of models.

use hamlyn_card::card::Card;
use hamlyn_card::model::{Choice, MakeError, Model, Setting};

use super::{HamlynCard, HamlynOptions};

const BY_DEFAULT: HamlynOptions = HamlynOptions::DEFAULT;

/// The Hamlyn card.
pub static MODEL: Model = Model {
    name: "hamlyn",
    paper: "Buzzard et al.: An Implementation of the Hamlyn Sender-Managed Interface Architecture",
    about: "Sender-based memory management (OSDI '96)",
    settings: &[
        Setting {
            name: "packet-size",
            unit: "BYTES",
            about: "The most data in a packet, in bytes: 256 to 65536, a multiple of 8",
            default: BY_DEFAULT.packet_size,
        },
        Setting {
            name: "sram",
            unit: "BYTES",
            about: "The card's memory for slots, queues and termini: 4096 to 67108864",
            default: BY_DEFAULT.sram_size,
        },
        Setting { name: "termini", unit: "N", about: "Send termini: 1 to 1024", default: BY_DEFAULT.termini },
        Setting {
            name: "queues",
            unit: "N",
            about: "Notification queues: 1 to 4096",
            default: BY_DEFAULT.queues,
        },
        Setting {
            name: "vectors",
            unit: "N",
            about: "Interrupt vectors: 2 to 16",
            default: BY_DEFAULT.vectors,
        },
        Setting {
            name: "coherent-windows",
            unit: "0|1",
            about: "Whether drivers may map windows cached: 1, or 0 as at a card of hardware, to compare",
            default: BY_DEFAULT.coherent_windows as u32,
        },
        Setting::HANDSHAKE,
    ],
    bursts: None,
    make,
};

fn make(choice: &Choice) -> Result<Box<dyn Card + Send>, MakeError> {
    let options = HamlynOptions {
        packet_size: choice.get("packet-size")?,
        sram_size: choice.get("sram")?,
        termini: choice.get("termini")?,
        queues: choice.get("queues")?,
        vectors: choice.get("vectors")?,
        handshake_ms: choice.get("handshake")?,
        coherent_windows: choice.in_range("coherent-windows", "coherent windows", 0..=1)? == 1,
    };
    Ok(Box::new(HamlynCard::new(options)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_reaches_the_card() {
        for (setting, value, refused) in [
            ("packet-size", 128, "packet size 128 is out of range"),
            ("sram", 8, "sram size 8 is out of range"),
            ("termini", 0, "number of termini 0 is out of range"),
            ("queues", 5000, "number of notification queues 5000 is out of range"),
            ("vectors", 1, "number of vectors 1 is out of range"),
            ("handshake", 7, "handshake period in ms 7 is out of range"),
            ("coherent-windows", 2, "coherent windows 2 is out of range"),
        ] {
            let mut choice = Choice::of(&MODEL);
            choice.set(setting, value).unwrap();
            let error = choice.make().err().unwrap().to_string();
            assert!(error.starts_with(refused), "{error}");
        }
    }

    #[test]
    fn unset_settings_keep_their_default() {
        let mut choice = Choice::of(&MODEL);
        let default = choice.get("packet-size").unwrap();
        for value in [1024, 2048] {
            choice.set("packet-size", value).unwrap();
            assert_eq!(choice.get("packet-size"), Ok(value));
        }
        assert_eq!(Choice::of(&MODEL).get("packet-size"), Ok(default));
    }

    #[test]
    fn unknown_setting_is_refused_by_name() {
        let mut choice = Choice::of(&MODEL);
        let refused = choice.set("colour", 3).unwrap_err();
        assert_eq!(refused.to_string(), "model hamlyn has no colour");
        assert_eq!(choice.get("colour"), Err(refused));
    }
}
