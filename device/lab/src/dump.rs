//! A dump of the memory of a machine of another process's lab.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::monitor::Monitor;

/// The name under which QEMU has the file.
const FILE: &str = "dump";

/// Time between two looks at how much is written.
const LOOK: Duration = Duration::from_millis(100);

/// Time without progress after which a dump has failed: a disk may be slow.
const STALLED: Duration = Duration::from_secs(120);

/// The form of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpFormat {
    /// An ELF core file, as large as the machine's memory.
    Elf,
    /// The form of kdump: pages are compressed, and those of zeros are left out.
    Compressed,
}

impl DumpFormat {
    /// Returns QEMU's name.
    fn name(self) -> &'static str {
        match self {
            DumpFormat::Elf => "elf",
            DumpFormat::Compressed => "kdump-raw-zlib",
        }
    }
}

/// A machine whose memory can be dumped, whatever its kernel does.
#[derive(Debug)]
pub struct Dump {
    monitor: Monitor,
    machine: String,
    memory: u64,
}

impl Dump {
    /// Connects to the monitor of a machine of the lab in this directory.
    pub fn of(lab: &Path, machine: &str) -> anyhow::Result<Dump> {
        let connect = || {
            let mut monitor = Monitor::connect(&lab.join(format!("{machine}.monitor")))?;
            let sizes = monitor.ask("query-memory-size-summary", &json!({}))?;
            Ok::<_, anyhow::Error>((monitor, memory(&sizes)?))
        };
        let (monitor, memory) = connect().with_context(|| machine.to_owned())?;
        Ok(Dump { monitor, machine: machine.to_owned(), memory })
    }

    /// Returns the size of the machine's memory, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Writes the machine's memory and registers into an empty file. The machine stands still
    /// meanwhile. `is_over` is asked again and again: once it is true, this fails at once, and QEMU
    /// writes the rest into the file, wherever that is.
    pub fn write(
        mut self,
        file: &File,
        format: DumpFormat,
        is_over: &dyn Fn() -> bool,
    ) -> anyhow::Result<()> {
        self.written(file, format, is_over).with_context(|| self.machine.clone())
    }

    fn written(&mut self, file: &File, format: DumpFormat, is_over: &dyn Fn() -> bool) -> anyhow::Result<()> {
        self.monitor.pass(file.as_fd(), FILE)?;
        let protocol = format!("fd:{FILE}");
        self.monitor.ask(
            "dump-guest-memory",
            &json!({ "paging": false, "protocol": protocol, "detach": true, "format": format.name() }),
        )?;
        let mut last = (Instant::now(), 0);
        loop {
            let state = self.monitor.ask("query-dump", &json!({}))?;
            let done = state["completed"].as_u64().unwrap_or(0);
            match state["status"].as_str() {
                Some("completed") if format == DumpFormat::Compressed => {
                    return name_system(file, &self.machine);
                }
                Some("completed") => return Ok(()),
                Some("active") => {}
                _ => bail!("{}", failure(&state, self.monitor.dump_error.as_deref())),
            }
            if done != last.1 {
                last = (Instant::now(), done);
            }
            ensure!(
                last.0.elapsed() < STALLED,
                "QEMU has written nothing for {STALLED:?}, after {done} of {} bytes",
                state["total"]
            );
            ensure!(!is_over(), "interrupted after {done} of {} bytes", state["total"]);
            sleep(LOOK);
        }
    }
}

/// Position of the system's names in a dump of kdump's form, and the size of each.
const NAMES: (u64, u64) = (12, 65);

/// Fills in the system's names, as of uname(2), in a dump of kdump's form. QEMU does not know them,
/// and without them libkdumpfile does not know the architecture. Readers take the release from the
/// kernel's own note.
fn name_system(file: &File, machine: &str) -> anyhow::Result<()> {
    let names = ["Linux", machine, "unknown", "unknown", "x86_64"];
    for (at, name) in (0..).zip(names) {
        let field = format!("{name}\0");
        file.write_all_at(field.as_bytes(), NAMES.0 + at * NAMES.1)
            .context("cannot write the dump's header")?;
    }
    Ok(())
}

/// Returns the size of a machine's memory, of QEMU's answer.
fn memory(sizes: &Value) -> anyhow::Result<u64> {
    let size = |name: &str| sizes[name].as_u64();
    let base = size("base-memory").with_context(|| format!("QEMU does not tell its memory: {sizes}"))?;
    Ok(base.saturating_add(size("plugged-memory").unwrap_or(0)))
}

/// Returns why a dump has failed.
fn failure(state: &Value, error: Option<&str>) -> String {
    let (done, total) = (&state["completed"], &state["total"]);
    let reason = error.unwrap_or("QEMU does not say why");
    format!("the dump has failed after {done} of {total} bytes: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_counts_what_was_plugged_in() {
        assert_eq!(memory(&json!({ "base-memory": 512, "plugged-memory": 256 })).unwrap(), 768);
        assert_eq!(memory(&json!({ "base-memory": 512 })).unwrap(), 512);
        assert!(memory(&json!({})).unwrap_err().to_string().contains("does not tell"));
    }

    #[test]
    fn names_of_the_system_fill_their_fields() {
        let file = tempfile::tempfile().unwrap();
        name_system(&file, "vm0").unwrap();
        let mut header = [0; 279];
        file.read_exact_at(&mut header, 0).unwrap();
        for (at, name) in [(12, "Linux\0"), (77, "vm0\0"), (142, "unknown\0"), (272, "x86_64\0")] {
            assert_eq!(&header[at..at + name.len()], name.as_bytes(), "{at}");
        }
        assert!(header[..12].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn failure_has_amount_and_reason() {
        let state = json!({ "status": "failed", "completed": 4096, "total": 8192 });
        assert_eq!(
            failure(&state, Some("dump: failed to save memory: No space left on device")),
            "the dump has failed after 4096 of 8192 bytes: dump: failed to save memory: No space left on device"
        );
        assert!(failure(&state, None).ends_with("QEMU does not say why"));
    }
}
