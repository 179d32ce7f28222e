//! Hardware virtualisation, where it really works.

use std::fs::{self, OpenOptions};

use clap::ValueEnum;

/// What a person asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Accel {
    /// KVM where it works, otherwise TCG.
    #[default]
    Auto,
    /// Emulation: works everywhere.
    Tcg,
    /// The kernel's virtual machines: needs hardware virtualisation.
    Kvm,
}

impl Accel {
    /// QEMU's arguments for it.
    pub fn arguments(self) -> [&'static str; 4] {
        let kvm = match self {
            Accel::Auto => kvm_works(),
            Accel::Tcg => false,
            Accel::Kvm => true,
        };
        if kvm { ["-accel", "kvm", "-cpu", "host"] } else { ["-accel", "tcg", "-cpu", "max"] }
    }
}

/// `/dev/kvm` may open where it cannot run a stock kernel: only the processor's own flags tell.
fn kvm_works() -> bool {
    let opens = OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    opens && fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| has_virtualisation(&text))
}

fn has_virtualisation(cpuinfo: &str) -> bool {
    cpuinfo
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| line.split_whitespace().any(|flag| flag == "svm" || flag == "vmx"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_processors_flags_decide() {
        assert!(has_virtualisation("model name: x\nflags\t\t: fpu vmx sse\n"));
        assert!(has_virtualisation("flags\t\t: fpu svm\n"));
        assert!(!has_virtualisation("flags\t\t: fpu svm_lock\nvmx flags\t: vnmi\nbugs: vmx\n"));
    }

    #[test]
    fn the_person_overrides() {
        assert!(Accel::Tcg.arguments().contains(&"tcg"));
        assert!(Accel::Kvm.arguments().contains(&"kvm"));
    }
}
