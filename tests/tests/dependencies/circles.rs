//! Files of a crate do not use each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{packages, root};

/// A module's path from the crate's root, joined by `/`. The root's is empty.
type Module = String;

/// Returns the modules below a source folder that have a file, with their texts.
fn modules(folder: &Path) -> BTreeMap<Module, String> {
    let (mut folders, mut found) = (vec![folder.to_owned()], BTreeMap::new());
    while let Some(inner) = folders.pop() {
        for path in fs::read_dir(inner).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.strip_prefix(folder).unwrap().with_extension("").display().to_string();
                let name =
                    ["mod", "lib", "main"].iter().find_map(|root| name.strip_suffix(root)).unwrap_or(&name);
                found.insert(name.trim_end_matches('/').to_owned(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// Returns a text without comments and without the tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect()
}

/// Returns the paths after each `crate::` or `super::`, as modules. Paths in braces are separate.
fn paths(module: &str, text: &str) -> Vec<Module> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::").chain(text.match_indices("super::")) {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == ':') {
            continue;
        }
        let (mut rest, mut base) = (&text[at..], module.to_owned());
        if let Some(behind) = rest.strip_prefix("crate::") {
            (rest, base) = (behind, String::new());
        }
        while let Some(behind) = rest.strip_prefix("super::") {
            base = base.rsplit_once('/').map_or(String::new(), |(outer, _)| outer.to_owned());
            rest = behind;
        }
        let list = match rest.strip_prefix('{') {
            Some(inner) => inner.split('}').next().unwrap_or_default().split(',').collect(),
            None => vec![rest],
        };
        for path in list {
            let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
            let path = path.trim();
            let end = path.find(|letter| !is_path(letter)).unwrap_or(path.len());
            let joined = format!("{base}/{}", path[..end].replace("::", "/"));
            found.push(joined.trim_matches('/').to_owned());
        }
    }
    found
}

/// Returns the module whose file holds what a path names. The root, which exports names of all, is
/// left out.
fn holder(modules: &BTreeMap<Module, String>, mut path: &str) -> Option<Module> {
    while !path.is_empty() {
        if modules.contains_key(path) {
            return Some(path.to_owned());
        }
        path = path.rsplit_once('/').map_or("", |(outer, _)| outer);
    }
    None
}

/// Returns the modules of a crate with those that they use. Tests are left out.
fn arrows(folder: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let modules = modules(folder);
    let is_test = |name: &str| name.split('/').any(|part| part.contains("tests") || part.contains("loom"));
    let uses = |(name, text): (&Module, &String)| {
        let used = paths(name, &code(text)).into_iter().filter_map(|path| holder(&modules, &path));
        (name.clone(), used.filter(|used| used != name && !is_test(used)).collect())
    };
    modules.iter().filter(|(name, _)| !is_test(name)).map(uses).collect()
}

/// Returns the modules that can be reached from one.
fn reached(arrows: &BTreeMap<Module, BTreeSet<Module>>, from: &str) -> BTreeSet<Module> {
    let (mut left, mut found) = (vec![from.to_owned()], BTreeSet::new());
    while let Some(next) = left.pop() {
        for used in arrows.get(&next).into_iter().flatten() {
            if found.insert(used.clone()) {
                left.push(used.clone());
            }
        }
    }
    found
}

/// Returns the circles among files: the sets of those that can all reach each other.
pub(crate) fn circles_of(arrows: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<String> {
    let reached: BTreeMap<&Module, _> = arrows.keys().map(|name| (name, reached(arrows, name))).collect();
    let circle = |name: &Module| {
        let members =
            arrows.keys().filter(|other| reached[name].contains(*other) && reached[*other].contains(name));
        members.cloned().collect::<Vec<_>>().join(" ")
    };
    arrows.keys().filter(|name| reached[name].contains(*name)).map(circle).collect()
}

/// Returns the circles of a crate's modules.
fn circles(folder: &Path) -> BTreeSet<String> {
    circles_of(&arrows(folder))
}

/// Returns the source folders of the workspace's crates. The package of examples has none.
fn crates() -> Vec<String> {
    let root = root().canonicalize().unwrap();
    let folder = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        manifest.parent().unwrap().strip_prefix(&root).unwrap().join("src").display().to_string()
    };
    packages().iter().map(folder).filter(|folder| root.join(folder).is_dir()).collect()
}

#[test]
fn files_use_each_other_in_no_circle() {
    let crates = crates();
    assert!(crates.len() > 20, "{crates:?}");
    for name in &crates {
        assert_eq!(circles(&root().join(name)), BTreeSet::new(), "{name}");
    }
}

#[test]
fn circles_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("inner")).unwrap();
    write("lib.rs", "mod a; mod b; mod inner; pub use a::A;\n");
    write("a.rs", "use crate::inner::one::One;\nstruct A;\n");
    write("b.rs", "use crate::A;\nuse crate::{a::A, inner};\n// use crate::b::B;\n");
    write("inner/mod.rs", "mod one;\n");
    write("inner/one.rs", "struct One;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n");
    assert_eq!(circles(folder.path()), BTreeSet::new());
    write("inner/one.rs", "use super::super::b;\nstruct One;\n");
    assert_eq!(circles(folder.path()), BTreeSet::from(["a b inner/one".to_owned()]));
}
