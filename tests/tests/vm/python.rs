//! The package for Python in machines with Debian's Python.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hamlyn_lab::Vm;
use hamlyn_tests::python::{package, shared_library};

use crate::network::root;

/// The folder in each machine.
const FOLDER: &str = "/tmp/python";

/// Bytes of a file in each line of input.
const PIECE: usize = 32 << 10;

/// Copies a file of this host into a machine.
fn copy(vm: &Vm, from: &Path, to: &str) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    let script = format!("mkdir -p $(dirname {FOLDER}/{to}) && base64 -d > {FOLDER}/{to}");
    let mut run = vm.run_as(0, ["sh", "-c", &script])?;
    bytes.chunks(PIECE).try_for_each(|piece| run.say(&STANDARD.encode(piece)))?;
    run.close_stdin()?;
    run.finish_text().map(drop)
}

/// Copies package, library and test into a machine.
fn install(vm: &Vm) -> Result<()> {
    let folder = tempfile::tempdir()?;
    copy(vm, &shared_library(folder.path())?, "libhamlyn.so")?;
    copy(vm, &package().join("tests/ends.py"), "ends.py")?;
    for file in fs::read_dir(package().join("hamlyn"))? {
        let file = file?.path();
        let name = file.file_name().and_then(|name| name.to_str()).context("a name")?;
        if name.ends_with(".py") {
            copy(vm, &file, &format!("hamlyn/{name}"))?;
        }
    }
    Ok(())
}

/// Returns the command of an end.
fn end(role: &str) -> String {
    format!("cd {FOLDER} && HAMLYN_LIBRARY=$PWD/libhamlyn.so exec python3 ends.py {role}")
}

/// Processes in Python exchange messages between machines, and one is told of the other's death.
pub(crate) fn channels(client: &Vm, server: &Vm) -> Result<()> {
    [client, server].into_iter().try_for_each(install)?;
    for role in ["ask", "die"] {
        let mut serving = server.run(["sh", "-c", &end("serve")])?;
        ensure!(serving.line()? == "listening");
        let said = root(client, &end(role)).with_context(|| serving.stderr().to_owned())?;
        ensure!(said == "all as expected", "{role}: {said}");
        serving.wait()?;
    }
    Ok(())
}
