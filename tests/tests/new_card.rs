//! docs/new-card.md shows the text of the echo card. Outside its own folders, a model is named only
//! in the places that the page lists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the blocks of code, each with the file that is named in the line before it.
fn blocks(document: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    for (at, _) in document.match_indices("\n\n```") {
        let (before, block) = document.split_at(at);
        let Some(path) = before.lines().last().and_then(|line| line.strip_prefix('`')?.strip_suffix("`:"))
        else {
            continue;
        };
        let code = block[2..].split_once('\n').map_or("", |(_, code)| code);
        blocks.push((path.to_owned(), code.split("```").next().unwrap_or_default().to_owned()));
    }
    blocks
}

#[test]
fn every_block_is_the_text_of_its_file() {
    let document = read("docs/new-card.md");
    let blocks = blocks(&document);
    let fences = document.lines().filter(|line| line.starts_with("```")).count();
    assert_eq!(
        fences,
        2 * blocks.len() + 2,
        "a block of commands, and the others have their file's name before them"
    );
    for (path, code) in blocks {
        assert!(code.lines().count() > 1 && read(&path).contains(&code), "{path}:\n{code}");
    }
}

/// Returns the value of a constant of the device's or the driver's contract.
fn constant(model: &str, end: &str) -> String {
    let identity = read(&format!("device/abi/src/{model}/identity.rs"));
    let start = format!("pub const {}_{end}: ", model.to_uppercase());
    let line =
        identity.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_else(|| panic!("{start}"));
    line.split_once(" = ").map(|(_, value)| value.trim_end_matches(';').to_owned()).unwrap()
}

#[test]
fn table_of_models_is_complete() {
    let document = read("docs/new-card.md");
    let (_, table) = document.split_once("| model | number | PCI device id |\n|---|---|---|\n").unwrap();
    let rows: Vec<_> = table.lines().take_while(|line| line.starts_with('|')).collect();
    let cards = fs::read_dir(root().join("device/cards")).unwrap();
    let models: BTreeSet<_> = cards.map(|card| card.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(rows.len(), models.len(), "{models:?}: {rows:?}");
    for model in &models {
        let (number, device) = (constant(model, "MODEL"), constant(model, "PCI_DEVICE"));
        let row = format!("| {model} | {number} | {device}");
        assert!(rows.iter().any(|found| found.starts_with(&row)), "{row}");
    }
}

/// Folders and files that belong to the card.
const OWN: [&str; 14] = [
    "device/abi/src/echo/",
    "device/cards/echo/",
    "guest-driver/echo/",
    "guest-driver/include/echo_card.h",
    "guest-driver/include/echo_uapi.h",
    "guest-lib/src/echo/",
    "guest-lib/examples/echo-card.rs",
    "guest-lib/tools/src/info/echo.rs",
    "device/cli/src/commands/demo/echo.rs",
    "tests/sim/src/echo/",
    "tests/sim/tests/echo.rs",
    "tests/tests/vm/echo.rs",
    "tests/tests/new_card.rs",
    "docs/",
];

/// Collects the repository's sources, by their path in it.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !name.starts_with('.') && name != "target" {
            sources(&path, found);
        } else if kind.is_file()
            && [".rs", ".c", ".h", ".toml", "Makefile"].iter().any(|end| name.ends_with(end))
        {
            found.push(path);
        }
    }
}

/// Returns whether a line names the card. Other things are called echo, too: the shell's command,
/// and programs that answer a ping.
fn names_echo(line: &str) -> bool {
    let marks = [
        "echo::",
        "echo_card",
        "echo_uapi",
        "card-echo",
        "cards/echo",
        "(\"echo\", &echo",
        "(\"echo\", crate",
        "ECHO_",
        "mod echo;",
        "as echo;",
        "echo/ops.o",
    ];
    let others = ["echo-server", "c-echo"];
    marks.iter().any(|mark| line.contains(mark)) && !others.iter().any(|other| line.contains(other))
}

#[test]
fn model_is_named_only_in_listed_places() {
    let (root, mut found) = (root().canonicalize().unwrap(), Vec::new());
    sources(&root, &mut found);
    let mut naming: Vec<(String, usize)> = Vec::new();
    for path in found {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        // The benchmark has an echo program of its own.
        if OWN.iter().chain(&["tests/bench/"]).any(|own| name.starts_with(own)) {
            continue;
        }
        let lines = fs::read_to_string(&path).unwrap().lines().filter(|line| names_echo(line)).count();
        if lines > 0 {
            naming.push((name, lines));
        }
    }
    naming.sort();
    // The last part of the page is a table of them: file, and number of lines.
    let document = read("docs/new-card.md");
    let (_, list) = document.split_once("\n## What names echo\n").expect("the last part");
    let rows = list.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let told: Vec<(String, usize)> = rows
        .map(|(name, rest)| (name.to_owned(), rest.split(' ').next().unwrap().parse().unwrap()))
        .collect();
    assert_eq!(naming, told, "docs/new-card.md tells of these files and lines");
}
