//! Description of a Hamlyn card.

use std::path::Path;

use hamlyn::Card;
use hamlyn::attach::{CardAttachment, DeviceAttachment};
use hamlyn_abi::family::area::ULN_MAX_AREA;
use hamlyn_abi::hamlyn::command::HAMLYN_MAX_WEIGHT;
use hamlyn_abi::hamlyn::notification::HAMLYN_QUEUE_MAX_ENTRIES;
use hamlyn_abi::hamlyn::request::{HAMLYN_MAX_GATHER, HAMLYN_MAX_METADATA};
use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_ENTRIES;

use super::facts::Facts;
use crate::Outcome;

/// Limits of all Hamlyn cards.
const LIMITS: [(&str, u64, &str); 6] = [
    ("max_area", ULN_MAX_AREA, " bytes"),
    ("max_queue_entries", HAMLYN_QUEUE_MAX_ENTRIES as u64, ""),
    ("max_metadata", HAMLYN_MAX_METADATA as u64, " bytes"),
    ("max_gather", HAMLYN_MAX_GATHER as u64, ""),
    ("max_weight", HAMLYN_MAX_WEIGHT as u64, ""),
    ("work_queue_entries", HAMLYN_WORK_QUEUE_ENTRIES as u64, ""),
];

pub(crate) fn facts(name: &str, card: &Card) -> Outcome<Facts> {
    let (info, counters) = (card.info()?, card.statistics()?);
    let is_driven = name.starts_with("/dev/");
    let interface = is_driven.then(|| DeviceAttachment::open(Path::new(name))?.query()).transpose()?;
    Ok(Facts {
        host: info.host,
        ports: info.ports,
        interface: interface.map(|query| query.uapi_version),
        abi_version: info.abi_version,
        fields: [
            ("packet_size", Some(info.packet_size), " bytes"),
            ("sram_size", Some(info.sram_size), " bytes"),
            ("sram_free", info.sram_free, " bytes"),
            ("termini", Some(info.termini), ""),
            ("slots", Some(info.slots), ""),
            ("queues", Some(info.queues), ""),
            ("vectors", Some(info.vectors), ""),
        ]
        .into_iter()
        .filter_map(|(name, value, unit)| Some((name, value?.into(), unit)))
        .collect(),
        limits: LIMITS.map(|(name, value, unit)| (name, value.into(), unit)).to_vec(),
        counters: counters.into_iter().map(|(counter, value)| (counter.name(), value)).collect(),
    })
}
