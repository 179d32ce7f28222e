//! Log files of bounded size: a process that writes to them, a guest above all, cannot fill the
//! disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::plain::Filter;

/// Largest size of a log file, in bytes. Newer text replaces older text.
pub(super) const MOST: usize = 1 << 20;

/// How long to wait for the last output of an ended process. It is in the pipe already.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A log: a thread copies the end of a process's output into a file.
#[derive(Debug)]
pub(super) struct Log {
    ended: Receiver<()>,
}

/// What happens when a process writes faster than its log is stored, for example while the lab
/// itself is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// The process waits.
    Waits,
    /// Its output is lost: it serves others, which must not wait for its log.
    Loses,
}

impl Log {
    /// Creates the file, and the pipe that a process writes to.
    pub(super) fn make(path: &Path, haste: Haste) -> io::Result<(Log, OwnedFd)> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let (output, input) = pipe_with(PipeFlags::CLOEXEC)?;
        if haste == Haste::Loses {
            fcntl_setfl(&input, OFlags::NONBLOCK)?;
        }
        let (end, ended) = channel();
        thread::spawn(move || {
            let mut tail = Tail { file, length: 0, left_out: 0 };
            // If the file cannot be written, the output is lost. Reading it still lets the process
            // continue.
            tail.copy(&mut File::from(output));
            drop(end);
        });
        Ok((Log { ended }, input))
    }

    /// Waits until all output of an ended process is in the file.
    pub(super) fn finish(&self) {
        // Nothing is ever sent: this waits for the thread's end.
        let _ = self.ended.recv_timeout(LAST_WORDS);
    }
}

/// A file that holds the end of a text.
struct Tail {
    file: File,
    length: usize,
    left_out: u64,
}

impl Tail {
    fn copy(&mut self, output: &mut impl Read) {
        let mut filter = Filter::default();
        let mut bytes = [0; 4096];
        let mut shown = String::new();
        loop {
            match output.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
                Ok(count) => filter.write(&bytes[..count], &mut shown),
            }
            let _ = self.append(&shown);
            shown.clear();
        }
        filter.finish(&mut shown);
        let _ = self.append(&shown);
    }

    fn append(&mut self, text: &str) -> io::Result<()> {
        if self.length + text.len() > MOST {
            self.shorten()?;
        }
        self.file.write_all_at(text.as_bytes(), self.length as u64)?;
        self.length += text.len();
        Ok(())
    }

    /// Keeps the last half, from the start of a line, after a note about what is missing.
    fn shorten(&mut self) -> io::Result<()> {
        let mut kept = vec![0; self.length.min(MOST / 2)];
        let from = self.length - kept.len();
        self.file.read_exact_at(&mut kept, from as u64)?;
        let start = kept.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let kept = &kept[start..];
        self.left_out += (self.length - kept.len()) as u64;
        let head = format!("[some {} bytes are left out here]\n", self.left_out);
        self.file.set_len(0)?;
        self.length = 0;
        for part in [head.as_bytes(), kept] {
            self.file.write_all_at(part, self.length as u64)?;
            self.length += part.len();
        }
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn log(haste: Haste) -> (tempfile::TempDir, Log, File) {
        let dir = tempfile::tempdir().unwrap();
        let (log, input) = Log::make(&dir.path().join("log"), haste).unwrap();
        (dir, log, File::from(input))
    }

    #[test]
    fn flooded_log_keeps_its_end() {
        let (dir, log, mut input) = log(Haste::Waits);
        for number in 0..200_000 {
            writeln!(input, "line {number} \x1b[2J").unwrap();
        }
        drop(input);
        log.finish();
        let kept = fs::read_to_string(dir.path().join("log")).unwrap();
        assert!((MOST / 2..=MOST).contains(&kept.len()), "{} bytes", kept.len());
        let mut lines = kept.lines();
        assert!(lines.next().unwrap().starts_with("[some "), "{kept:.80}");
        assert!(lines.all(|line| line.starts_with("line ") && line.ends_with(r"\x1b[2J")));
        assert!(kept.ends_with("line 199999 \\x1b[2J\n"));
    }

    #[test]
    fn line_without_end_is_bounded() {
        let (dir, log, mut input) = log(Haste::Waits);
        for _ in 0..100 {
            input.write_all(&[b'x'; 100_000]).unwrap();
        }
        drop(input);
        log.finish();
        assert!(fs::metadata(dir.path().join("log")).unwrap().len() <= MOST as u64);
    }

    #[test]
    fn log_of_a_server_never_blocks() {
        let (_dir, log, input) = log(Haste::Loses);
        assert!(rustix::fs::fcntl_getfl(&input).unwrap().contains(OFlags::NONBLOCK));
        drop(input);
        log.finish();
    }
}
