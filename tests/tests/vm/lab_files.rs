//! `hamlyn lab`: examples of docs/labs.md with real machines, and labs side by side.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Result, ensure};
use hamlyn_lab::hamlyn;
use hamlyn_tests::killed::Killed;
use tempfile::TempDir;

use crate::eventually;

struct Labs {
    run: TempDir,
}

impl Labs {
    fn new() -> Result<Labs> {
        let run = tempfile::tempdir()?;
        fs::set_permissions(run.path(), fs::Permissions::from_mode(0o700))?;
        Ok(Labs { run })
    }

    fn command(&self, words: &[&str]) -> Result<Command> {
        let mut command = Command::new(hamlyn()?);
        command.args(words).env("HAMLYN_RUN", self.run.path()).stdin(Stdio::null());
        Ok(command)
    }

    fn output(&self, words: &[&str]) -> Result<Output> {
        Ok(self.command(words)?.output()?)
    }

    /// Writes a lab file.
    fn file(&self, name: &str, text: &str) -> Result<String> {
        let path = self.run.path().join(name);
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    /// Returns the names of all folders in the run directory.
    fn folders(&self) -> Result<Vec<String>> {
        let entries = fs::read_dir(self.run.path())?.flatten().filter(|entry| entry.path().is_dir());
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }

    fn log(&self, lab: &str, log: &str) -> Result<String> {
        Ok(fs::read_to_string(self.run.path().join(lab).join(log))?)
    }
}

fn is_good(output: &Output) -> Result<()> {
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[test]
fn examples_of_two_machines_pass() -> Result<()> {
    let _turn = crate::turn(2);
    let labs = Labs::new()?;
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/labs");
    for name in ["pair", "mixed"] {
        let file = docs.join(format!("{name}.toml")).display().to_string();
        is_good(&labs.output(&["lab", "up", &file])?)?;
    }
    // Only logs are left.
    ensure!(labs.folders()? == ["ended-mixed", "ended-pair"], "{:?}", labs.folders()?);
    ensure!(labs.log("ended-pair", "run.1.log")?.contains("\"answered\":10"));
    ensure!(
        !labs.log("ended-mixed", "large.log")?.is_empty()
            && !labs.log("ended-mixed", "card1.log")?.is_empty()
    );
    Ok(())
}

#[test]
fn labs_run_side_by_side() -> Result<()> {
    let _turn = crate::turn(3);
    let labs = Labs::new()?;
    let stays =
        labs.file("stays.toml", "name = \"one\"\n[[machine]]\nmemory = \"256M\"\nname = \"sole\"\n")?;
    let mut up =
        Killed(labs.command(&["lab", "up", &stays])?.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    let asked = ["exec", "one/sole", "--", "hostname"];
    eventually(|| Ok(labs.output(&asked)?.stdout == b"sole\n"), "the first lab runs")?;
    // The driver keeps one terminus for itself.
    let fails = "name = \"two\"\n[[machine]]\nname = \"sole\"\nmemory = \"256M\"\nsettings = { termini = 16 }\n\
        [[machine]]\nname = \"other\"\nmemory = \"256M\"\n\
        [[run]]\nmachine = \"sole\"\ncommand = \"hamlyn-info --json\"\noutput = '\"termini\":15'\n\
        [[run]]\nmachine = \"other\"\ncommand = \"hamlyn-info --json\"\noutput = '\"termini\":63'\n\
        [[run]]\nmachine = \"sole\"\ncommand = \"echo working; sleep 1000\"\nbackground = true\nready = \"working\"\n\
        [[run]]\nmachine = \"sole\"\ncommand = \"echo bad; exit 4\"\n\
        [[run]]\nmachine = \"sole\"\ncommand = \"echo never\"\n\
        [[expect]]\ncounter = \"card.link_stalls\"\nat-least = 1000000\n";
    let output = labs.output(&["lab", "up", &labs.file("fails.toml", fails)?])?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{output:?}");
    for words in ["its exit status is 4 (expected 0)", "\nbad", "1 later runs are left out", "it is 0"] {
        ensure!(said.contains(words), "{words:?} is not in {said}");
    }
    ensure!(labs.folders()? == ["ended-two", "lab-one"], "{:?}", labs.folders()?);
    let again = labs.output(&["lab", "up", &stays])?;
    ensure!(String::from_utf8_lossy(&again.stderr).contains("runs already"), "{again:?}");
    // The first lab has not noticed anything.
    ensure!(labs.output(&asked)?.stdout == b"sole\n");
    let archive = labs.run.path().join("one.tar").display().to_string();
    is_good(&labs.output(&["lab", "logs", "one", "--archive", &archive])?)?;
    is_good(&labs.output(&["lab", "down", "one"])?)?;
    ensure!(up.0.wait()?.success() && labs.folders()? == ["ended-one", "ended-two"], "{:?}", labs.folders()?);
    Ok(())
}
