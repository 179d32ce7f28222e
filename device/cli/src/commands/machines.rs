//! Lookup of the machines that `hamlyn up` started, by name.

use std::path::PathBuf;

use anyhow::bail;
use hamlyn_host::rundir;

/// A machine of another process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    /// Its name in its lab.
    pub(super) name: String,
    /// Its lab's directory.
    pub(super) lab: PathBuf,
    /// Its console's socket, which only QEMU makes.
    pub(super) console: PathBuf,
}

impl Found {
    /// Returns its name with its lab's, which distinguishes it from others of its name.
    fn whole_name(&self) -> String {
        format!("{}/{}", self.lab.file_name().unwrap_or_default().to_string_lossy(), self.name)
    }

    /// Returns whether a user calls it so: `vm0`, `NAME/vm0`, or with the name of the directory.
    fn is_called(&self, name: &str) -> bool {
        let whole = self.whole_name();
        name == self.name || name == whole || whole.strip_prefix(rundir::LAB) == Some(name)
    }
}

/// Returns the machines of this user's running labs, sorted by name.
pub(super) fn all() -> anyhow::Result<Vec<Found>> {
    let mut all = Vec::new();
    // Skips labs that were killed as a whole, together with the keepers of their directories.
    for lab in rundir::all()?.into_iter().filter(|lab| !rundir::is_left_over(lab)) {
        for agent in std::fs::read_dir(&lab).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if agent.extension().is_some_and(|ending| ending == "agent") {
                let name = agent.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                all.push(Found { name, lab: lab.clone(), console: agent.with_extension("console") });
            }
        }
    }
    all.sort();
    Ok(all)
}

/// Finds the machine of this name: `vm0`, or `DIRECTORY/vm0` if there are several labs.
pub(super) fn find(name: &str) -> anyhow::Result<Found> {
    let all = all()?;
    let mut found = all.iter().filter(|machine| machine.is_called(name));
    match (found.next(), found.next()) {
        (Some(machine), None) => Ok(machine.clone()),
        (None, _) if all.is_empty() => {
            bail!("no machine is running: start some with hamlyn up or hamlyn lab up")
        }
        (first, _) => {
            let names: Vec<String> = all.iter().map(Found::whole_name).collect();
            let running = names.join(", ");
            if first.is_some() {
                bail!("several machines have the name {name:?}; running are: {running}");
            }
            bail!("machine {name:?} does not run; running are: {running}")
        }
    }
}
