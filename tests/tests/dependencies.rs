//! Dependencies point one way (docs/ARCHITECTURE.md).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What each crate may depend on, of ours. `cli`, the tests and the benchmark may use everything.
const MAY: &[(&str, &[&str])] = &[
    ("hamlyn-abi", &[]),
    ("hamlyn-door", &[]),
    ("hamlyn-fabric", &["hamlyn-door"]),
    ("hamlyn-agent", &[]),
    ("hamlyn-bus", &["hamlyn-door"]),
    (
        "hamlyn-host",
        &["hamlyn-bus", "hamlyn-card", "hamlyn-card-hamlyn", "hamlyn-door", "hamlyn-fabric", "hamlyn-switch"],
    ),
    ("hamlyn-card", &["hamlyn-abi"]),
    // No card sees another.
    ("hamlyn-card-hamlyn", &["hamlyn-abi", "hamlyn-card"]),
    (
        "hamlyn-sim",
        &[
            "hamlyn",
            "hamlyn-abi",
            "hamlyn-card",
            "hamlyn-card-hamlyn",
            "hamlyn-fabric",
            "hamlyn-switch",
            "hamlyn-sys",
            "hamlyn-system",
        ],
    ),
    ("hamlyn-switch", &["hamlyn-door", "hamlyn-fabric"]),
    ("hamlyn-sys", &["hamlyn-abi"]),
    ("hamlyn-system", &["hamlyn-abi"]),
    ("hamlyn", &["hamlyn-abi", "hamlyn-sys", "hamlyn-system"]),
    ("hamlyn-c", &["hamlyn"]),
    ("hamlyn-tools", &["hamlyn", "hamlyn-abi"]),
    ("hamlyn-bench-guest", &["hamlyn", "hamlyn-abi", "hamlyn-sys"]),
];

/// What a card must not name in its sources: it is a pure state machine.
const WORLD: &[&str] =
    &["std::net", "std::os", "std::thread", "Instant", "SystemTime", "std::fs", "std::io", "rustix", "libc"];

/// Each crate of the workspace with those of ours that it uses, tests apart.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let uses = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        dependencies
            .filter(|used| used["kind"] != "dev")
            .map(name)
            .filter(|used| ours.contains(used))
            .collect()
    };
    packages.iter().map(|package| (name(package), uses(package))).collect()
}

#[test]
fn arrows_point_one_way() {
    let arrows = arrows();
    let anything = ["hamlyn-cli", "hamlyn-tests", "hamlyn-bench"];
    for (from, uses) in &arrows {
        let Some((_, may)) = MAY.iter().find(|(name, _)| name == from) else {
            assert!(anything.contains(&from.as_str()), "{from} is new: say here what it may depend on");
            continue;
        };
        for to in uses {
            assert!(may.contains(&to.as_str()), "{from} depends on {to}, which it may not");
        }
    }
    assert!(MAY.iter().all(|(name, _)| arrows.contains_key(*name)), "a crate named here is gone");
}

/// What a manifest's part with this title declares, by its names.
fn declared<'a>(manifest: &'a str, title: &str) -> BTreeSet<&'a str> {
    let part = manifest.split_once(&format!("\n[{title}]\n")).map_or("", |(_, rest)| rest);
    let lines = part.lines().take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split_once([' ', '.']))
        .map(|(name, _)| name)
        .filter(|name| *name != "#")
        .collect()
}

#[test]
fn what_the_workspace_declares_is_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = manifest.split_once("members = [").unwrap().1.split_once(']').unwrap().0;
    let mut used = BTreeSet::new();
    let texts: Vec<String> = members
        .split('"')
        .skip(1)
        .step_by(2)
        .map(|member| std::fs::read_to_string(root.join(member).join("Cargo.toml")).unwrap())
        .collect();
    for text in &texts {
        for title in ["dependencies", "dev-dependencies", "build-dependencies"] {
            used.extend(declared(text, title));
        }
    }
    let unused: Vec<&str> = declared(&manifest, "workspace.dependencies")
        .into_iter()
        .filter(|name| !used.contains(name))
        .collect();
    assert!(unused.is_empty(), "declared and not used: {unused:?}");
}

/// The files below a folder, with what they hold.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    files
}

#[test]
fn hosts_of_cards_name_them_in_the_catalogue_alone() {
    let names =
        |text: &str| ["::MODEL", "HamlynCard", "HamlynOptions"].iter().any(|word| text.contains(word));
    let files = sources("device/host/src");
    let named: Vec<_> = files.iter().filter(|(_, text)| names(text)).map(|(path, _)| path).collect();
    assert!(named.len() == 1 && named[0].ends_with("catalogue.rs"), "{named:?}");
    let commands = sources("device/cli/src");
    let named: Vec<_> = commands.iter().filter(|(_, text)| names(text)).map(|(path, _)| path).collect();
    assert!(named.is_empty(), "{named:?}");
}

#[test]
fn cards_know_no_socket_thread_clock_or_descriptor() {
    let files: Vec<_> = ["device/card/src", "device/cards"].into_iter().flat_map(sources).collect();
    let files: Vec<_> = files.iter().filter(|(path, _)| path.iter().any(|folder| folder == "src")).collect();
    for (path, text) in &files {
        for word in WORLD {
            assert!(!text.contains(word), "{} names {word}", path.display());
        }
    }
    assert!(files.len() > 10, "only {} files were read", files.len());
}
