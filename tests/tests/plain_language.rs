//! Texts are plain: documents entirely, and comments and test names in a number of places that may
//! only fall.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Words and phrases that stand in place of a component, and of the field's terms.
const WORDS: &[&str] = &["nobody", "somebody", "whoever", "he", "his", "him"];
const PHRASES: &[&str] = &["so many", "for want of", "by and by", "all the same", " is no "];
/// The longest sentence of a document, in words.
const SENTENCE: usize = 35;
/// The longest line of a comment, and of a test's name in words.
const COLUMNS: usize = 100;
const NAME: usize = 8;

/// Documents that are not plain yet.
const TO_DO: &[&str] = &[];

/// What is left in the comments of a folder: words, lines that are too long, and names of tests
/// that are too long. Each number may only fall: when it does, write the new one here.
const LEFT: &[(&str, [usize; 3])] = &[
    ("device", [374, 15, 457]),
    ("guest-driver", [160, 9, 49]),
    ("guest-lib", [602, 130, 253]),
    ("images", [3, 2, 5]),
    ("tests", [285, 9, 238]),
];

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
        if kind.is_dir() && !name.starts_with('.') && !["target", "man", "include"].contains(&&*name) {
            files(&path, endings, found);
        } else if kind.is_file() && endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// The first word or phrase of a line that is not plain.
fn odd(line: &str) -> Option<&'static str> {
    let lower = line.to_lowercase().replace("there is no ", "there is not ");
    let mut words = lower.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let word = words.find_map(|word| WORDS.iter().find(|odd| **odd == word));
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
    found.into_iter().map(named).filter(|(name, _)| !TO_DO.contains(&&**name)).collect()
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

/// What is not plain in a file's comments and names.
fn count(text: &str) -> [usize; 3] {
    let comment = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("//") || line.starts_with("* ") || line.starts_with("/*")
    };
    let comments = text.lines().filter(comment);
    let words = comments.clone().filter(|line| odd(line).is_some()).count();
    let wide = comments.filter(|line| line.chars().count() > COLUMNS).count();
    let names = text.split("#[test]").skip(1).filter_map(|test| {
        let name = test.split_once("fn ")?.1.split_once('(')?.0;
        Some(name.split('_').count())
    });
    [words, wide, names.filter(|words| *words > NAME).count()]
}

#[test]
fn comments_get_no_worse() {
    let mut found = BTreeMap::new();
    for (folder, _) in LEFT {
        let mut sources = Vec::new();
        files(&root().join(folder), &[".rs", ".c", ".h"], &mut sources);
        let counts = sources.iter().map(|path| count(&fs::read_to_string(path).unwrap()));
        let sum = counts.fold([0; 3], |sum, count| std::array::from_fn(|at| sum[at] + count[at]));
        found.insert(*folder, sum);
    }
    let left: BTreeMap<_, _> = LEFT.iter().copied().collect();
    assert_eq!(found, left, "words, wide lines, long names: mend what is more, write down what is less");
}

#[test]
fn odd_words_and_long_sentences_are_found() {
    assert_eq!(odd("Nobody waits."), Some("nobody"));
    assert_eq!(odd("It waits for want of room."), Some("for want of"));
    assert_eq!(odd("The cache shows it here."), None);
    let document = "# One\nA short one. And\nanother.\n```\nhe\n```\n| a cell |\n- a point\n- more\n";
    let expected = ["A short one.", "And another.", "- a point", "- more"];
    assert_eq!(sentences(document), expected);
    assert_eq!(prose(document).filter(|(_, line)| odd(line).is_some()).count(), 0);
}
