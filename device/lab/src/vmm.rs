//! The program that runs a lab's machines.

use std::env;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde::Deserialize;

use super::accel::{Accel, Accelerator};

/// A virtual machine monitor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vmm {
    /// QEMU, with or without KVM.
    #[default]
    Qemu,
    /// Cloud Hypervisor, which needs KVM.
    CloudHypervisor,
}

impl Vmm {
    /// Returns Cloud Hypervisor's program, from the first folder of `PATH` that has it.
    pub(super) fn find_cloud_hypervisor() -> anyhow::Result<PathBuf> {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut programs = env::split_paths(&path).map(|folder| folder.join("cloud-hypervisor"));
        programs.find(|program| program.is_file()).context(
            "no folder of PATH has cloud-hypervisor: get it from its project's releases, or take --vmm qemu",
        )
    }

    /// Chooses the accelerator of the machines.
    pub fn decide(self, accel: Accel) -> anyhow::Result<Accelerator> {
        match (self, accel) {
            (Vmm::Qemu, accel) => accel.decide(),
            (Vmm::CloudHypervisor, Accel::Tcg) => {
                bail!("Cloud Hypervisor does not emulate processors: --accel tcg needs --vmm qemu")
            }
            (Vmm::CloudHypervisor, Accel::Auto | Accel::Kvm) => {
                Accel::Kvm.decide().context("Cloud Hypervisor needs KVM (--vmm qemu does not)")
            }
        }
    }
}

impl Display for Vmm {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Vmm::Qemu => "QEMU",
            Vmm::CloudHypervisor => "Cloud Hypervisor",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_hypervisor_needs_kvm() {
        let error = Vmm::CloudHypervisor.decide(Accel::Tcg).unwrap_err().to_string();
        assert!(error.contains("does not emulate"), "{error}");
        match (Vmm::Qemu.decide(Accel::Auto).unwrap(), Vmm::CloudHypervisor.decide(Accel::Auto)) {
            (Accelerator::Kvm, decided) => assert_eq!(decided.unwrap(), Accelerator::Kvm),
            (Accelerator::Tcg, decided) => {
                let error = format!("{:#}", decided.unwrap_err());
                assert!(error.starts_with("Cloud Hypervisor needs KVM"), "{error}");
            }
        }
    }
}
