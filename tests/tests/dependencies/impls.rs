//! A type's methods stand in one file.
//!
//! If they stand in several, each of those can change all of its fields, and no reader sees from
//! one of them what may become of a field.

use std::collections::{BTreeMap, BTreeSet};

use crate::circles::crates;
use crate::names::{Crate, Module};
use crate::root;
use crate::tokens::{Token, tokens};

/// Types whose methods stand in several files: the crate's folder, the type's file and name, and
/// the reason.
const SPREAD: &[(&str, &str, &str, &str)] = &[
    ("device/fabric", "header", "HostId", CONVERSION),
    ("device/cards/hamlyn", "receiving", "Receiving", CARD),
    ("device/cards/hamlyn", "sending", "Sending", CARD),
    ("device/cards/dart", "traffic", "Traffic", CARD),
    ("device/cards/dart", "connections", "Connection", "the protocol between peers, and breaking"),
    ("device/cards/clan", "windows", "Window", "windows are opened here, and stored to there"),
    ("device/cards/clan", "windows", "Windows", "windows are opened here, and stored to there"),
    ("device/switch", "mesh", "Mesh", "how a worm is split, a rule of its own"),
    ("device/switch", "mesh", "Worm", "how a worm is split, a rule of its own"),
    ("guest-driver/host", "", "System", "the driver's calls, a file for each of its own"),
    ("guest-lib/libfabric", "engine", "Engine", "packets on their way out, and those that have arrived"),
    ("guest-lib", "channel", "Channel", CALLS),
    ("guest-lib", "core/card", "Card", CALLS),
    ("guest-lib", "dart/connection", "ConnectionBuilder", CALLS),
    ("guest-lib", "hamlyn/terminus", "Terminus", CALLS),
    ("guest-lib", "clan/endpoint", "Endpoint", CALLS),
    ("guest-lib", "clan/endpoint/core", "Core", "waiting for any of its words"),
    ("guest-lib", "clan/fake/net", "Net", "a card of tests"),
    ("guest-lib", "clan/fake/state", "State", "a card of tests"),
    ("guest-lib", "hamlyn/manager", "Manager", "waiting for room, which has a state of its own"),
    ("guest-lib", "shrimp/outlet", "Outlet", "deliberate updates, which snooped stores do not need"),
    ("guest-lib/sys", "device", "Device", "system calls by topic; a device is one file descriptor"),
    ("guest-lib/sys", "mapping", "Mapping", "accesses by kind; a mapping is an address and a length"),
    ("tests/bench", "engine/machines", "Pair", "what a plan does with its machines"),
    ("tests/sim", "engine/world", "World", "a world for each model, in one file of the model each"),
];

/// Part of a card, see [`is_card`].
const CARD: &str = "a card's reaction to one kind of event in each file";

/// Returns whether a type is a card. An event at a card concerns almost all of its parts: a type
/// between them would have the same fields. Its files are the driver's registers and commands,
/// arriving and leaving packets.
fn is_card(folder: &str, file: &str, name: &str) -> bool {
    folder.starts_with("device/cards/") && file.is_empty() && name.ends_with("Card")
}

/// A public type, on which a part of the library adds its own calls.
const CALLS: &str = "calls of a part of the library, as programs find them at this type";

/// A constructor that only this file needs.
const CONVERSION: &str = "a conversion that one file needs";

/// Returns the paths of the types for which a text has methods.
fn extended(text: &str) -> Vec<Vec<String>> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let begins =
            at == 0 || matches!(tokens[at - 1], Token::Sign('}' | ';' | ']') | Token::Name("unsafe"));
        if *token == Token::Name("impl") && begins {
            let head: Vec<_> =
                tokens[at + 1..].iter().take_while(|token| **token != Token::Sign('{')).collect();
            found.extend(own_type(&head));
        }
    }
    found
}

/// Returns the type of an `impl`'s head, unless it is of a trait.
fn own_type(head: &[&Token<'_>]) -> Option<Vec<String>> {
    let mut depth = 0;
    let mut outside = Vec::new();
    for (at, token) in head.iter().enumerate() {
        match token {
            Token::Sign('<') => depth += 1,
            // Not the end of an arrow.
            Token::Sign('>') if at == 0 || *head[at - 1] != Token::Sign('-') => depth -= 1,
            token if depth == 0 => outside.push(*token),
            _ => {}
        }
    }
    let head: Vec<_> = outside.into_iter().take_while(|token| *token != &Token::Name("where")).collect();
    let is_trait = head.contains(&&Token::Name("for"));
    (!is_trait).then(|| head.iter().filter_map(|token| token.name()).collect())
}

/// Returns the types of a crate whose methods stand in several files: file and name of each, and
/// those files.
fn spread(names: &Crate) -> BTreeMap<(Module, String), BTreeSet<Module>> {
    let mut files: BTreeMap<(Module, String), BTreeSet<Module>> = BTreeMap::new();
    for (module, text) in names.texts() {
        for path in extended(text) {
            let holder = names.holder_of(module, &path);
            let name = path.last().cloned().unwrap_or_default();
            files.entry((holder, name)).or_default().insert(module.clone());
        }
    }
    files.retain(|_, files| files.len() > 1);
    files
}

#[test]
fn methods_of_a_type_stand_in_one_file() {
    let (mut left, mut strange) = (SPREAD.to_vec(), Vec::new());
    for folder in crates() {
        for ((file, name), files) in spread(&Crate::read(&root().join(&folder))) {
            let folder = folder.trim_end_matches("/src");
            if is_card(folder, &file, &name) {
                continue;
            }
            let place =
                SPREAD.iter().position(|(at, of, known, _)| (*at, *of, *known) == (folder, &file, &name));
            match place {
                Some(place) => left.retain(|known| *known != SPREAD[place]),
                None => strange.push(format!("{folder}: {name} of {file} in {files:?}")),
            }
        }
    }
    assert!(strange.is_empty(), "{}", strange.join("\n"));
    assert!(left.is_empty(), "take these from the list, their methods are in one file: {left:?}");
}

#[test]
fn spread_types_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a; mod b;\nstruct A;\nimpl<T: Into<u8>> a::B<T> where T: Copy {}\n");
    write("a.rs", "struct A;\nimpl A {}\nstruct B<T>(T);\nimpl<T> B<T> {}\nimpl A {}\n");
    write("b.rs", "use crate::A;\nimpl Clone for A {}\nfn f() -> impl Iterator<Item = u8> {}\n");
    let found = spread(&Crate::read(folder.path()));
    let expected = (("a".to_owned(), "B".to_owned()), BTreeSet::from([String::new(), "a".to_owned()]));
    assert_eq!(found, BTreeMap::from([expected]));
    write("b.rs", "use crate::A;\nimpl A {}\n");
    write("lib.rs", "mod a; mod b;\nstruct A;\nimpl A {}\n");
    let expected = ((String::new(), "A".to_owned()), BTreeSet::from([String::new(), "b".to_owned()]));
    assert_eq!(spread(&Crate::read(folder.path())), BTreeMap::from([expected]));
}
