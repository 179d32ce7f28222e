//! QEMU's command line.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use hamlyn_agent::protocol::PORT;
use serde_json::json;

use super::accel::Accelerator;

/// A reply that comes after QEMU's time-out ruins the stream for good, and the default of 5 s is short for a host under
/// load. In milliseconds.
const MESSAGE_TIMEOUT: u32 = 20_000;

/// A guest's memory, in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory(u32);

impl Memory {
    /// The smallest that boots our image.
    const LEAST: u32 = 128;
    /// More than any host has.
    const MOST: u32 = 1 << 20;

    /// So many MiB.
    pub const fn mib(mib: u32) -> Memory {
        Memory(mib)
    }
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Memory, String> {
        let (digits, unit) = match text.strip_suffix(['G', 'g']) {
            Some(digits) => (digits, 1024),
            None => (text.strip_suffix(['M', 'm']).unwrap_or(text), 1),
        };
        let count: u32 = digits.parse().map_err(|_| format!("{text:?} is not a size such as 256M or 1G"))?;
        let mib = count.saturating_mul(unit);
        if !(Memory::LEAST..=Memory::MOST).contains(&mib) {
            return Err(format!("{mib} MiB is out of range (limits {} and {})", Memory::LEAST, Memory::MOST));
        }
        Ok(Memory(mib))
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}M", self.0)
    }
}

/// The arguments that any virtual machine needs to have the card: shared memory and the device.
pub fn card_arguments(socket: &Path, memory: Memory) -> Vec<String> {
    let device = json!({
        "driver": "vfio-user-pci",
        "socket": { "path": socket, "type": "unix" },
        "x-msg-timeout": MESSAGE_TIMEOUT,
    });
    // The card reaches the guest's memory through this file; with share=off its DMA would go nowhere, silently.
    let backend = format!("memory-backend-memfd,id=mem,size={memory},share=on");
    [
        ["-m", memory.to_string().as_str()],
        ["-object", &backend],
        ["-machine", "q35,memory-backend=mem"],
        ["-device", &device.to_string()],
    ]
    .concat()
    .into_iter()
    .map(str::to_owned)
    .collect()
}

/// One of a lab's machines.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    /// The guest's host name.
    pub name: String,
    /// What runs it.
    pub accelerator: Accelerator,
    /// Whether it boots again when the guest asks for it, as a real one. Otherwise it ends, also when its kernel panics.
    pub reboots: bool,
    /// Its memory.
    pub memory: Memory,
    /// The kernel.
    pub kernel: PathBuf,
    /// The initial RAM disk.
    pub initrd: PathBuf,
    /// Words added to the kernel's command line.
    pub append: String,
    /// The card's socket, where QEMU connects.
    pub card: PathBuf,
    /// The serial console's socket, where QEMU listens.
    pub console: PathBuf,
    /// Where all that the console shows is kept too.
    pub console_log: PathBuf,
    /// The agent's socket, where QEMU listens.
    pub agent: PathBuf,
    /// The machine monitor's socket, where QEMU listens.
    pub monitor: PathBuf,
    /// More arguments, for other devices.
    pub more: Vec<String>,
}

impl Machine {
    /// The whole command line, without the program.
    pub(super) fn arguments(&self) -> Vec<String> {
        let path = |path: &Path| escape(&path.to_string_lossy());
        let listen =
            |id: &str, socket: &Path| format!("socket,id={id},path={},server=on,wait=off", path(socket));
        // A kernel that panics reboots at once, or stays as it is for a person to see.
        let (reboot, panic): (&[_], _) = if self.reboots { (&[], 0) } else { (&["-no-reboot"], -1) };
        // The image's file system may take more than the half of a small machine's memory that tmpfs would.
        let fixed = "console=ttyS0 quiet rootfstype=ramfs";
        let command_line = format!("{fixed} panic={panic} hamlyn.name={} {}", self.name, self.append);
        let mut arguments = card_arguments(&self.card, self.memory);
        let fixed = ["-nodefaults", "-no-user-config", "-display", "none", "-smp", "1"];
        let fixed = fixed.iter().chain(reboot).copied().chain(self.accelerator.arguments());
        arguments.extend(fixed.map(str::to_owned));
        let options = [
            ("-kernel", self.kernel.to_string_lossy().into_owned()),
            ("-initrd", self.initrd.to_string_lossy().into_owned()),
            ("-append", command_line.trim_end().to_owned()),
            ("-chardev", format!("{},logfile={}", listen("console", &self.console), path(&self.console_log))),
            ("-serial", "chardev:console".to_owned()),
            ("-device", "virtio-serial-pci".to_owned()),
            ("-chardev", listen("agent", &self.agent)),
            ("-device", format!("virtserialport,chardev=agent,name={PORT}")),
            ("-chardev", listen("monitor", &self.monitor)),
            ("-qmp", "chardev:monitor".to_owned()),
        ];
        for (option, value) in options {
            arguments.extend([option.to_owned(), value]);
        }
        arguments.extend_from_slice(&self.more);
        arguments
    }
}

/// In QEMU's option lists a comma in a value is written twice.
fn escape(value: &str) -> String {
    value.replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_parsed_and_bounded() {
        assert_eq!("256M".parse(), Ok(Memory(256)));
        assert_eq!("2G".parse(), Ok(Memory(2048)));
        assert_eq!("192".parse(), Ok(Memory(192)));
        for wrong in ["", "M", "x", "-1", "64M", "9999999G", "1T"] {
            assert!(wrong.parse::<Memory>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_memory_is_shared_and_the_device_names_the_socket() {
        let arguments = card_arguments(Path::new("/run/card0.sock"), Memory::mib(512));
        assert!(arguments.contains(&"memory-backend-memfd,id=mem,size=512M,share=on".to_owned()));
        let device: serde_json::Value = serde_json::from_str(&arguments[7]).unwrap();
        assert_eq!(device["socket"]["path"], "/run/card0.sock");
        assert_eq!(device["x-msg-timeout"], 20_000);
    }

    #[test]
    fn commas_in_paths_do_not_end_an_option() {
        assert_eq!(escape("/a,b/c"), "/a,,b/c");
    }
}
