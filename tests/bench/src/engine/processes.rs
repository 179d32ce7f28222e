//! Processor time of this program's children: cards, switch, machines.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context;

/// A child process and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its process ID.
    pub pid: u32,
    /// `card0`, `switch`, `fabric`, `vm1`; empty for others.
    pub name: String,
}

impl Child {
    /// Returns whether it runs cards, a switch or both, and not a machine.
    pub fn is_service(&self) -> bool {
        self.name == "switch" || self.name == "fabric" || self.name.starts_with("card")
    }
}

/// Returns all children.
pub fn children() -> anyhow::Result<Vec<Child>> {
    let mut children = Vec::new();
    for thread in fs::read_dir("/proc/self/task").context("cannot read /proc")? {
        // A thread may end meanwhile, and so may a child.
        let Ok(thread) = thread else { continue };
        let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for pid in list.split_whitespace().filter_map(|pid| pid.parse().ok()) {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            children.push(Child { pid, name: name_of(&String::from_utf8_lossy(&arguments)) });
        }
    }
    Ok(children)
}

/// Returns the name from a command line whose words end with zeros.
fn name_of(arguments: &str) -> String {
    let words: Vec<&str> = arguments.split('\0').collect();
    let behind = |word: &str| {
        let position = words.iter().position(|other| *other == word)?;
        words.get(position + 1).copied()
    };
    let guest =
        behind("-append").and_then(|line| line.split(' ').find_map(|word| word.strip_prefix("hamlyn.name=")));
    let service = match words.get(1) {
        Some(&"fabric") => Some("fabric"),
        Some(&"card" | &"switch") => behind("--socket"),
        _ => None,
    };
    let service = service.map(|path| path.rsplit('/').next().unwrap_or(path).trim_end_matches(".sock"));
    guest.or(service).unwrap_or_default().to_owned()
}

/// Returns the processor time so far of each of these, in nanoseconds, by name. Skips processes
/// that have exited.
pub fn times(children: &[Child]) -> BTreeMap<String, u64> {
    let time = |child: &Child| Some((child.name.clone(), processor_time(child.pid).ok()?));
    children.iter().filter_map(time).collect()
}

/// Returns the processor time of all threads of a process, in nanoseconds.
pub fn processor_time(pid: u32) -> anyhow::Result<u64> {
    let folder = format!("/proc/{pid}/task");
    let mut sum = 0;
    for thread in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
        let Ok(thread) = thread else { continue };
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        sum += text.split(' ').next().and_then(|first| first.parse::<u64>().ok()).unwrap_or_default();
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_known_by_their_command_lines() {
        assert_eq!(name_of("/x/hamlyn\0card\0--socket\0/run/card0.sock\0--model\0hamlyn\0"), "card0");
        assert_eq!(name_of("/x/hamlyn\0switch\0--socket\0/run/switch.sock\0"), "switch");
        assert_eq!(
            name_of("/x/hamlyn\0fabric\0--socket\0/run/card0.sock\0--socket\0/run/card1.sock\0"),
            "fabric"
        );
        assert_eq!(name_of("/x/qemu\0-m\x00256M\0-append\0console=ttyS0 hamlyn.name=vm1\0"), "vm1");
        assert_eq!(name_of("/x/hamlyn\0keeper\0/run/lab-1\0"), "");
        assert_eq!(name_of(""), "");
    }

    #[test]
    fn processor_time_grows_with_work() {
        let before = processor_time(std::process::id()).unwrap();
        let sum = (0..50_000_000_u64).fold(0_u64, |sum, number| std::hint::black_box(sum ^ number));
        assert!(processor_time(std::process::id()).unwrap() > before, "{sum}");
        assert!(processor_time(u32::MAX).is_err());
    }
}
