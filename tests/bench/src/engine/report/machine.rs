//! The environment of a run: machine, versions, command.

use std::fs;
use std::process::Command;
use std::time::SystemTime;

use hamlyn_lab::Kit;

/// Names and values.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Start of the run.
    pub start: SystemTime,
    /// Names and values, for readers.
    pub rows: Vec<(String, String)>,
}

impl Facts {
    /// Gathers the facts of this machine.
    pub fn gather(accelerator: &str) -> Self {
        let start = SystemTime::now();
        let command: Vec<String> = std::env::args().skip(1).collect();
        let qemu =
            Kit::find().map(|kit| output(&kit.qemu.to_string_lossy(), &["--version"])).unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
        let rows = [
            ("command", format!("./scripts/bench {}", command.join(" ")).trim_end().to_owned()),
            ("when", output("date", &["-u", "+%Y-%m-%d %H:%M UTC"])),
            ("processor", format!("{} ({cores} cores)", field("/proc/cpuinfo", "model name"))),
            ("memory", field("/proc/meminfo", "MemTotal")),
            ("load at the start", first_words("/proc/loadavg", 3)),
            ("host kernel", first_words("/proc/sys/kernel/osrelease", 1)),
            ("machines", format!("2, of one processor each, run by {accelerator}")),
            ("QEMU", first_line(&qemu)),
            ("guest kernel", guest_kernel()),
            ("hamlyn", env!("CARGO_PKG_VERSION").to_owned()),
            ("commit", output("git", &["describe", "--always", "--dirty"])),
        ];
        let rows = rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { start, rows }
    }
}

/// Returns the first line of a program's output; empty if there is no such program.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|output| first_line(&String::from_utf8_lossy(&output.stdout))).unwrap_or_default()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn first_words(file: &str, count: usize) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().take(count).collect::<Vec<_>>().join(" ")
}

/// Returns the first value of a name in a file of `name : value` lines.
fn field(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

/// Finds the version of the guest's kernel in its image.
fn guest_kernel() -> String {
    const MARK: &[u8] = b"Linux version ";
    let image = Kit::find().ok().and_then(|kit| fs::read(kit.kernel).ok()).unwrap_or_default();
    let start = image.windows(MARK.len()).position(|window| window == MARK);
    let text = start.map(|start| &image[start + MARK.len()..(start + MARK.len() + 64).min(image.len())]);
    let text = String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
    text.split_whitespace().next().unwrap_or_default().to_owned()
}
