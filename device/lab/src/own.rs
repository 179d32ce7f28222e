//! What one machine of a lab has of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hamlyn_host::catalogue::{Choice, Model};

use super::memory::Memory;
use super::name::Name;
use super::system::System;

/// What one machine has of its own. Where it has nothing, the lab's description holds.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// Its name. The default is `vm` and its index.
    pub name: Option<Name>,
    /// Its memory.
    pub memory: Option<Memory>,
    /// Its kernel.
    pub kernel: Option<PathBuf>,
    /// Its initial RAM disk, without the disk of programs. Its boot is not waited for.
    pub initrd: Option<PathBuf>,
    /// Words for its kernel's command line, after the lab's.
    pub append: String,
    /// A disk image that is its root.
    pub system: Option<System>,
    /// More arguments for its QEMU.
    pub qemu_args: Vec<String>,
    /// Settings of its card, by name.
    pub settings: BTreeMap<&'static str, u32>,
}

/// Returns the arguments of a process of several cards for the settings that any of them has of its
/// own: a list with a value for each card.
pub(super) fn settings_of_all(own: &[Own], models: &[&'static Model]) -> Vec<String> {
    let mut names: Vec<&'static str> = own.iter().flat_map(|own| own.settings.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let value = |name: &'static str, index: usize, model: &'static Model| {
        let own = own.get(index).and_then(|own| own.settings.get(name).copied());
        // A card without the setting ignores its value.
        own.unwrap_or_else(|| Choice::of(model).get(name).unwrap_or_default()).to_string()
    };
    let list = |name| {
        let values = models.iter().enumerate().map(|(index, model)| value(name, index, model));
        format!("--{name}={}", values.collect::<Vec<_>>().join(","))
    };
    names.into_iter().map(list).collect()
}

#[cfg(test)]
mod tests {
    use hamlyn_host::catalogue;

    use super::*;

    #[test]
    fn card_without_own_setting_gets_models_default() {
        let own = |settings: &[(&'static str, u32)]| Own {
            settings: settings.iter().copied().collect(),
            ..Own::default()
        };
        let all = [own(&[("packet-size", 1024)]), own(&[("termini", 16)])];
        let model = catalogue::find("hamlyn").unwrap();
        let termini = Choice::of(model).get("termini").unwrap();
        // The third card is a spare one.
        let lists = settings_of_all(&all, &[model; 3]);
        assert_eq!(
            lists,
            ["--packet-size=1024,4096,4096".to_owned(), format!("--termini={termini},16,{termini}")]
        );
        assert!(settings_of_all(&[], &[model; 2]).is_empty());
    }
}
