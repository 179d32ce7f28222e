//! Files of a folder of the driver do not use each other in a circle, and folders use only those
//! below them. A file uses another if it names a function or a variable that the other defines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::circles::circles_of;
use crate::root;

/// The driver's folders, and the folders that each may use. Models do not use each other.
const FLOORS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("kernel", &["base"]),
    ("core", &["base", "kernel"]),
    ("hamlyn", &["base", "core", "kernel"]),
    ("shrimp", &["base", "core", "kernel"]),
    ("clan", &["base", "core", "kernel"]),
    ("dart", &["base", "core", "kernel"]),
    ("echo", &["base", "core", "kernel"]),
    ("net", &["core"]),
];

/// Circles that are left: a folder, and the files of each of its circles.
const LEFT: &[(&str, &[&str])] = &[];

/// Returns a text without comments, string literals and lines for the preprocessor.
fn code(text: &str) -> String {
    let (mut code, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['/', '"', '\'', '#']) {
        code.push_str(&rest[..at]);
        let found = &rest[at..];
        let end = match found.as_bytes() {
            [b'/', b'*', ..] => found.find("*/").map(|end| end + 2),
            [b'/', b'/', ..] => found.find('\n'),
            [b'#', ..] => {
                found.match_indices('\n').map(|(end, _)| end).find(|end| !found[..*end].ends_with('\\'))
            }
            [quote @ (b'"' | b'\''), tail @ ..] => {
                let mut escaped = false;
                let ends = |byte: &u8| {
                    let end = byte == quote && !escaped;
                    escaped = *byte == b'\\' && !escaped;
                    end
                };
                tail.iter().position(ends).map(|end| end + 2)
            }
            _ => {
                code.push('/');
                Some(1)
            }
        };
        rest = &found[end.unwrap_or(found.len())..];
    }
    code + rest
}

/// Returns the declarations and definitions of a file, without the insides of braces.
fn items(code: &str) -> Vec<String> {
    let (mut items, mut item, mut braces, mut brackets) = (Vec::new(), String::new(), 0, 0);
    for letter in code.chars() {
        match letter {
            '{' => braces += 1,
            '}' => braces -= 1,
            '(' => brackets += 1,
            ')' => brackets -= 1,
            _ => (),
        }
        if braces == 0 {
            item.push(letter);
            // A macro that defines something may stand without a semicolon.
            let is_macro = |item: &str| item.trim_start().starts_with("DEFINE_");
            if brackets == 0 && (matches!(letter, ';' | '}') || letter == ')' && is_macro(&item)) {
                items.push(std::mem::take(&mut item));
            }
        } else if braces == 1 && letter == '{' {
            item.push(letter);
        }
    }
    items
}

fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split(move |letter| !is_part(letter))
        .filter(|word| !word.is_empty())
        .map(move |word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

/// Returns the function or variable that an item defines for other files.
fn defined(item: &str) -> Option<&str> {
    let head = item.split(['=', '{']).next().unwrap_or_default();
    let is_local =
        words(head).any(|(_, word)| ["static", "static_assert", "typedef", "extern"].contains(&word));
    let is_definition = item.contains('{') || item.contains('=') || !head.contains('(');
    let before = head.split(['(', '[', ';']).next().unwrap_or_default();
    let (_, name) = words(before).last()?;
    let count = words(before).count();
    let is_type = count < 3 && words(before).any(|(_, word)| ["struct", "union", "enum"].contains(&word));
    (!is_local && is_definition && !is_type && count > 1).then_some(name)
}

/// Returns the words of a file that may name a function or a variable of another.
fn used(code: &str) -> BTreeSet<&str> {
    let is_use = |at: usize| {
        let before = code[..at].trim_end();
        !before.ends_with(['.', '>']) && !["struct", "union", "enum"].iter().any(|of| before.ends_with(of))
    };
    words(code).filter(|(at, _)| is_use(*at)).map(|(_, word)| word).collect()
}

/// Returns the files of a folder with this ending, by name, and their code.
fn sources(driver: &Path, folder: &str, ending: &str) -> BTreeMap<String, String> {
    let paths = fs::read_dir(driver.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|own| own == ending))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, code(&fs::read_to_string(&path).unwrap()))
        })
        .collect()
}

/// Returns which file of these folders, `folder/name`, defines each function and variable.
fn definitions(driver: &Path, folders: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for folder in folders {
        for (name, code) in sources(driver, folder, "c") {
            for item in items(&code) {
                if let Some(defined) = defined(&item) {
                    found.insert(defined.to_owned(), format!("{folder}/{name}"));
                }
            }
        }
    }
    found
}

/// Returns the files of these folders with those that they use.
fn arrows(driver: &Path, folders: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let definitions = definitions(driver, folders);
    let mut arrows = BTreeMap::new();
    for folder in folders {
        for (name, code) in sources(driver, folder, "c") {
            let own = format!("{folder}/{name}");
            let uses = used(&code).into_iter().filter_map(|word| definitions.get(word));
            arrows.insert(own.clone(), uses.filter(|file| **file != own).cloned().collect());
        }
    }
    arrows
}

/// Returns the circles of a folder's files.
fn circles(driver: &Path, folder: &str) -> BTreeSet<String> {
    circles_of(&arrows(driver, &[folder]))
}

#[test]
fn driver_files_form_no_new_circle() {
    let driver = root().join("guest-driver");
    for (folder, _) in FLOORS {
        assert!(definitions(&driver, &[folder]).len() > 1, "{folder} defines nothing");
        let left = LEFT.iter().find(|(name, _)| name == folder).map_or(&[][..], |(_, circles)| circles);
        let left: BTreeSet<String> = left.iter().map(|circle| (*circle).to_owned()).collect();
        assert_eq!(circles(&driver, folder), left, "{folder}: found, and listed in LEFT");
    }
}

#[test]
fn driver_folders_use_only_those_below() {
    let driver = root().join("guest-driver");
    let folders: Vec<_> = FLOORS.iter().map(|(folder, _)| *folder).collect();
    let folder_of = |file: &str| file.split('/').next().unwrap_or_default().to_owned();
    for (file, uses) in arrows(&driver, &folders) {
        let own = folder_of(&file);
        let (_, below) = FLOORS.iter().find(|(folder, _)| *folder == own).unwrap();
        for other in uses {
            let folder = folder_of(&other);
            assert!(folder == own || below.contains(&&*folder), "{file} uses {other}, which is not below it");
        }
    }
}

#[test]
fn driver_folders_include_only_headers_below() {
    let driver = root().join("guest-driver");
    let headers: BTreeMap<String, &str> = FLOORS
        .iter()
        .flat_map(|(folder, _)| sources(&driver, folder, "h").into_keys().map(|name| (name + ".h", *folder)))
        .collect();
    for (folder, below) in FLOORS {
        for entry in fs::read_dir(driver.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let included =
                text.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
            for (name, home) in included.filter_map(|name| Some((name, headers.get(name)?))) {
                assert!(home == folder || below.contains(home), "{} includes {name}", path.display());
            }
        }
    }
}

#[test]
fn circles_in_c_are_found() {
    let driver = tempfile::tempdir().unwrap();
    fs::create_dir(driver.path().join("core")).unwrap();
    let write = |name: &str, text: &str| fs::write(driver.path().join("core").join(name), text).unwrap();
    write("a.c", "#define X \\\n c()\n/* c() */\nint a(int x)\n{\n\tputs(\"c\");\n\treturn b.c;\n}\n");
    write(
        "b.c",
        "struct a;\nunion d {\n\tint a;\n};\nstatic int e(void)\n{\n\treturn a(1);\n}\nconst struct ops b = { .run = e };\n",
    );
    write("c.c", "DEFINE_FREE(x, y, d(z))\nint c(void)\n{\n\treturn '\"';\n}\nint d;\nint a(int);\n");
    assert_eq!(circles(driver.path(), "core"), BTreeSet::from(["core/a core/b".to_owned()]));
    write("a.c", "int a(int x)\n{\n\treturn x;\n}\n");
    assert_eq!(circles(driver.path(), "core"), BTreeSet::new());
    write("a.c", "int a(int x)\n{\n\treturn x ? c() : d;\n}\n");
    write("c.c", "int c(void)\n{\n\treturn b.run();\n}\nint d;\n");
    assert_eq!(circles(driver.path(), "core"), BTreeSet::from(["core/a core/b core/c".to_owned()]));
}
