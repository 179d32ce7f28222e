//! `hamlyn exec` and `hamlyn cp` with a machine's agent that runs on this host, without virtual
//! machines.

mod copies;
mod programs;

use std::fs;
use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use hamlyn_host::rundir::claim;
use hamlyn_lab::Doorway;
use rustix::process::getuid;
use tempfile::TempDir;

/// A lab whose machine `vm0` is this host.
struct Lab {
    run: TempDir,
    /// Folder for the files of a test.
    here: TempDir,
    _claimed: OwnedFd,
    _door: Doorway,
}

impl Lab {
    fn open() -> Lab {
        let (run, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::set_permissions(run.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let lab = run.path().join("lab-x");
        fs::create_dir(&lab).unwrap();
        fs::write(lab.join("vm0.agent"), "").unwrap();
        let claimed = claim(&lab).unwrap();
        let (host, guest) = UnixStream::pair().unwrap();
        let input = BufReader::new(guest.try_clone().unwrap());
        thread::spawn(move || hamlyn_agent::serve::serve(input, guest, "vm0").unwrap());
        let door = Doorway::open(&lab, vec![("vm0".into(), host)]).unwrap();
        Lab { run, here, _claimed: claimed.into(), _door: door }
    }

    /// Returns a path in the test's own folder.
    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.here.path().join(name)
    }

    /// Returns a command of the program, run as the test's user.
    fn command(&self, command: &str) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_hamlyn"));
        program.env("HAMLYN_RUN", self.run.path()).current_dir(self.here.path());
        program.args([command, "--uid", &getuid().as_raw().to_string()]).stdin(Stdio::null());
        program
    }
}
