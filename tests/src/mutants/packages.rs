//! The packages whose tests can detect a break: the package that contains it, and its dependents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Prefix of every card's package.
const CARDS: &str = "hamlyn-card-";

/// The packages whose tests must detect breaks, from fast to slow.
const PACKAGES: [&str; 18] = [
    "hamlyn-door",
    "hamlyn-sys",
    "hamlyn-driver-host",
    "hamlyn-card",
    CARDS,
    "hamlyn-bus",
    "hamlyn-fabric",
    "hamlyn-snoop",
    "hamlyn-snoop-plugin",
    "hamlyn-switch",
    "hamlyn-trace",
    "hamlyn-faults",
    "hamlyn-replay",
    "hamlyn-host",
    "hamlyn",
    "hamlyn-fi",
    "hamlyn-sockets",
    "hamlyn-sim",
];

/// The packages, besides the cards, in which cargo-mutants makes breaks unless others are named.
const MECHANICAL: [&str; 5] = ["hamlyn-card", "hamlyn-bus", "hamlyn-fabric", "hamlyn-switch", "hamlyn"];

/// Files outside its own folder that a package, or its tests, compile.
const COMPILED: [(&str, &str); 3] = [
    ("guest-driver/kernel", "hamlyn-driver-host"),
    ("guest-driver/core/lane.c", "hamlyn-driver-host"),
    ("guest-driver/core/records.c", "hamlyn-driver-host"),
];

/// Cargo's data on a package.
#[derive(Debug)]
struct Package {
    /// Relative to the root of the repository.
    folder: String,
    needs: Vec<String>,
}

/// The packages of the repository.
#[derive(Debug)]
pub(super) struct Packages(BTreeMap<String, Package>);

impl Packages {
    /// Gets the packages from cargo.
    pub(super) fn of(root: &Path, cargo: &Path) -> Result<Self> {
        let mut command = Command::new(cargo);
        let command = command.args(["metadata", "--no-deps", "--offline", "--format-version=1"]);
        let output = command.current_dir(root).output().context("cannot start cargo")?;
        ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        let said: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
        let all = said["packages"].as_array().context("cargo metadata names no packages")?;
        Ok(Self(all.iter().filter_map(|package| read(package, root)).collect()))
    }

    /// Returns the packages in which cargo-mutants makes breaks unless others are named.
    pub(super) fn mechanical(&self) -> impl Iterator<Item = &str> {
        let names = self.0.keys().map(String::as_str);
        names.filter(|name| name.starts_with(CARDS) || MECHANICAL.contains(name))
    }

    /// Returns the packages whose tests can detect a break in a file: its own package first, then
    /// the others from fast to slow.
    pub(super) fn that_see(&self, file: &str) -> Vec<String> {
        let file = Path::new(file);
        let compiles = |name: &str| COMPILED.iter().any(|(path, by)| *by == name && file.starts_with(path));
        let holds = |name: &str| {
            compiles(name) || self.0.get(name).is_some_and(|package| file.starts_with(&package.folder))
        };
        // A package's folder may be inside another's.
        let depth = |name: &&str| self.0[*name].folder.len();
        let own = self.0.keys().map(String::as_str).filter(|name| holds(name)).max_by_key(depth);
        let Some(own) = own else { return Vec::new() };
        let named =
            |name: &&str, one: &str| if *name == CARDS { one.starts_with(CARDS) } else { one == *name };
        let all = PACKAGES.iter().flat_map(|name| self.0.keys().filter(|one| named(name, one)));
        let mut all: Vec<&str> =
            all.map(String::as_str).filter(|name| self.below(name).contains(own)).collect();
        all.sort_by_key(|name| *name != own);
        all.into_iter().map(str::to_owned).collect()
    }

    /// Returns a package and all that it depends on. For its tests it may depend on itself, and on
    /// packages that depend on it.
    fn below<'a>(&'a self, name: &'a str) -> BTreeSet<&'a str> {
        let (mut found, mut left) = (BTreeSet::new(), vec![name]);
        while let Some(name) = left.pop() {
            if found.insert(name) {
                left.extend(
                    self.0.get(name).iter().flat_map(|package| package.needs.iter().map(String::as_str)),
                );
            }
        }
        found
    }
}

fn read(package: &Value, root: &Path) -> Option<(String, Package)> {
    let folder = Path::new(package["manifest_path"].as_str()?).parent()?.strip_prefix(root).ok()?;
    let needs = package["dependencies"].as_array()?.iter();
    let needs = needs.filter(|need| need["path"].is_string()).filter_map(|need| need["name"].as_str());
    let needs = needs.map(str::to_owned).collect();
    Some((package["name"].as_str()?.to_owned(), Package { folder: folder.to_str()?.to_owned(), needs }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn break_is_tested_by_package_and_dependents() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let packages = Packages::of(root, Path::new(env!("CARGO"))).unwrap();
        assert_eq!(packages.that_see("tests/sim/src/lib.rs"), ["hamlyn-sim"]);
        assert_eq!(
            packages.that_see("guest-lib/src/lib.rs"),
            ["hamlyn", "hamlyn-fi", "hamlyn-sockets", "hamlyn-sim"]
        );
        for file in [
            "guest-driver/host/src/lib.rs",
            "guest-driver/kernel/peer.c",
            "guest-driver/core/lane.c",
            "guest-driver/core/records.c",
        ] {
            assert_eq!(
                packages.that_see(file),
                ["hamlyn-driver-host", "hamlyn", "hamlyn-fi", "hamlyn-sockets", "hamlyn-sim"]
            );
        }
        let chassis = packages.that_see("device/card/src/chassis/area.rs");
        assert!(chassis[0] == "hamlyn-card" && chassis[1].starts_with(CARDS), "{chassis:?}");
        assert_eq!(packages.that_see("device/cards/hamlyn/src/receiving/slot.rs")[0], "hamlyn-card-hamlyn");
        // The library's tests depend on a package that depends on the library.
        assert_eq!(packages.that_see("device/abi/src/lib.rs").last().unwrap(), "hamlyn-sim");
        // The contract has no tests of its own here.
        let contract = packages.that_see("device/abi/src/family/area.rs");
        assert!(
            contract.iter().any(|name| name == "hamlyn-card-hamlyn")
                && contract.iter().all(|name| name != "hamlyn-door"),
            "{contract:?}"
        );
        assert!(packages.that_see("guest-driver/core/card.c").is_empty());
    }
}
