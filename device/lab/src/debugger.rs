//! A way for gdb into a machine of another process's lab.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::monitor;

/// A machine that gdb can connect to, until this is dropped.
#[derive(Debug)]
pub struct Debugger {
    monitor: PathBuf,
    socket: PathBuf,
}

impl Debugger {
    /// Opens the way into a machine of the lab in this directory. A machine has one at a time: a
    /// second call ends the first one's.
    pub fn start(lab: &Path, machine: &str) -> anyhow::Result<Debugger> {
        let [monitor, socket] = ["monitor", "gdb"].map(|ending| lab.join(format!("{machine}.{ending}")));
        // An earlier one may have been killed.
        let _ = fs::remove_file(&socket);
        monitor::serve_debugger(&monitor, Some(&socket)).with_context(|| machine.to_owned())?;
        ensure!(socket.exists(), "{machine}: QEMU does not listen for gdb at {}", socket.display());
        Ok(Debugger { monitor, socket })
    }

    /// Returns the socket for gdb's `target remote`.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Debugger {
    fn drop(&mut self) {
        // The machine may have ended. A machine that gdb has left goes on by itself; one whose gdb
        // was killed stands still.
        let _ = monitor::serve_debugger(&self.monitor, None);
        let _ = monitor::pause(&self.monitor, false);
        let _ = fs::remove_file(&self.socket);
    }
}
