//! Crates of others: their licences, sources and versions, as `deny.toml` allows them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, LicenseReq, ParseMode};
use toml::Table;

use super::root;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn rules() -> Table {
    std::fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

/// Returns the strings of a list of `deny.toml`.
fn strings(list: &toml::Value) -> BTreeSet<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// Returns the packages of others that programs and tests are built of.
fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let target = ["--filter-platform", "x86_64-unknown-linux-gnu"];
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(target)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().filter(|package| !package["source"].is_null()).cloned().collect()
}

/// Returns whether a licence permits what the workspace does with the crate.
fn is_allowed(rules: &Table, name: &str, licence: &str) -> bool {
    let licences = rules["licenses"].as_table().unwrap();
    let mut allowed = strings(&licences["allow"]);
    for exception in licences["exceptions"].as_array().unwrap() {
        if exception["name"].as_str() == Some(name) {
            allowed.extend(strings(&exception["allow"]));
        }
    }
    let expression = Expression::parse_mode(licence, ParseMode::LAX).unwrap();
    let is_one = |licence: &LicenseReq| licence.license.id().is_some_and(|id| allowed.contains(id.name));
    expression.evaluate(is_one)
}

#[test]
fn licences_and_sources_are_allowed() {
    let rules = rules();
    let packages = packages();
    assert!(packages.len() > 100, "{}", packages.len());
    for package in packages {
        let text = |field: &str| package[field].as_str().unwrap_or_default();
        let (name, licence) = (text("name"), text("license"));
        assert!(is_allowed(&rules, name, licence), "{name}: {licence}");
        assert_eq!(text("source"), CRATES_IO, "{name}");
    }
    assert!(!is_allowed(&rules, "other", "MPL-2.0") && !is_allowed(&rules, "other", "MIT AND GPL-3.0-only"));
}

#[test]
fn several_versions_are_listed() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        let text = |field: &str| package[field].as_str().unwrap().to_owned();
        versions.entry(text("name")).or_default().insert(text("version"));
    }
    let several: BTreeSet<&str> =
        versions.iter().filter(|(_, versions)| versions.len() > 1).map(|(name, _)| name.as_str()).collect();
    let rules = rules();
    let skipped = rules["bans"]["skip"].as_array().unwrap();
    let listed: BTreeSet<&str> = skipped.iter().map(|skipped| skipped["name"].as_str().unwrap()).collect();
    assert_eq!(several, listed, "deny.toml lists crates of which several versions are built");
}
