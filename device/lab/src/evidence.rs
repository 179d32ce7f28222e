//! Log excerpts that are added to error messages.

use std::fmt::Write;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::plain::{Filter, plain};

/// Largest number of lines shown of a log's end.
pub(super) const LINES: usize = 25;
/// The same limit in bytes.
const BYTES: u64 = 16 << 10;

/// The logs of one virtual machine, each with its title.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence(Vec<(String, PathBuf)>);

impl Evidence {
    /// Creates it from logs.
    pub(super) fn new(logs: impl IntoIterator<Item = (String, PathBuf)>) -> Evidence {
        Evidence(logs.into_iter().collect())
    }

    /// Adds the ends of the logs to an error.
    pub(super) fn with<T>(&self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        result.map_err(|error| {
            let mut text = plain(&format!("{error:#}"));
            for (title, log) in &self.0 {
                let tail = tail(log);
                if !tail.is_empty() {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "\n--- the end of {title} ---\n{tail}");
                }
            }
            anyhow!(text)
        })
    }
}

/// Returns the last lines of a file, escaped for display. The result is empty if the file cannot be
/// read.
pub(super) fn tail(file: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(file)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
        let mut bytes = Vec::new();
        file.take(BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let mut text = String::new();
    let mut filter = Filter::default();
    filter.write(&read().unwrap_or_default(), &mut text);
    filter.finish(&mut text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_carries_the_ends_of_the_logs() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("vm0.log");
        let text: String = (0..100).map(|line| format!("line {line}\r\n")).collect();
        std::fs::write(&log, text).unwrap();
        let evidence =
            Evidence::new([("the console".into(), log), ("nothing".into(), dir.path().join("none"))]);
        let error = evidence.with::<()>(Err(anyhow!("it broke"))).unwrap_err().to_string();
        assert!(error.starts_with("it broke\n--- the end of the console ---\nline 75\n"), "{error}");
        assert!(error.ends_with("line 99"), "{error}");
    }

    #[test]
    fn guest_output_is_escaped_in_errors() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("vm0.log");
        std::fs::write(&log, b"a \x1b]0;title\x07 b\xff\xc2\x9b2J\r\nall is \xc3\xbc\tok\n").unwrap();
        assert_eq!(tail(&log), "a \\x1b]0;title\\x07 b\\xff\\xc2\\x9b2J\nall is \u{fc}\tok");
        let said = Evidence::default().with::<()>(Err(anyhow!("said \x1b[2J"))).unwrap_err().to_string();
        assert_eq!(said, "said \\x1b[2J");
    }
}
