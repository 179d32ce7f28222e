//! How the stores of a machine's processors reach a card that snoops them.

use std::env;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::ValueEnum;

use super::accel::Accelerator;
use super::kit::Kit;

/// File name of the plugin.
const PLUGIN: &str = "libhamlyn_snoop.so";

/// Whether stores are snooped, as the user asks for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Snoop {
    /// Snooped where that is possible, otherwise by window.
    #[default]
    Auto,
    /// The card sees them on the machine's bus: needs emulation, and the plugin of QEMU.
    Yes,
    /// The card has a window, and processors store there: works everywhere.
    No,
}

/// How stores reach the card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stores {
    /// Reported by this plugin of QEMU.
    Snooped(PathBuf),
    /// Through the card's window, for this reason.
    ByWindow(&'static str),
}

impl Snoop {
    /// Chooses how stores reach the cards. Returns `None` if no card snoops stores. Fails with the
    /// reason if the user asks for snooping and it is not possible.
    pub fn decide(
        self,
        are_wanted: bool,
        accelerator: Accelerator,
        plugin: Option<PathBuf>,
    ) -> anyhow::Result<Option<Stores>> {
        let stores = match (self, accelerator, plugin) {
            (Snoop::Yes, ..) if !are_wanted => {
                bail!("no card here sees stores, so --snoop yes makes no sense")
            }
            _ if !are_wanted => return Ok(None),
            (Snoop::No, ..) => Stores::ByWindow("--snoop no"),
            (_, Accelerator::Kvm, _) => Stores::ByWindow("KVM"),
            (_, Accelerator::Tcg, None) => Stores::ByWindow("no plugin, see ./scripts/prepare"),
            (_, Accelerator::Tcg, Some(plugin)) => Stores::Snooped(plugin),
        };
        match (self, &stores) {
            (Snoop::Yes, Stores::ByWindow(why)) => bail!("stores cannot be snooped here: {why}"),
            _ => Ok(Some(stores)),
        }
    }
}

impl Stores {
    /// Returns the plugin for a machine, if one reports its stores.
    pub fn plugin(&self) -> Option<&Path> {
        match self {
            Stores::Snooped(plugin) => Some(plugin),
            Stores::ByWindow(_) => None,
        }
    }
}

impl Display for Stores {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Stores::Snooped(_) => f.write_str("stores are snooped"),
            Stores::ByWindow(why) => write!(f, "stores by window: {why}"),
        }
    }
}

/// Finds the plugin of QEMU: beside this program, where `./scripts/install` puts it, or in the kit.
pub fn plugin() -> Option<PathBuf> {
    let program = env::current_exe().ok();
    let folder = program.as_deref().and_then(Path::parent);
    let near = folder.into_iter().flat_map(|folder| [folder.to_owned(), folder.join("../lib/hamlyn")]);
    let kit = Kit::find().ok().map(|kit| kit.programs);
    near.chain(kit).map(|folder| folder.join(PLUGIN)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_snooped_where_that_is_possible() {
        let plugin = || Some(PathBuf::from("/lib/plugin.so"));
        let say = |asked: Snoop, accelerator, plugin| match asked.decide(true, accelerator, plugin) {
            Ok(stores) => stores.unwrap().to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(say(Snoop::Auto, Accelerator::Tcg, plugin()), "stores are snooped");
        assert_eq!(say(Snoop::Yes, Accelerator::Tcg, plugin()), "stores are snooped");
        assert_eq!(say(Snoop::No, Accelerator::Tcg, plugin()), "stores by window: --snoop no");
        assert_eq!(say(Snoop::Auto, Accelerator::Kvm, plugin()), "stores by window: KVM");
        assert!(say(Snoop::Auto, Accelerator::Tcg, None).starts_with("stores by window: no plugin"));
        assert_eq!(say(Snoop::Yes, Accelerator::Kvm, plugin()), "stores cannot be snooped here: KVM");
        let stores = Snoop::Auto.decide(true, Accelerator::Tcg, plugin()).unwrap().unwrap();
        assert_eq!(stores.plugin(), plugin().as_deref());
    }

    #[test]
    fn cards_that_see_no_stores_need_no_plugin() {
        let decide = |asked: Snoop| asked.decide(false, Accelerator::Tcg, Some("/lib/plugin.so".into()));
        assert_eq!(decide(Snoop::Auto).unwrap(), None);
        assert_eq!(decide(Snoop::No).unwrap(), None);
        assert!(decide(Snoop::Yes).unwrap_err().to_string().contains("no card here sees stores"));
    }
}
