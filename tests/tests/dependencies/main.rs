//! Dependencies point in one direction (docs/ARCHITECTURE.md).

mod c_circles;
mod circles;
mod impls;
mod licences;
mod names;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates of this workspace on which each of its crates may depend. The tests and the benchmark
/// may use all. `CARDS` stands for any card.
const MAY: &[(&str, &[&str])] = &[
    ("hamlyn-abi", &[]),
    ("hamlyn-door", &[]),
    ("hamlyn-fabric", &["hamlyn-door"]),
    ("hamlyn-agent", &[]),
    ("hamlyn-bus", &["hamlyn-door"]),
    (
        "hamlyn-host",
        &[
            "hamlyn-abi",
            "hamlyn-bus",
            "hamlyn-card",
            CARDS,
            "hamlyn-door",
            "hamlyn-fabric",
            "hamlyn-faults",
            "hamlyn-replay",
            "hamlyn-snoop",
            "hamlyn-switch",
            "hamlyn-trace",
        ],
    ),
    ("hamlyn-faults", &["hamlyn-trace"]),
    ("hamlyn-replay", &["hamlyn-card", "hamlyn-trace"]),
    ("hamlyn-trace", &["hamlyn-card", "hamlyn-fabric", "hamlyn-headers"]),
    ("hamlyn-lab", &["hamlyn-agent", "hamlyn-door", "hamlyn-host"]),
    (
        "hamlyn-cli",
        &["hamlyn-faults", "hamlyn-host", "hamlyn-lab", "hamlyn-replay", "hamlyn-switch", "hamlyn-trace"],
    ),
    ("hamlyn-card", &["hamlyn-abi"]),
    (CARDS, &["hamlyn-abi", "hamlyn-card"]),
    (
        "hamlyn-sim",
        &[
            "hamlyn",
            "hamlyn-abi",
            "hamlyn-card",
            CARDS,
            "hamlyn-driver-host",
            "hamlyn-fabric",
            "hamlyn-host",
            "hamlyn-replay",
            "hamlyn-switch",
            "hamlyn-sys",
            "hamlyn-test-host",
        ],
    ),
    ("hamlyn-snoop", &["hamlyn-door", "hamlyn-fabric"]),
    ("hamlyn-snoop-plugin", &["hamlyn-snoop"]),
    ("hamlyn-switch", &["hamlyn-door", "hamlyn-fabric"]),
    ("hamlyn-driver-host", &["hamlyn-abi"]),
    // What tests of cards stand on, and the simulation.
    ("hamlyn-test-host", &["hamlyn-abi", "hamlyn-card"]),
    ("hamlyn-sys", &["hamlyn-abi"]),
    ("hamlyn", &["hamlyn-abi", "hamlyn-driver-host", "hamlyn-sys"]),
    ("hamlyn-c", &["hamlyn"]),
    ("hamlyn-fi", &["hamlyn"]),
    ("hamlyn-sockets", &["hamlyn"]),
    ("hamlyn-tools", &["hamlyn", "hamlyn-abi"]),
    ("hamlyn-examples", &["hamlyn", "hamlyn-abi", "hamlyn-sys"]),
    ("hamlyn-conformance", &["hamlyn"]),
    ("hamlyn-test-guest", &["hamlyn", "hamlyn-abi", "hamlyn-conformance", "hamlyn-examples", "hamlyn-sys"]),
    ("hamlyn-headers", &[]),
    ("hamlyn-manuals", &["hamlyn-cli", "hamlyn-headers", "hamlyn-tools"]),
    ("hamlyn-bench-guest", &["hamlyn", "hamlyn-abi", "hamlyn-sys"]),
];

/// Any card.
const CARDS: &str = "hamlyn-card-*";

/// Names that must not appear in a card's sources: a card is a pure state machine.
const WORLD: &[&str] =
    &["std::net", "std::os", "std::thread", "Instant", "SystemTime", "std::fs", "std::io", "rustix", "libc"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the workspace's packages from cargo's metadata.
fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Returns each crate of the workspace with the workspace's crates that it uses. Dependencies of
/// tests are left out.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let packages = packages();
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

/// Returns true if a crate has this name. The name may end in `*`.
fn is(name: &str, crate_name: &str) -> bool {
    name.strip_suffix('*').map_or(name == crate_name, |start| crate_name.starts_with(start))
}

#[test]
fn arrows_point_one_way() {
    let arrows = arrows();
    let anything = ["hamlyn-tests", "hamlyn-bench"];
    for (from, uses) in &arrows {
        let Some((_, may)) = MAY.iter().find(|(name, _)| is(name, from)) else {
            assert!(anything.contains(&from.as_str()), "{from} is new: say here what it may depend on");
            continue;
        };
        for to in uses {
            assert!(may.iter().any(|name| is(name, to)), "{from} depends on {to}, which it may not");
        }
    }
    let there = |name: &str| arrows.keys().any(|crate_name| is(name, crate_name));
    assert!(MAY.iter().all(|(name, _)| there(name)), "a crate named here is gone");
}

/// The top folders, and the folders on which the crates of each may depend. Guests use only the
/// device's contract. Their library also uses the driver's connection code, at a card's socket. The
/// build script of traces reads the contract like the C headers' generator.
const FLOORS: &[(&str, &[&str])] = &[
    ("device/", &["device/", "images/agent", "scripts/headers"]),
    ("guest-driver/", &["device/abi"]),
    ("guest-lib", &["guest-lib", "guest-driver/host", "device/abi"]),
    ("images/", &[]),
    ("scripts/", &["device/", "guest-lib", "scripts/"]),
    ("tests", &["device/", "guest-driver/", "guest-lib", "images/", "scripts/", "tests"]),
];

#[test]
fn no_arrow_leads_back_up() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().canonicalize().unwrap();
    let place = |package: &Value| {
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap());
        let folder = manifest.parent().unwrap().strip_prefix(&root).unwrap().to_owned();
        (package["name"].as_str().unwrap().to_owned(), folder.to_str().unwrap().to_owned())
    };
    let places: BTreeMap<String, String> = packages().iter().map(place).collect();
    for (from, uses) in arrows() {
        let floor = FLOORS.iter().find(|(floor, _)| places[&from].starts_with(floor));
        let (_, below) = floor.unwrap_or_else(|| panic!("{from} is on no floor: {}", places[&from]));
        for to in uses {
            let stands = below.iter().any(|below| places[&to].starts_with(below));
            assert!(stands, "{} depends on {}, which is not below it", places[&from], places[&to]);
        }
    }
}

/// Returns the names that a section of a manifest declares.
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
fn declared_dependencies_are_used() {
    let root = root();
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let mut used = BTreeSet::new();
    let manifests = packages();
    let manifests = manifests.iter().map(|package| package["manifest_path"].as_str().unwrap());
    let texts: Vec<String> = manifests.map(|path| std::fs::read_to_string(path).unwrap()).collect();
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

/// Returns the files below a folder, with their texts.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut folders = vec![root().join(folder)];
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

/// Returns a source without its comments.
fn code(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Modules that any part of the library may name: the lower half, and the errors that all cards
/// share.
const ANYWHERE: [&str; 2] = ["core::", "error::"];

/// Returns the text behind each `crate::`.
fn named_of_the_crate(code: &str) -> impl Iterator<Item = &str> {
    code.split("crate::").skip(1).map(|rest| rest.split('\n').next().unwrap_or_default())
}

/// Returns the cards of the library: all its folders except the lower half and the channels, which
/// use all cards.
fn library_cards() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-lib/src");
    let folders = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let names = folders
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    names.filter(|name| !["core", "channel"].contains(&&**name)).collect()
}

/// Returns the constants and structures of a card's calls. A file that names the family's calls can
/// name them, too.
fn calls_of(card: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../device/abi/src/{card}/uapi.rs"));
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let names = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub const ").or_else(|| line.strip_prefix("pub struct "))?;
        rest.split([':', ' ', ';']).next().map(ToOwned::to_owned)
    });
    names.collect()
}

fn names(code: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.match_indices(word).any(|(at, _)| {
        let behind = &code[at + word.len()..];
        !code[..at].ends_with(is_part) && !behind.starts_with(is_part)
    })
}

#[test]
fn library_core_names_no_card() {
    let files = sources("guest-lib/src/core");
    assert!(files.len() > 20 && library_cards().contains(&"hamlyn".to_owned()));
    for (path, text) in &files {
        let code = code(text);
        let strange: Vec<_> = named_of_the_crate(&code)
            .filter(|named| !ANYWHERE.iter().any(|may| named.starts_with(may)))
            .collect();
        assert!(strange.is_empty(), "{} names {strange:?}", path.display());
        for card in library_cards() {
            for way in ["hamlyn_abi", "super"] {
                assert!(!code.contains(&format!("{way}::{card}::")), "{} names {card}", path.display());
            }
            for call in calls_of(&card) {
                assert!(!names(&code, &call), "{} names {card}'s {call}", path.display());
            }
        }
        assert!(
            !code.contains("hamlyn_sys::hamlyn::window"),
            "{} names a window of Hamlyn's",
            path.display()
        );
    }
}

#[test]
fn library_cards_are_independent() {
    let cards = library_cards();
    for card in &cards {
        for (path, text) in &sources(&format!("guest-lib/src/{card}")) {
            let code = code(text);
            for other in cards.iter().filter(|other| *other != card) {
                for word in [format!("crate::{other}"), format!("hamlyn_abi::{other}")] {
                    assert!(!names(&code, &word), "{} names {word}", path.display());
                }
                // The first card's names stand at the root, too.
                let own = [format!("{card}::"), "Error".into(), "Result".into(), "GivenBack".into()];
                let strange: Vec<_> = named_of_the_crate(&code)
                    .filter(|named| !ANYWHERE.iter().any(|may| named.starts_with(may)))
                    .filter(|named| card != "hamlyn" && !own.iter().any(|may| named.starts_with(may)))
                    .collect();
                assert!(strange.is_empty(), "{} names {strange:?}", path.display());
            }
        }
    }
}

#[test]
fn only_the_catalogue_names_cards() {
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
fn cards_use_no_sockets_threads_or_clocks() {
    let files: Vec<_> = ["device/card/src", "device/cards"].into_iter().flat_map(sources).collect();
    let files: Vec<_> = files.iter().filter(|(path, _)| path.iter().any(|folder| folder == "src")).collect();
    for (path, text) in &files {
        for word in WORLD {
            assert!(!text.contains(word), "{} names {word}", path.display());
        }
    }
    assert!(files.len() > 10, "only {} files were read", files.len());
}

/// Returns the order of a folder's files in its `mod.rs`: names and their rows.
fn rows(folder: &str) -> BTreeMap<String, usize> {
    let path = root().join(folder).join("mod.rs");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | `")?.split(" | ").next());
    rows.zip(0..)
        .flat_map(|(names, row)| names.split('`').step_by(2).map(move |name| (name.to_owned(), row)))
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

/// Returns the names that follow a path that ends in two colons. A list in braces is an error.
fn named<'a>(text: &'a str, path: &str) -> BTreeSet<&'a str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let names = text.split(path).skip(1).map(|rest| rest.split(|c| !is_name(c)).next().unwrap_or_default());
    names.inspect(|name| assert!(!name.is_empty(), "one `use {path}` for each file, please")).collect()
}

/// The programs that consist of an engine, common to all cards, and a folder for each card.
const WITH_ENGINE: [&str; 3] = ["tests/sim/src", "tests/bench/src", "tests/bench/guest/src"];

#[test]
fn files_use_only_files_above_them() {
    let every = WITH_ENGINE.into_iter().flat_map(|program| [(program, "engine"), (program, "hamlyn")]);
    for (program, part) in every.chain([("tests/bench/src", "shrimp"), ("tests/bench/guest/src", "shrimp")]) {
        let folder = format!("{program}/{part}");
        let (rows, mut read) = (rows(&folder), BTreeSet::new());
        let root = root().join(&folder);
        for (path, text) in sources(&folder) {
            let inner = path.strip_prefix(&root).unwrap().with_extension("");
            let file = inner.iter().next().unwrap().to_str().unwrap().to_owned();
            if file == "mod" || file == "tests" {
                continue;
            }
            let row = rows.get(&file).unwrap_or_else(|| panic!("{folder}/mod.rs does not list {file}"));
            for other in named(&text, &format!("crate::{part}::")) {
                assert!(rows[other] <= *row, "{folder}: {file} names {other}, which is below it");
            }
            read.insert(file);
        }
        let listed: BTreeSet<String> = rows.into_keys().collect();
        assert_eq!(listed, read, "{folder}/mod.rs lists files that are gone");
    }
}

/// Returns the cards of a program: its folders except the engine, and the cards of the device.
fn cards_beside(program: &str) -> BTreeSet<String> {
    let names = |folder: String| {
        let folder = root().join(folder);
        let folders = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let folders = folders.filter(|path| path.is_dir());
        folders.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let own = names(program.to_owned()).into_iter().filter(|name| name != "engine" && name != "bin");
    own.chain(names("device/cards".to_owned())).collect()
}

#[test]
fn engines_name_no_card() {
    // The library, which has its cards in one crate with what they have in common; and windows,
    // which are Hamlyn's. Programs of guests may map memory by themselves.
    const GUESTS: [&str; 4] = ["use hamlyn::", "hamlyn_sys::window", "hamlyn_sys", "hamlyn_driver_host"];
    for program in WITH_ENGINE {
        let guests = if program.ends_with("guest/src") { &GUESTS[..2] } else { &GUESTS };
        let cards = cards_beside(program);
        assert!(cards.contains("hamlyn"), "{program} has no folder for Hamlyn cards");
        let files = sources(&format!("{program}/engine"));
        for (path, text) in &files {
            let code = code(text);
            for card in &cards {
                let crate_of = format!("hamlyn_card_{card}");
                let words = [
                    format!("crate::{card}"),
                    format!("hamlyn_abi::{card}"),
                    format!("hamlyn_test_host::{card}"),
                    crate_of,
                ];
                let strange: Vec<_> = words.iter().filter(|word| names(&code, word)).collect();
                assert!(strange.is_empty(), "{} names {strange:?}", path.display());
            }
            for word in guests {
                assert!(!code.contains(word), "{} names {word}", path.display());
            }
        }
        assert!(files.len() > 5, "only {} files of {program} were read", files.len());
    }
}
