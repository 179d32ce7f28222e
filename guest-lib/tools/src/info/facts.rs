//! What `hamlyn-info` shows of a card of any model.

use std::path::{Path, PathBuf};

use hamlyn::attach::{CardAttachment, Model, Node};
use hamlyn_abi::family::link::ULN_NO_HOST;
use hamlyn_abi::uapi::UlnQuery;
use serde_json::Value;

/// Description of a card.
pub(crate) struct Facts {
    pub(crate) host: Option<u32>,
    pub(crate) ports: Option<u32>,
    /// Version of the interface between driver and library; `None` without a driver.
    pub(crate) interface: Option<u32>,
    pub(crate) abi_version: u32,
    /// Fields specific to the model.
    pub(crate) fields: Vec<Fact>,
    /// Limits of all cards of the model.
    pub(crate) limits: Vec<Fact>,
    pub(crate) counters: Vec<(&'static str, u64)>,
}

/// A name, a value and its unit.
pub(crate) type Fact = (&'static str, Value, &'static str);

impl Facts {
    /// Returns the facts that any card's driver reports.
    pub(crate) fn of(query: &UlnQuery, counters: Vec<(&'static str, u64)>) -> Self {
        Self {
            host: (query.host != ULN_NO_HOST).then_some(query.host),
            ports: (query.ports != 0).then_some(query.ports),
            interface: Some(query.uapi_version),
            abi_version: query.abi_version,
            fields: Vec::new(),
            limits: Vec::new(),
            counters,
        }
    }
}

/// Returns the driver's description of a card, and its counters with these names.
pub(crate) fn driven<M: Model>(
    name: &str,
    counters: &[&'static str],
) -> hamlyn::Result<(UlnQuery, Vec<(&'static str, u64)>)> {
    let node = Node::<M>::open(Path::new(name))?;
    let counted = node.statistics()?;
    Ok((node.query()?, counters.iter().copied().zip(counted.values).collect()))
}

/// Returns the sysfs folder of a card, which is in the class of its model.
pub(crate) fn class(node: &str) -> Option<PathBuf> {
    let model = node.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let path = Path::new("/sys/class").join(model).join(node);
    path.exists().then_some(path)
}
