//! Hardware virtualisation, where it works.

use std::fmt::{self, Display, Formatter};
use std::fs::{self, OpenOptions};

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde::Deserialize;

/// The accelerator that the user asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// KVM where it works, otherwise TCG.
    #[default]
    Auto,
    /// Emulation: works everywhere.
    Tcg,
    /// The kernel's virtual machines: needs hardware virtualisation.
    Kvm,
}

/// The accelerator of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// Emulation.
    Tcg,
    /// The kernel's virtual machines.
    Kvm,
}

impl Accel {
    /// Chooses the accelerator. Fails with the reason if the user asks for KVM and it does not
    /// work.
    pub fn decide(self) -> anyhow::Result<Accelerator> {
        match self {
            Accel::Auto if kvm_works().is_ok() => Ok(Accelerator::Kvm),
            Accel::Auto | Accel::Tcg => Ok(Accelerator::Tcg),
            Accel::Kvm => {
                kvm_works().context("KVM does not work here (--accel tcg does)")?;
                Ok(Accelerator::Kvm)
            }
        }
    }
}

impl Accelerator {
    /// Returns its QEMU arguments.
    pub(super) fn arguments(self) -> [&'static str; 4] {
        match self {
            Accelerator::Tcg => ["-accel", "tcg", "-cpu", "max"],
            Accelerator::Kvm => ["-accel", "kvm", "-cpu", "host"],
        }
    }
}

impl Display for Accelerator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Accelerator::Tcg => "tcg",
            Accelerator::Kvm => "kvm",
        })
    }
}

/// Checks for KVM. `/dev/kvm` may open where it cannot run a stock kernel; only the processor's own
/// flags are reliable.
fn kvm_works() -> anyhow::Result<()> {
    OpenOptions::new().read(true).write(true).open("/dev/kvm").context("cannot open /dev/kvm")?;
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
    if !has_virtualisation(&cpuinfo) {
        bail!("the processor's flags in /proc/cpuinfo show neither svm nor vmx");
    }
    Ok(())
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
    fn only_the_flags_line_decides() {
        assert!(has_virtualisation("model name: x\nflags\t\t: fpu vmx sse\n"));
        assert!(has_virtualisation("flags\t\t: fpu svm\n"));
        assert!(!has_virtualisation("flags\t\t: fpu svm_lock\nvmx flags\t: vnmi\nbugs: vmx\n"));
    }

    #[test]
    fn user_choice_cannot_force_kvm() {
        assert_eq!(Accel::Tcg.decide().unwrap(), Accelerator::Tcg);
        match (Accel::Auto.decide().unwrap(), Accel::Kvm.decide()) {
            (Accelerator::Kvm, decided) => assert_eq!(decided.unwrap(), Accelerator::Kvm),
            (Accelerator::Tcg, decided) => {
                let error = format!("{:#}", decided.unwrap_err());
                assert!(error.starts_with("KVM does not work here (--accel tcg does): "), "{error}");
            }
        }
    }
}
