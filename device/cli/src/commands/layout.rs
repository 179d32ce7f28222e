//! Distribution of cards, switch and machines over processes and cores.

use std::fmt::{self, Display, Formatter};

use clap::{Args, ValueEnum};

use super::fabric::MOST_CORES;
use hamlyn_lab::{Builder, Vmm, cores};

/// The layout that the user asks for.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct LayoutArgs {
    /// Run each card, and the switch, as a separate process: they can fail, be limited and be
    /// killed individually (`up` restarts the switch), and a message wakes three of them on its
    /// way. Otherwise they are one process, and machines are pinned if there is a core for each
    #[arg(long, conflicts_with = "cores")]
    isolate: bool,
    /// Pin each machine to a core of this list, with the thread that serves it; reused from the
    /// first for more machines
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(..MOST_CORES))]
    cores: Vec<u16>,
}

/// How cards, switch and machines are spread over processes and cores, as a lab file names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LayoutName {
    /// One process, pinned if there is a core for each machine.
    #[default]
    Auto,
    /// A process for each card.
    Isolated,
    /// One process, with machines on the cores of a list.
    Cores,
}

/// A layout of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Layout {
    /// A process for each card and one for the switch.
    Isolated,
    /// One process.
    One,
    /// One process. Each machine is pinned to one of these cores, with the thread that serves it.
    Pinned(Vec<u16>),
}

impl LayoutArgs {
    /// Returns the layout's name in a lab file.
    pub(super) fn name(&self) -> LayoutName {
        match (self.isolate, self.cores.is_empty()) {
            (true, _) => LayoutName::Isolated,
            (false, false) => LayoutName::Cores,
            (false, true) => LayoutName::Auto,
        }
    }

    /// Chooses the layout, unless the user sets one.
    pub(super) fn choose(&self, vmm: Vmm, machines: usize) -> Layout {
        Layout::choose(vmm, self.name(), &self.cores, machines)
    }

    /// Returns the cores that the user names.
    pub(super) fn cores(&self) -> &[u16] {
        &self.cores
    }
}

/// Returns one process, pinned if there are several machines and a core for each. A single machine
/// has no peer, and may run anywhere.
fn fastest(machines: usize, cores: Vec<u16>) -> Layout {
    if machines > 1 && cores.len() == machines { Layout::Pinned(cores) } else { Layout::One }
}

impl Layout {
    /// Returns the layout of this name. `auto` is the fastest on this host; under Cloud Hypervisor,
    /// whose machines can end the process that maps their memory, it is a process for each.
    pub(super) fn choose(vmm: Vmm, name: LayoutName, listed: &[u16], machines: usize) -> Layout {
        match (name, vmm) {
            (LayoutName::Isolated, _) | (LayoutName::Auto, Vmm::CloudHypervisor) => Layout::Isolated,
            (LayoutName::Cores, _) => Layout::Pinned(listed.to_vec()),
            (LayoutName::Auto, Vmm::Qemu) => fastest(machines, cores(machines)),
        }
    }

    /// Applies the layout to a lab.
    pub(super) fn apply(&self, lab: Builder) -> Builder {
        match self {
            Layout::Isolated => lab.one_process(false).cores([]),
            Layout::One => lab.one_process(true).cores([]),
            Layout::Pinned(cores) => lab.one_process(true).cores(cores.iter().copied()),
        }
    }

    /// Returns its name for a table.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Layout::Isolated => "isolated",
            Layout::One => "one process",
            Layout::Pinned(_) => "one process, pinned",
        }
    }
}

impl Display for Layout {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Layout::Isolated => f.write_str("a process for each card"),
            Layout::One => f.write_str("one process for all cards"),
            Layout::Pinned(cores) => {
                let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
                write!(f, "one process for all cards, cores {}", cores.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fastest_possible_layout_is_chosen() {
        assert_eq!(fastest(2, vec![0, 3]), Layout::Pinned(vec![0, 3]));
        assert_eq!(fastest(3, vec![0, 3]), Layout::One, "too few cores");
        assert_eq!(fastest(1, vec![0]), Layout::One);
        let args = LayoutArgs { isolate: true, cores: Vec::new() };
        assert_eq!(LayoutArgs::default().choose(Vmm::CloudHypervisor, 2), Layout::Isolated);
        assert_eq!(args.choose(Vmm::Qemu, 2), Layout::Isolated);
        let args = LayoutArgs { isolate: false, cores: vec![5] };
        assert_eq!(args.choose(Vmm::Qemu, 2), Layout::Pinned(vec![5]));
        assert_eq!(args.choose(Vmm::Qemu, 2).to_string(), "one process for all cards, cores 5");
    }
}
