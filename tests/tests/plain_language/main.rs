//! Texts are plain: documents, comments, strings, and names of functions.

mod literals;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use literals::literals;

/// Words and phrases that stand in place of a component, and of the field's terms.
const WORDS: &[&str] = &["nobody", "somebody", "whoever", "he", "his", "him"];
const PHRASES: &[&str] = &["so many", "for want of", "by and by", "all the same", " is no "];
/// The longest sentence of a document, in words.
const SENTENCE: usize = 35;
/// The longest line of a comment, and of a test's name in words.
const COLUMNS: usize = 100;
const NAME: usize = 8;

/// The folders with sources.
const SOURCES: &[&str] = &["device", "guest-driver", "guest-lib", "images", "scripts", "tests"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The files of a folder with one of these endings. Generated ones are not among them.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !name.starts_with('.') && !["target", "include"].contains(&&*name) {
            files(&path, endings, found);
        } else if kind.is_file() && endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|found| found == word)
}

/// The first word or phrase of a line that is not plain.
fn odd(line: &str) -> Option<&'static str> {
    let lower = line.to_lowercase().replace("there is no ", "there is not ");
    let word = WORDS.iter().find(|odd| has_word(&lower, odd));
    word.or_else(|| PHRASES.iter().find(|phrase| lower.contains(**phrase))).copied()
}

/// The lines of a document that are not code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        (!is_code && !fence).then_some((at + 1, line))
    })
}

/// The sentences of a document: of paragraphs and points of lists.
fn sentences(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for (_, line) in prose(text) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '|']) {
            parts.push(String::new());
        } else {
            if line.starts_with("- ") || line.starts_with("* ") {
                parts.push(String::new());
            }
            let last = parts.last_mut().unwrap();
            last.push_str(line);
            last.push(' ');
        }
    }
    let ends = |text: &str| {
        let mut found = Vec::new();
        let mut rest = text;
        while let Some(at) =
            [". ", "? ", ".) ", ".** ", ": ", "; "].iter().filter_map(|end| rest.find(end)).min()
        {
            let (sentence, more) = rest.split_at(at + 1);
            found.push(sentence.trim().to_owned());
            rest = more;
        }
        found.push(rest.trim().to_owned());
        found
    };
    parts.iter().flat_map(|part| ends(part)).filter(|sentence| !sentence.is_empty()).collect()
}

fn documents() -> Vec<(String, String)> {
    let (root, mut found) = (root(), Vec::new());
    files(&root.join("docs"), &[".md"], &mut found);
    let top = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "guest-driver/README.md"];
    found.extend(top.map(|name| root.join(name)));
    let named = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        (name, fs::read_to_string(&path).unwrap())
    };
    found.into_iter().map(named).collect()
}

#[test]
fn documents_are_plain() {
    let mut bad = Vec::new();
    for (name, text) in documents() {
        for (number, line) in prose(&text) {
            if let Some(word) = odd(line) {
                bad.push(format!("{name}:{number}: {word:?}: {}", line.trim()));
            }
        }
        for sentence in sentences(&text) {
            let words = sentence.split_whitespace().count();
            if words > SENTENCE {
                bad.push(format!("{name}: {words} words: {sentence}"));
            }
        }
    }
    assert!(bad.is_empty(), "{} places:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn links_of_documents_lead_to_files() {
    let mut bad = Vec::new();
    for (name, text) in documents() {
        let folder = root().join(&name).parent().unwrap().to_owned();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains("://")) {
            if !folder.join(target).exists() {
                bad.push(format!("{name}: {target}"));
            }
        }
    }
    assert!(bad.is_empty(), "{} links:\n{}", bad.len(), bad.join("\n"));
}

/// The book of `scripts/book` has what `docs/SUMMARY.md` lists.
#[test]
fn every_document_is_a_chapter() {
    let documents = documents();
    let (_, summary) = documents.iter().find(|(name, _)| name == "docs/SUMMARY.md").unwrap();
    let chapters = documents.iter().filter_map(|(name, _)| name.strip_prefix("docs/"));
    let missing: Vec<_> =
        chapters.filter(|name| *name != "SUMMARY.md" && !summary.contains(&format!("]({name})"))).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
}

/// Returns the alternatives of a path with braces.
fn expanded(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (inside, after))) = parts else { return vec![path.to_owned()] };
    inside.split(',').flat_map(|part| expanded(&format!("{before}{part}{after}"))).collect()
}

/// Returns the paths of sources in a document's text: what is between backquotes, and looks so.
fn named_sources(text: &str) -> Vec<String> {
    let quoted = prose(text).flat_map(|(_, line)| line.split('`').skip(1).step_by(2));
    let plain = |path: &&str| !path.contains([' ', '*', '$', '~', '<', ':']) && !path.starts_with('/');
    let is_source = |path: &String| {
        let in_folder = SOURCES.iter().any(|folder| path.starts_with(&format!("{folder}/")));
        // Headers and manual pages are generated.
        let is_made = path.contains("/include/") || path.ends_with("/include");
        (in_folder && !is_made) || [".rs", ".c"].iter().any(|ending| path.ends_with(ending))
    };
    quoted.filter(plain).flat_map(expanded).filter(is_source).collect()
}

/// Returns a path as it is in the tree, for the short forms of `docs/fidelity`.
fn whole(document: &str, path: &str) -> String {
    let model = document.strip_prefix("docs/fidelity/").and_then(|name| name.strip_suffix(".md"));
    let (Some(model), Some((first, rest))) = (model, path.split_once('/')) else { return path.to_owned() };
    match first {
        "card" => format!("device/cards/{model}/{rest}"),
        "driver" => format!("guest-driver/{model}/{rest}"),
        "lib" => format!("guest-lib/{model}/{rest}"),
        _ => path.to_owned(),
    }
}

/// Returns a path without its folders `src`, which documents may leave out.
fn without_src(path: &Path) -> PathBuf {
    path.iter().filter(|part| *part != "src").collect()
}

#[test]
fn sources_that_documents_name_exist() {
    let mut sources = Vec::new();
    for folder in SOURCES {
        files(&root().join(folder), &[".rs", ".c"], &mut sources);
    }
    let short: BTreeSet<_> = sources.iter().flat_map(|path| path.ancestors()).map(without_src).collect();
    let exists = |path: &str| {
        let named = without_src(Path::new(path));
        root().join(path).exists() || short.iter().any(|source| source.ends_with(&named))
    };
    let mut bad = Vec::new();
    for (name, text) in documents() {
        let gone = named_sources(&text).into_iter().filter(|path| !exists(&whole(&name, path)));
        bad.extend(gone.map(|path| format!("{name}: {path}")));
    }
    assert!(bad.is_empty(), "{} paths:\n{}", bad.len(), bad.join("\n"));
}

/// Returns true for a line of a comment.
fn is_comment(line: &str) -> bool {
    ["//", "* ", "/*"].iter().any(|start| line.trim_start().starts_with(start))
}

/// Returns true if a sentence of a comment's line has "who" as its subject.
fn has_who(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!', '*', ' ']);
    [". ", "; "]
        .iter()
        .flat_map(|end| text.split(end))
        .any(|part| part.starts_with("Who ") && !text.contains('?'))
}

/// Returns the first word of a string or of a function's name that is not plain.
fn odd_in_code(text: &str) -> Option<&'static str> {
    odd(text).or_else(|| has_word(&text.to_lowercase(), "who").then_some("who"))
}

/// Returns what is not plain in a file's strings and names of functions.
fn findings_in_code(text: &str) -> Vec<String> {
    let strings = literals(text).into_iter().filter_map(|(number, string)| {
        odd_in_code(&string).map(|word| format!("{number}: {word:?}: {string:?}"))
    });
    let names = text.split("fn ").skip(1).filter_map(|rest| {
        let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
        odd_in_code(&name.replace('_', " ")).map(|word| format!("{name}: {word:?}"))
    });
    strings.chain(names).collect()
}

/// Returns what is not plain in a file's comments and test names: lines or names, and reasons.
fn findings(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| is_comment(line)) {
        if let Some(word) = odd(line) {
            found.push(format!("{number}: {word:?}"));
        }
        if has_who(line) {
            found.push(format!("{number}: \"Who\" as a subject"));
        }
        // A row of a table cannot be wrapped.
        if line.chars().count() > COLUMNS && !line.contains("//! | ") {
            found.push(format!("{number}: over {COLUMNS} columns"));
        }
    }
    let names = text.split("#[test]").skip(1).filter_map(|test| {
        let name = test.split_once("fn ")?.1.split_once('(')?.0;
        (name.split('_').count() > NAME).then(|| format!("{name}: over {NAME} words"))
    });
    found.extend(names);
    found
}

/// Fails if `look` finds something in one of the sources, but for one.
fn check_sources(look: impl Fn(&str) -> Vec<String>, skipped: Option<&str>) {
    let mut bad = Vec::new();
    for folder in SOURCES {
        let mut sources = Vec::new();
        files(&root().join(folder), &[".rs", ".c", ".h"], &mut sources);
        assert!(!sources.is_empty(), "{folder} has no sources");
        for path in sources.iter().filter(|path| skipped.is_none_or(|skipped| !path.ends_with(skipped))) {
            let text = fs::read_to_string(path).unwrap();
            bad.extend(look(&text).iter().map(|finding| format!("{}:{finding}", path.display())));
        }
    }
    assert!(bad.is_empty(), "{} places:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn comments_and_test_names_are_plain() {
    check_sources(findings, None);
}

#[test]
fn strings_and_function_names_are_plain() {
    // This file's own strings are what the test looks for.
    check_sources(findings_in_code, Some(file!()));
}

#[test]
fn checks_find_what_is_not_plain() {
    assert_eq!(odd("Nobody waits."), Some("nobody"));
    assert_eq!(odd("It waits for want of room."), Some("for want of"));
    assert_eq!(odd("The cache shows it here."), None);
    let wide = format!("// {}\n", "x".repeat(COLUMNS));
    let source = "// Nobody.\n/// Who waits is told.\n#[TEST]\nfn a_b_c_d_e_f_g_h_i() {}\nlet nobody = 1;\n";
    let source = source.replace("TEST", "test");
    let expected = [
        "1: \"nobody\"",
        "2: \"Who\" as a subject",
        "6: over 100 columns",
        "a_b_c_d_e_f_g_h_i: over 8 words",
    ];
    let mut found = findings(&(source + &wide));
    found.sort();
    assert_eq!(found, expected);
    let document = "# One\nA short one. And\nanother.\n```\nhe\n```\n| a cell |\n- a point\n- more\n";
    let expected = ["A short one.", "And another.", "- a point", "- more"];
    assert_eq!(sentences(document), expected);
    let source =
        "fn wakes_who_waits() {}\nfn whole() { say(\"It is no card.\", \"Who is it?\", \"shows\") }\n";
    let expected =
        ["2: \" is no \": \"It is no card.\"", "2: \"who\": \"Who is it?\"", "wakes_who_waits: \"who\""];
    assert_eq!(findings_in_code(source), expected);
    let named = "See `a/{b,c}.rs`, `tests/x` and\n`docs/y`, `*.rs`, `guest-driver/include/uln.h`.\n```\n`z.rs`\n```\n";
    assert_eq!(named_sources(named), ["a/b.rs", "a/c.rs", "tests/x"]);
    assert_eq!(whole("docs/fidelity/clan.md", "card/a.rs"), "device/cards/clan/a.rs");
    assert_eq!(prose(document).filter(|(_, line)| odd(line).is_some()).count(), 0);
}
