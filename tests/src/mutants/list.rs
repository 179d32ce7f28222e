//! The lists of breaks: a file `mutants.txt` in the folder of each package.
//!
//! ```text
//! # a comment
//! == a file, from the folder of the list
//!
//! a name
//! ? a test with machines that must detect it; if missing, the tests of the file's packages
//! - a piece of one line, which occurs exactly once in the file
//! + the text that replaces it; may be empty
//! ```
//!
//! A list holds breaks that concern the protocol or protection: an order of two stores, a missing
//! barrier, bound or check, a lock released too early. Those that only replace an operator, a
//! condition, a constant or a function's body, or delete a statement, are not in it: cargo-mutants
//! makes them. It does not read C, so the driver's lists also have such breaks of what protects
//! processes and hosts from each other.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// The name of a list.
const FILE_NAME: &str = "mutants.txt";

/// A break of one line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mutant {
    /// The effect of the break.
    pub name: String,
    /// The broken file, relative to the root of the repository.
    pub file: String,
    /// The text in the file.
    pub old: String,
    /// The text that replaces it.
    pub new: String,
    /// The test with machines that must detect it; none: tests of packages.
    pub test: Option<String>,
}

impl Mutant {
    /// Returns the file's text below `root`, without and with the break.
    pub fn texts(&self, root: &Path) -> Result<(String, String)> {
        let Self { name, file, .. } = self;
        let text = fs::read_to_string(root.join(file))
            .with_context(|| format!("break '{name}': cannot read {file}"))?;
        let broken = self.break_text(&text)?;
        Ok((text, broken))
    }

    /// Returns the broken text. Fails unless the text to break occurs exactly once.
    fn break_text(&self, text: &str) -> Result<String> {
        let Self { name, file, old, new, .. } = self;
        match text.matches(old).count() {
            1 => Ok(text.replacen(old, new, 1)),
            count => bail!("break '{name}': its line stands in {file} {count} times (must be 1): {old}"),
        }
    }
}

/// Reads all lists of a repository, sorted by path.
pub fn load(root: &Path) -> Result<Vec<Mutant>> {
    let mut lists = Vec::new();
    find_lists(root, &mut lists)?;
    lists.sort();
    let mut all: Vec<Mutant> = Vec::new();
    for list in lists {
        let text = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
        let folder = list.strip_prefix(root)?.parent().context("the list is not in a folder")?;
        for mut mutant in parse(&text).with_context(|| list.display().to_string())? {
            let Mutant { name, file, .. } = &mut mutant;
            ensure!(all.iter().all(|other| other.name != *name), "{}: '{name}' again", list.display());
            *file = folder.join(&*file).display().to_string();
            all.push(mutant);
        }
    }
    Ok(all)
}

/// Collects the lists below a folder. Hidden folders and cargo's output hold copies of lists.
fn find_lists(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type()?.is_dir() {
            if name != "target" && !name.as_encoded_bytes().starts_with(b".") {
                find_lists(&path, found)?;
            }
        } else if name == FILE_NAME {
            found.push(path);
        }
    }
    Ok(())
}

/// Reads a list. Errors contain the line.
fn parse(text: &str) -> Result<Vec<Mutant>> {
    let mut all: Vec<Mutant> = Vec::new();
    let mut next = Mutant::default();
    for (number, line) in (1..).zip(text.lines()) {
        take_line(&mut next, line.trim_end()).with_context(|| format!("line {number}: {line}"))?;
        if line.starts_with('+') {
            let file = next.file.clone();
            let done = std::mem::replace(&mut next, Mutant { file, ..Mutant::default() });
            ensure!(all.iter().all(|other| other.name != done.name), "line {number}: '{}' again", done.name);
            all.push(done);
        }
    }
    ensure!(next.name.is_empty(), "the last break, '{}', is not whole", next.name);
    Ok(all)
}

fn take_line(next: &mut Mutant, line: &str) -> Result<()> {
    let Mutant { name, file, old, new, test } = next;
    match line.split_at_checked(1) {
        None | Some(("#", _)) => {}
        Some(("=", rest)) => {
            ensure!(name.is_empty(), "the break '{name}' before it is not whole");
            *file = rest.trim_start_matches('=').trim().to_owned();
        }
        Some(("?", rest)) => {
            ensure!(!name.is_empty() && old.is_empty(), "a test is named behind the break's name");
            *test = Some(rest.trim().to_owned());
        }
        Some(("-", rest)) => {
            ensure!(!name.is_empty() && old.is_empty(), "a break is a name, one line with -, one with +");
            *old = rest.trim().to_owned();
            ensure!(!old.is_empty(), "nothing to break");
        }
        Some(("+", rest)) => {
            ensure!(!old.is_empty(), "a break is a name, one line with -, one with +");
            *new = rest.trim().to_owned();
            ensure!(new != old, "this breaks nothing");
        }
        Some(_) => {
            ensure!(!file.is_empty(), "no file has been named");
            ensure!(name.is_empty(), "the break '{name}' before it is not whole");
            *name = line.to_owned();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# ours\n== a.rs\n\ncount twice\n- n += 1;\n+ n += 2;\n\n# more\nforget it\n? a::test\n- keep(it);\n+\n";

    #[test]
    fn breaks_are_read_in_order() {
        let all = parse(LIST).unwrap();
        let mutant = |name: &str, old: &str, new: &str, test: Option<&str>| Mutant {
            test: test.map(str::to_owned),
            name: name.into(),
            file: "a.rs".into(),
            old: old.into(),
            new: new.into(),
        };
        assert_eq!(
            all,
            [
                mutant("count twice", "n += 1;", "n += 2;", None),
                mutant("forget it", "keep(it);", "", Some("a::test"))
            ]
        );
    }

    #[test]
    fn lists_of_all_packages_are_read_in_order() {
        let root = tempfile::tempdir().unwrap();
        let write = |folder: &str, text: &str| {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(FILE_NAME), text).unwrap();
        };
        write("b/part", "== src/b.rs\nlast\n- b\n+\n");
        write("a", "== src/a.rs\nfirst\n- a\n+\n");
        for copy in [".hidden", "a/target"] {
            write(copy, "not a list");
        }
        let all = load(root.path()).unwrap();
        let files: Vec<_> = all.iter().map(|mutant| mutant.file.as_str()).collect();
        assert_eq!(files, ["a/src/a.rs", "b/part/src/b.rs"]);
        write("c", "== src/c.rs\nfirst\n- c\n+\n");
        assert!(load(root.path()).unwrap_err().to_string().ends_with("c/mutants.txt: 'first' again"));
    }

    #[test]
    fn incomplete_breaks_are_refused() {
        for (list, expected) in [
            ("forget it\n", "line 1: forget it"),
            ("== a.rs\n- old\n", "line 2: - old"),
            ("== a.rs\n? test\n", "line 2: ? test"),
            ("== a.rs\none\n+ new\n", "line 3: + new"),
            ("== a.rs\none\n-\n", "line 3: -"),
            ("== a.rs\none\n- old\n- old\n", "line 4: - old"),
            ("== a.rs\none\n- old\n+ old\n", "line 4: + old"),
            ("== a.rs\none\n- old\n== b.rs\n", "line 4: == b.rs"),
            ("== a.rs\none\ntwo\n", "line 3: two"),
            ("== a.rs\none\n- old\n", "the last break, 'one', is not whole"),
            ("== a.rs\none\n- x\n+\none\n- y\n+\n", "line 7: 'one' again"),
        ] {
            assert_eq!(parse(list).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn break_applies_where_its_line_is_unique() {
        let mutant = &parse(LIST).unwrap()[0];
        assert_eq!(mutant.break_text("a();\nn += 1;\nb();\n").unwrap(), "a();\nn += 2;\nb();\n");
        for (text, count) in [("a();\n", 0), ("n += 1;\nn += 1;\n", 2)] {
            let error = mutant.break_text(text).unwrap_err().to_string();
            let said = "break 'count twice': its line stands in a.rs";
            assert_eq!(error, format!("{said} {count} times (must be 1): n += 1;"));
        }
    }
}
