//! The commands for Tripwires.

use std::collections::BTreeMap;

use hamlyn::clan::*;
use serde_json::{Value, json};

use crate::common::Outcome;
use crate::desk::{PATIENCE, get};

/// The Tripwires that are set, by number.
#[derive(Default)]
pub(crate) struct Tripwires {
    set: BTreeMap<u64, Tripwire>,
}

impl Tripwires {
    pub(crate) fn obey(
        &mut self,
        endpoints: &BTreeMap<u64, Endpoint>,
        apertures: &BTreeMap<u64, Aperture>,
        words: &[&str],
    ) -> Outcome<Value> {
        match *words {
            ["watch", endpoint, aperture, from, to, ref how @ ..] => {
                let watch = Watch::local(get(apertures, aperture)?, from.parse()?..to.parse()?)?;
                self.watch(get(endpoints, endpoint)?, watch, how)
            }
            ["watch-remote", endpoint, descriptor, from, to, ref how @ ..] => {
                let watch = Watch::remote(&descriptor.parse()?, from.parse()?..to.parse()?)?;
                self.watch(get(endpoints, endpoint)?, watch, how)
            }
            ["tripped", number] => Ok(json!({ "fired": self.get(number)?.wait_timeout(PATIENCE)? })),
            ["count", number] => Ok(json!({ "count": self.get(number)?.count() })),
            ["enable", number] => {
                self.get(number)?.enable()?;
                Ok(json!({ "enabled": true }))
            }
            _ => Err(format!("what is {words:?}?").into()),
        }
    }

    fn watch(&mut self, endpoint: &Endpoint, mut watch: Watch, how: &[&str]) -> Outcome<Value> {
        for word in how {
            watch = match *word {
                "reads" => watch.reads(),
                "all" => watch.reads_and_writes(),
                "once" => watch.once(),
                "interrupting" => watch.interrupting(),
                _ => return Err(format!("how is {word}?").into()),
            };
        }
        let number = self.set.len() as u64;
        self.set.insert(number, endpoint.tripwire(&watch)?);
        Ok(json!({ "tripwire": number }))
    }

    pub(crate) fn get(&mut self, number: &str) -> Outcome<&mut Tripwire> {
        self.set.get_mut(&number.parse()?).ok_or_else(|| format!("there is no Tripwire {number}").into())
    }
}
