//! What a person needs to see when something went wrong.

use std::fmt::Write;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::anyhow;

/// How much of a log's end is shown, in lines.
pub(super) const LINES: usize = 25;
/// The same in bytes.
const BYTES: u64 = 16 << 10;

/// The logs that tell about one virtual machine, each with its title.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence(Vec<(String, PathBuf)>);

impl Evidence {
    /// These logs.
    pub(super) fn new(logs: impl IntoIterator<Item = (String, PathBuf)>) -> Evidence {
        Evidence(logs.into_iter().collect())
    }

    /// Adds the logs' ends to an error.
    pub(super) fn with<T>(&self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        result.map_err(|error| {
            let mut text = format!("{error:#}");
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

/// The last lines of a file; empty if it cannot be read.
pub(super) fn tail(file: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(file)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
        let mut bytes = Vec::new();
        file.take(BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).replace('\r', "");
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
}
