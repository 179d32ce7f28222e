//! vsock between two machines: a third-party vhost-user device in a separate process.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::engine::exchange::words;
use crate::engine::scratch::folder;
use crate::engine::site::HostProgram;

/// The CID of the far machine: 0 to 2 are reserved.
pub const FAR: u32 = 4;

/// Timeout until it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// The process that carries the bytes. Dropping it ends it.
#[derive(Debug)]
pub struct Daemon {
    _process: HostProgram,
    directory: tempfile::TempDir,
}

impl Daemon {
    /// Starts it, if `./scripts/bench` could fetch it.
    pub fn start() -> anyhow::Result<Option<Self>> {
        let home = std::env::var_os("HAMLYN_BENCH").map(PathBuf::from).unwrap_or_default();
        let program = home.join("vsock/bin/vhost-device-vsock");
        if !program.is_file() {
            return Ok(None);
        }
        let directory = folder()?;
        let process = HostProgram::start(&program, &words(&arguments(directory.path())), None)?;
        let daemon = Self { _process: process, directory };
        let start = Instant::now();
        while !(0..2).all(|index| daemon.socket(index).exists()) {
            if start.elapsed() > PATIENCE {
                bail!("vhost-device-vsock does not listen after {PATIENCE:?}");
            }
            sleep(Duration::from_millis(20));
        }
        Ok(Some(daemon))
    }

    /// Returns the socket that this machine's QEMU connects to.
    pub fn socket(&self, index: usize) -> PathBuf {
        socket(self.directory.path(), index)
    }
}

fn socket(directory: &Path, index: usize) -> PathBuf {
    directory.join(format!("vhost{index}"))
}

/// Returns the arguments for two machines that may reach each other.
fn arguments(directory: &Path) -> String {
    let machine = |index: usize| {
        let (cid, socket) = (FAR - 1 + index as u32, socket(directory, index));
        let local = directory.join(format!("local{index}"));
        format!("--vm guest-cid={cid},socket={},uds-path={},groups=bench", socket.display(), local.display())
    };
    format!("{} {}", machine(0), machine(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_machines_are_in_one_group() {
        let text = arguments(Path::new("/d"));
        assert!(
            text.contains("guest-cid=3,socket=/d/vhost0") && text.contains("guest-cid=4,socket=/d/vhost1")
        );
        assert_eq!(text.matches("groups=bench").count(), 2);
    }
}
