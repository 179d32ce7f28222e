//! The list of breaks.
//!
//! ```text
//! # a comment
//! == a file, from the root of the repository
//!
//! a name
//! ? a test with machines that must detect it; if missing, the tests of the file's packages
//! - a piece of one line, which occurs exactly once in the file
//! + the text that replaces it; may be empty
//! ```

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

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

/// Reads a list. Errors contain the line.
pub fn parse(text: &str) -> Result<Vec<Mutant>> {
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
