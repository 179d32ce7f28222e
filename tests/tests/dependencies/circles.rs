//! Files of a crate do not use each other in a circle.
//!
//! One kind of circle is allowed: a module and its own child modules. The module is put together
//! from them, and they are parts of it. So a circle in which all are below one of them is none, if
//! nothing is left of it without that one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::names::{Crate, Module};
use crate::{packages, root};

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
    sets_of(arrows).into_iter().map(|set| set.join(" ")).collect()
}

fn sets_of(arrows: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Vec<Module>> {
    let reached: BTreeMap<&Module, _> = arrows.keys().map(|name| (name, reached(arrows, name))).collect();
    let circle = |name: &Module| {
        let members =
            arrows.keys().filter(|other| reached[name].contains(*other) && reached[*other].contains(name));
        members.cloned().collect::<Vec<_>>()
    };
    arrows.keys().filter(|name| reached[name].contains(*name)).map(circle).collect()
}

/// Returns the circles in which a part is not only a parent or child of the others.
fn circles_beside_families(arrows: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for set in sets_of(arrows) {
        let is_below =
            |module: &str, parent: &str| parent.is_empty() || module.starts_with(&format!("{parent}/"));
        let is_parent =
            |parent: &&Module| set.iter().all(|module| module == *parent || is_below(module, parent));
        let Some(parent) = set.iter().find(is_parent) else {
            found.insert(set.join(" "));
            continue;
        };
        let children = set.iter().filter(|module| *module != parent);
        let is_child = |module: &&Module| *module != parent && set.contains(module);
        let among = children
            .map(|module| (module.clone(), arrows[module].iter().filter(is_child).cloned().collect()))
            .collect();
        found.extend(circles_beside_families(&among));
    }
    found
}

/// Returns the circles of a crate's modules.
fn circles(folder: &Path) -> BTreeSet<String> {
    circles_beside_families(&Crate::read(folder).arrows())
}

/// Returns the source folders of the workspace's crates. The package of examples has none.
pub(crate) fn crates() -> Vec<String> {
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
    write("lib.rs", "mod a; mod b; mod inner; pub use a::A;\npub struct Root;\n");
    write("a.rs", "use crate::inner::one::One;\nuse crate::Root;\nstruct A;\n");
    write("b.rs", "use crate::A;\nuse crate::{a::A as B, inner};\n// use crate::b::B;\n");
    write("inner/mod.rs", "mod one;\npub use self::one::One;\nstruct Inner(One);\n");
    write(
        "inner/one.rs",
        "use super::Inner;\nstruct One;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
    );
    write("inner/two.rs", "struct Two;\n");
    assert_eq!(circles(folder.path()), BTreeSet::new());

    // By a path that goes up, and by what the root exports.
    write("inner/one.rs", "use super::super::b;\nstruct One;\n");
    assert_eq!(circles(folder.path()), BTreeSet::from(["a b inner inner/one".to_owned()]));
    write("inner/one.rs", "use crate::A;\nstruct One;\n");
    assert_eq!(circles(folder.path()), BTreeSet::from(["a inner/one".to_owned()]));

    // By a re-export, `self`, a child, and a name that was imported.
    write("inner/one.rs", "struct One;\n");
    write("a.rs", "struct A(crate::inner::One);\n");
    write("inner/two.rs", "use crate::a;\nstruct Two(a::A);\n");
    write("inner/mod.rs", "mod one; mod two;\npub use one::*;\nstruct Inner(self::two::Two);\n");
    assert_eq!(circles(folder.path()), BTreeSet::new());
    write("a.rs", "struct A(crate::inner::Inner);\n");
    assert_eq!(circles(folder.path()), BTreeSet::from(["a inner inner/two".to_owned()]));

    // Among the children of one module.
    write("a.rs", "struct A;\n");
    write("inner/one.rs", "use super::two::Two;\nuse super::Inner;\nstruct One;\n");
    write("inner/two.rs", "use super::one::One;\nstruct Two;\n");
    assert_eq!(circles(folder.path()), BTreeSet::from(["inner/one inner/two".to_owned()]));
}
