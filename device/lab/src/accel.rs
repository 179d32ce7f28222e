//! Hardware virtualisation, where it really works.

use std::fmt::{self, Display, Formatter};
use std::fs::{self, OpenOptions};

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde::Deserialize;

/// What a person asks for.
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

/// What runs a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// Emulation.
    Tcg,
    /// The kernel's virtual machines.
    Kvm,
}

impl Accel {
    /// Decides. An error says why KVM, which the person insists on, cannot work.
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
    /// QEMU's arguments for it.
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

/// `/dev/kvm` may open where it cannot run a stock kernel: only the processor's own flags tell.
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
    fn only_the_processors_flags_decide() {
        assert!(has_virtualisation("model name: x\nflags\t\t: fpu vmx sse\n"));
        assert!(has_virtualisation("flags\t\t: fpu svm\n"));
        assert!(!has_virtualisation("flags\t\t: fpu svm_lock\nvmx flags\t: vnmi\nbugs: vmx\n"));
    }

    #[test]
    fn the_person_overrides_but_not_the_machine() {
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
