//! A lab's machine, whatever program runs it.

use std::path::PathBuf;

use super::accel::Accelerator;
use super::functions::Functions;
use super::memory::Memory;
use super::vmm::Vmm;

/// Description of one of a lab's machines.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    /// The guest's host name.
    pub name: String,
    /// The program that runs it.
    pub vmm: Vmm,
    /// Its accelerator.
    pub accelerator: Accelerator,
    /// Whether it boots again when the guest asks for it, like a real machine. Otherwise it ends,
    /// also on a kernel panic. Cloud Hypervisor always boots it again.
    pub reboots: bool,
    /// Its memory.
    pub memory: Memory,
    /// Number of its processors, unless other arguments set it.
    pub processors: u16,
    /// The host's core that it is pinned to.
    pub core: Option<u16>,
    /// The kernel.
    pub kernel: PathBuf,
    /// The initial RAM disk.
    pub initrd: PathBuf,
    /// A read-only disk.
    pub disk: Option<PathBuf>,
    /// The drive with a disk that becomes its root.
    pub system: Option<String>,
    /// Additional words for the kernel's command line.
    pub append: String,
    /// The card's socket, where the VMM connects.
    pub card: PathBuf,
    /// PCI functions of the card.
    pub functions: Functions,
    /// Plugin that reports the machine's stores to the card.
    pub plugin: Option<PathBuf>,
    /// The serial console's socket, where QEMU listens. Cloud Hypervisor has none.
    pub console: PathBuf,
    /// File that keeps the end of the console's output.
    pub console_log: PathBuf,
    /// The agent's socket, where the VMM listens.
    pub agent: PathBuf,
    /// The machine monitor's socket, where the VMM listens.
    pub monitor: PathBuf,
    /// More arguments, for other devices.
    pub more: Vec<String>,
}

impl Machine {
    /// Returns the kernel's command line.
    pub(super) fn command_line(&self) -> String {
        // A kernel that panics reboots at once, or stops for inspection.
        let panic = if self.reboots { 0 } else { -1 };
        // `rootfstype`: the image's file system may need more than the half of a small machine's
        // memory that tmpfs would allow. `no_timer_check`: a kernel under emulation on a busy host
        // detects its timer too late, and panics. The rest and the parts of a PC that are left out
        // save an emulated machine 3 of the 6 seconds until it is ready: tests of unused ciphers,
        // checks of the certificates for signed modules, security modules without a policy, and
        // serial ports that do not exist.
        let fixed = "console=ttyS0 quiet rootfstype=ramfs no_timer_check cryptomgr.notests lsm= 8250.nr_uarts=1 \
                     initcall_blacklist=load_system_certificate_list";
        format!("{fixed} panic={panic} hamlyn.name={} {}", self.name, self.append).trim_end().to_owned()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::functions::CARD_SLOT;
    use super::*;

    /// Returns a machine without a disk, and whose card has one function.
    pub(in super::super) fn machine() -> Machine {
        let run = PathBuf::from("/run");
        Machine {
            name: "vm0".into(),
            vmm: Vmm::Qemu,
            accelerator: Accelerator::Tcg,
            reboots: false,
            memory: Memory::mib(256),
            processors: 1,
            core: None,
            kernel: PathBuf::new(),
            initrd: PathBuf::new(),
            disk: None,
            system: None,
            append: String::new(),
            card: run.join("card0.sock"),
            functions: Functions::new(CARD_SLOT, false, Vec::new()).unwrap(),
            plugin: None,
            console: run.join("vm0.console"),
            console_log: run.join("vm0.log"),
            agent: run.join("vm0.agent"),
            monitor: run.join("vm0.monitor"),
            more: Vec::new(),
        }
    }
}
